"""ONNX: one file with the weights inside, any number of images at a time, checked in onnxruntime."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import torch
from torch import Tensor

from eigenview.batches import evaluating
from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.files import to_json
from eigenview.nn import Encoder
from eigenview.runs.card import KEY, Card

INPUT, OUTPUT, LABELLED = "images", "features", "probabilities"
TOLERANCE = 1e-4  # largest difference allowed, as a share of the largest feature: rounding in another order
CHECKED_BATCHES = (1, 2, 5)  # none of them alone shows that the number is free


def require_onnx() -> None:
    """Refuse before anything is computed if a library is missing."""
    for library in ("onnx", "onnxscript", "onnxruntime"):
        extra_module(library, extra="onnx", purpose="exporting to ONNX")


def write_onnx(encoder: Encoder, card: Card, file: Path) -> None:
    """The encoder in eval mode: ``images`` (batch, c, size, size) → ``features`` (batch, d), the card included.

    With a head on it, ``probabilities`` (batch, K) of the card's classes.
    """
    onnx = extra_module("onnx", extra="onnx", purpose="exporting to ONNX")
    size = card.input.size
    example = torch.zeros(2, card.input.channels, size, size, device=_device(encoder))
    with evaluating(encoder), quiet():
        program = torch.onnx.export(
            encoder,
            (example,),
            dynamo=True,
            input_names=[INPUT],
            output_names=[_output(card)],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, to_json(card)
    onnx.checker.check_model(model)
    file.write_bytes(model.SerializeToString())


def check_onnx(encoder: Encoder, card: Card, file: Path) -> float:
    """The largest difference to onnxruntime as a share of the largest feature; above 1e-4 it is refused."""
    onnxruntime = extra_module("onnxruntime", extra="onnx", purpose="exporting to ONNX")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def theirs(images: Tensor) -> Tensor:
        return torch.from_numpy(session.run([_output(card)], {INPUT: images.numpy()})[0])

    worst = features_difference(encoder, theirs, card, CHECKED_BATCHES)
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


def _output(card: Card) -> str:
    return LABELLED if card.classes else OUTPUT


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
