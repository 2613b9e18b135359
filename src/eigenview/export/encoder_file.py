"""An encoder out of a run, in a form that others load."""

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from eigenview.errors import DataError, SettingError
from eigenview.export.names import architecture_of, options_of
from eigenview.export.onnx_file import check_onnx, features_difference, require_onnx, with_head, write_encoder
from eigenview.export.towers import ExportedTowers, export_towers, write_weights
from eigenview.files import atomic_path, to_json, write_text
from eigenview.labels import Labeller, read_labeller
from eigenview.names import Table
from eigenview.nn import Encoder, build_encoder, read_weights
from eigenview.nn.onnx_frozen import OnnxEncoder
from eigenview.runs import NamedEncoder, OpenedRun, is_run, open_named, open_run
from eigenview.runs.card import Card, card_of, read_card
from eigenview.views import CentreView

Format = Literal["safetensors", "onnx", "torchvision", "timm"]
CLASSIFIER = "classifier"  # what an encoder with a head is called in its run
SUFFIXES: Table[tuple[str, ...]] = Table(  # the first is the usual one
    "format of an export",
    {
        "safetensors": (".safetensors",),
        "onnx": (".onnx",),
        "torchvision": (".safetensors", ".pth", ".pt"),
        "timm": (".safetensors", ".pth", ".pt"),
    },
)


@dataclass(frozen=True)
class Exported:
    """What was written, and how far what loads back differs from the encoder (0: not at all)."""

    path: Path
    card: Card
    difference: float  # of the features, as a share of the largest; of the weights for torchvision and timm
    towers: ExportedTowers | None = None  # of a run that learnt from captions, as safetensors or onnx

    @property
    def how_to_load(self) -> str:
        """The lines that load the file, for the format it has."""
        options = "".join(f", {name}={value}" for name, value in self.card.options.items())
        named = {"architecture": self.card.architecture, "options": options}
        return _LOADING[self.card.format].format(path=str(self.path), **named)


@dataclass(frozen=True)
class LoadedEncoder:
    """An exported encoder, in eval mode, with the view that its images are seen through."""

    encoder: Encoder
    view: CentreView
    card: Card


def export(
    run: str | Path | OpenedRun | NamedEncoder | Encoder,
    to: Format,
    out: str | Path | None = None,
    *,
    view: CentreView | None = None,
    head: str | Path | Labeller | None = None,
) -> Exported:
    """Write the encoder of ``run``, or one by name, for others to load; it takes its place once it loads back right.

    - ``safetensors``: weights with a description, which :func:`load_exported` builds the encoder from; bit for bit.
    - ``onnx`` (extra ``onnx``): one file, any batch size; onnxruntime's features agree to 1e-4 of the largest.
    - ``torchvision``, ``timm``: weights under the names of that library's model, without its classifier ``fc``. An
      encoder that the library cannot hold is refused with the reason. ``out`` may end in .pth for a torch state dict.

    The normalisation of images is in the file: in the metadata ``eigenview``, and beside a .pth in ``OUT.json``.
    A run that learnt from captions comes with both towers and the tokenizer in a folder beside (:func:`export_towers`).
    Without ``out``: ``RUN/export/FORMAT`` with its suffix, or with a head ``classifier.onnx``. An encoder of one's own
    needs ``view``, and ``out``.
    ``head`` is what :func:`eigenview.labels.spread_labels` made, or its file: ONNX then gives ``probabilities`` of its
    classes, which the metadata names, instead of features.
    """
    SUFFIXES.find(to)
    if to == "onnx":
        require_onnx()
    elif head is not None:
        raise SettingError(f"a head goes with the encoder to onnx alone; got {to}")
    if isinstance(run, (str, Path)):
        run = open_run(run) if is_run(run) or os.sep in str(run) else open_named(str(run))
    encoder, seen = (run, view) if isinstance(run, Encoder) else (run.encoder, view or run.view)
    if seen is None:
        raise SettingError("an encoder of your own needs view=, the CentreView that its images are seen through")
    if isinstance(encoder, OnnxEncoder):
        raise SettingError(f"onnx:{encoder.file} holds no module to export: name the run or encoder that it came from")
    place = _place(run, to, out, to if head is None else CLASSIFIER)
    name, settings = (type(run).__name__, None) if isinstance(run, Encoder) else (run.name, run.settings)
    card = card_of(encoder, seen, name, settings, format=to)
    if to in ("torchvision", "timm"):
        card = replace(card, architecture=architecture_of(encoder, to), options=options_of(encoder))
    if head is not None:
        labeller = head if isinstance(head, Labeller) else read_labeller(head)
        encoder, card = with_head(encoder, labeller, seen), replace(card, classes=labeller.classes)
    with atomic_path(place) as file:
        difference = _write_checked(encoder, card, file)
    if place.suffix in (".pth", ".pt"):
        write_text(place.with_name(place.name + ".json"), to_json(card) + "\n")
    towers = None
    if isinstance(run, OpenedRun) and run.text is not None and (to == "onnx" or to == "safetensors"):
        towers = export_towers(run, to, None if out is None else place.with_name(f"{place.stem}-towers"))
    return Exported(place, card, difference, towers)


