"""ONNX: one file with the weights inside, any number of images at a time, checked in onnxruntime.

An encoder may take a head with it: from images to the probabilities of a user's own classes, as one module.
"""

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eigenview.batches import evaluating
from eigenview.batches.identity import weights_identity
from eigenview.errors import DataError, SettingError
from eigenview.extras import extra_module
from eigenview.files import to_json
from eigenview.graph.principal import Projection
from eigenview.labels import Head, Labeller
from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import Step
from eigenview.runs.card import KEY, Card
from eigenview.search.makers import views_apart
from eigenview.views import CentreView

TOLERANCE = 1e-4  # largest difference allowed, as a share of the largest feature: rounding in another order
CHECKED_BATCHES = (1, 2, 5)  # none of them alone shows that the number is free

Names = tuple[str, str]  # of the input and the output
Free = dict[int, Any]  # torch.export.Dim by dimension


def any_batch() -> Any:
    """A dimension of any size; not made at import, since torch loads SymPy for it."""
    return torch.export.Dim("batch", min=1)


def require_onnx() -> None:
    """Refuse before anything is computed if a library is missing."""
    for library in ("onnx", "onnxscript", "onnxruntime"):
        extra_module(library, extra="onnx", purpose="exporting to ONNX")


def write_onnx(module: nn.Module, example: Tensor, file: Path, *, card: str, names: Names, free: Free) -> None:
    """``module`` in eval mode as one file, the card included, with an input and an output of such ``names``.

    Dimensions in ``free`` of the input may have any size.
    """
    onnx = extra_module("onnx", extra="onnx", purpose="exporting to ONNX")
    with evaluating(module), quiet():
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            input_names=[names[0]],
            output_names=[names[1]],
            dynamic_shapes=(free,),
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, card
    onnx.checker.check_model(model)
    file.write_bytes(model.SerializeToString())


def in_onnxruntime(file: Path, names: Names) -> Callable[[Tensor], Tensor]:
    """What the file computes."""
    onnxruntime = extra_module("onnxruntime", extra="onnx", purpose="exporting to ONNX")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda rows: torch.from_numpy(session.run([names[1]], {names[0]: rows.cpu().numpy()})[0])


def write_encoder(encoder: Encoder, card: Card, file: Path) -> None:
    """``images`` (batch, c, size, size) → ``features`` (batch, d).

    With a head on it, ``probabilities`` (batch, K) of the card's classes.
    """
    size = card.input.size
    example = torch.zeros(2, card.input.channels, size, size, device=_device(encoder))
    write_onnx(encoder, example, file, card=to_json(card), names=_names(card), free={0: any_batch()})


def check_onnx(encoder: Encoder, card: Card, file: Path) -> float:
    """The largest difference to onnxruntime as a share of the largest feature; above 1e-4 it is refused."""
    worst = features_difference(encoder, in_onnxruntime(file, _names(card)), card, CHECKED_BATCHES)
    if not worst <= TOLERANCE:
        raise DataError(f"onnxruntime computes something else: features differ by {worst:.1e} of the largest; not kept")
    return worst


def features_difference(
    encoder: Encoder, loaded: Callable[[Tensor], Tensor], card: Card, batches: tuple[int, ...]
) -> float:
    """The largest difference to what was ``loaded`` as a share of the largest feature, on noise like normalised images.

    ``batches``: so many images at a time.
    """
    generator, given, worst = torch.Generator().manual_seed(0), card.input, 0.0
    mean, std = (torch.tensor(values)[:, None, None] for values in (given.mean, given.std))
    for count in batches:
        images = (torch.rand(count, given.channels, given.size, given.size, generator=generator) - mean) / std
        with evaluating(encoder):
            ours, theirs = encoder(images.to(_device(encoder))).cpu(), loaded(images)
        worst = max(worst, float((ours - theirs).abs().max() / ours.abs().max().clamp_min(1e-12)))
    return worst


def _names(card: Card) -> Names:
    return "images", "probabilities" if card.classes else "features"


def _device(encoder: Encoder) -> torch.device:
    first = next(encoder.parameters(), None)
    return torch.device("cpu") if first is None else first.device


@contextmanager
def quiet() -> Iterator[None]:
    """The exporter talks about its own affairs: deprecations inside, and what it is doing."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class LabellingEncoder(Encoder):
    """Images (n, channels, height, width) → probabilities (n, K)."""

    def __init__(self, encoder: Encoder, labeller: Labeller) -> None:
        super().__init__()
        self.encoder, self.least = encoder, labeller.projection.least
        self.channels, self.feature_width = encoder.channels, len(labeller.classes)
        head, projection = labeller.head, labeller.projection
        held: dict[str, Tensor | None] = {"weight": head.weight, "bias": head.bias, "mean": projection.mean}
        held |= {"centre": projection.centre, "directions": projection.directions}
        for name, tensor in held.items():
            self.register_buffer(name, None if tensor is None else tensor.float())

    def steps(self) -> list[Step]:
        return [("features", self.encoder), (POOLED, self._labelled)]

    def _labelled(self, vectors: Tensor) -> Tensor:
        centre, directions = self._buffers["centre"], self._buffers["directions"]  # None where there are few columns
        rows = Projection(self.get_buffer("mean"), self.least, centre, directions).at_once(vectors)
        return Head(self.get_buffer("weight"), self.get_buffer("bias")).probabilities(rows)


def with_head(encoder: Encoder, labeller: Labeller, view: CentreView) -> LabellingEncoder:
    """The two in one; a head that was made on vectors of another encoder or layer, or through another view, is refused.

    ``view`` is what the exported encoder's images are seen through.
    """
    if labeller.layer != POOLED:
        raise SettingError(f"this head reads the layer {labeller.layer}; only heads on {POOLED} are exported")
    if labeller.encoder and labeller.encoder != (own := weights_identity(encoder)):
        raise DataError(
            f"this head reads vectors of {labeller.run} ({labeller.encoder}), not of this encoder ({own}): "
            "export the one whose embeddings were labelled"
        )
    if labeller.view and (apart := views_apart(labeller.view, repr(view))):
        raise DataError(
            f"this head reads pictures seen at {apart[0]}, this encoder sees them at {apart[1]}: export the run whose "
            f"embeddings were labelled ({labeller.run})"
        )
    if len(labeller.projection.mean) != encoder.feature_width:
        raise DataError(
            f"this head reads vectors of {len(labeller.projection.mean)} numbers; the encoder gives "
            f"{encoder.feature_width}"
        )
    return LabellingEncoder(encoder, labeller).to(_device(encoder))