def load_exported(path: str | Path) -> LoadedEncoder:
    """The encoder that ``export(…, "safetensors", …)`` wrote, built and filled from the file alone."""
    place = Path(path)
    card = read_card(place)
    if card.format != "safetensors":
        raise DataError(f"{place} holds weights for {card.format}; load them there, or export to safetensors")
    if card.build is None:
        raise DataError(
            f"{place} does not say how its encoder is built, since it was not built by name: "
            "build it yourself and use eigenview.nn.load_weights"
        )
    encoder = build_encoder(**asdict(card.build))
    try:
        encoder.load_state_dict(read_weights(place), strict=True)
    except RuntimeError as error:
        why = str(error).splitlines()[-1].strip()
        raise DataError(f"{place} does not fit the encoder that it describes: {why}") from None
    return LoadedEncoder(encoder.eval(), card.view, card)


def _place(run: OpenedRun | NamedEncoder | Encoder, to: str, out: str | Path | None, usual: str) -> Path:
    if out is None:
        if not isinstance(run, OpenedRun):
            raise SettingError("an encoder that belongs to no run needs out (-o), the file to write")
        return run.directory.exports / f"{usual}{SUFFIXES[to][0]}"
    place = Path(out)
    if place.suffix not in SUFFIXES[to]:
        raise SettingError(f"{to} is written as {' or '.join(SUFFIXES[to])}; got {place.name!r}")
    if place.is_dir():
        raise SettingError(f"{place} is a folder; out is the file to write, such as {usual}{SUFFIXES[to][0]}")
    return place


def _write_checked(encoder: Encoder, card: Card, file: Path) -> float:
    """How far what loads back from the file differs, once it is written."""
    if card.format == "onnx":
        write_encoder(encoder, card, file)
        return check_onnx(encoder, card, file)
    difference = write_weights(encoder, file, to_json(card))
    if card.format != "safetensors" or card.build is None:
        return difference
    again = load_exported(file).encoder
    worst = features_difference(encoder, again, card, (2,))
    if not worst <= 1e-5:  # the same weights on another device may round otherwise
        raise DataError(f"the file gives other features than the encoder, by {worst:.1e} of the largest; not kept")
    return worst


_LOADING = {
    "safetensors": "from eigenview.export import load_exported\nencoder = load_exported({path!r}).encoder",
    "onnx": "import onnxruntime\nsession = onnxruntime.InferenceSession({path!r})",
    "torchvision": (
        "from eigenview.nn import read_weights  # or safetensors.torch.load_file\n"
        "model = torchvision.models.{architecture}()\n"
        "model.load_state_dict(read_weights({path!r}), strict=False)  # all but its classifier, fc"
    ),
    "timm": "model = timm.create_model({architecture!r}{options}, num_classes=0, checkpoint_path={path!r})",
}
