"""What makes vectors (an encoder, its view, a layer), and what a file of them says about it."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from eigenview.batches import PROJECTION, Extractor
from eigenview.batches.identity import weights_identity
from eigenview.data import Failure
from eigenview.data.spec import OPENERS
from eigenview.errors import SettingError
from eigenview.names import is_code
from eigenview.nn import POOLED, Encoder
from eigenview.runs import OpenedRun, open_run
from eigenview.views import CentreView

AnyRun = str | Path | OpenedRun | Encoder

MARGIN = 1.25  # times the size to which pictures are brought first: within it, views differ by a margin alone
ALIKE = ("rounds_down", "is_exact")  # of a view: makes no difference that matters to a vector


@dataclass(frozen=True)
class About:
    """Where embeddings come from."""

    run: str  # its name
    run_folder: str | None  # where it was
    encoder: str  # hash of its weights and build
    layer: str
    view: str
    source: str  # in a few words
    spec: str | None  # what opens the source again; None where it was an object
    classes: tuple[str, ...] | None
    unreadable: tuple[Failure, ...]  # images left out, and why
    key: str  # hash of all that the vectors depend on
    version: str
    digest: str = ""  # SHA-256 of the vectors, row by row; empty in files of before
    loaded: dict[str, str] = field(default_factory=dict)  # name, library, weights, digest of the encoder to begin with


def views_apart(*views: str) -> list[str]:
    """What two views that embeddings tell of differ in, of each: ``resize=64, size=64`` and ``resize=96, size=96``.

    Empty where they show pictures alike: an encoder by name cuts off a margin that goes by the folder's images, so
    ``resize`` may differ a little, and how exactly photos are decoded is nobody's concern.
    """
    if views[0] == views[1]:
        return []
    parts = [dict(re.findall(r"(\w+)=(\(.*?\)|[^,()]+)", view)) for view in views]
    names = [name for name in {**parts[0], **parts[1]} if parts[0].get(name) != parts[1].get(name)]
    if names and set(names) <= {"resize", *ALIKE}:
        low, high = sorted(float(part.get("resize", 1)) for part in parts)
        names = ["resize"] if high > MARGIN * low else []
        if not names:
            return []
    return [", ".join(f"{name}={part.get(name, False)}" for name in names) for part in parts] if names else list(views)


def anchored(spec: str | Path) -> str:
    """The text of a source such that it opens from any working directory: its path, if it has one, made absolute."""
    text = str(spec)
    if isinstance(spec, Path) or Path(text).exists():
        return os.path.abspath(text)
    place, question, options = text.partition("?")
    kind, colon, rest = place.partition(":")
    if place in OPENERS or "://" in place:
        return text
    if colon and kind in OPENERS:
        return f"{kind}:{os.path.abspath(rest)}{question}{options}" if rest else text
    return text if is_code(place) else f"{os.path.abspath(place)}{question}{options}"


@dataclass(frozen=True)
class Maker:
    """Views (n, c, size, size) → vectors (n, d) of one layer; layers with positions are averaged over them."""

    extractor: Extractor
    view: CentreView
    name: str
    folder: Path | None
    loaded: Mapping[str, str] = field(default_factory=dict)  # name, library, weights, digest it began with

    @property
    def layer(self) -> str:
        return self.extractor.layers[0]

    @cached_property
    def identity(self) -> str:
        return weights_identity(*self.extractor.modules)

    @property
    def channels(self) -> int:
        return self.extractor.encoder.channels


def maker_of(run: AnyRun, *, view: CentreView | None = None, layer: str = POOLED) -> Maker:
    """From a run's folder, a run that is open, or an encoder of one's own with its ``view``."""
    if isinstance(run, Encoder):
        if view is None:
            raise SettingError("an encoder of your own needs view=, the CentreView that its images are seen through")
        return Maker(Extractor(run, (layer,)), view, type(run).__name__, None)
    if isinstance(run, (str, Path)):
        run = open_run(run)
    if not isinstance(run, OpenedRun):
        raise SettingError(f"a run is its folder, an open run, or an Encoder with view=; got {type(run).__name__}")
    head = run.needed_head() if layer == PROJECTION else None
    extractor = Extractor(run.encoder, (layer,), head)
    record = run.directory.encoder
    loaded: dict[str, str] = {} if record is None else {"name": record.settings.name}
    loaded |= {} if record is None else {name: getattr(record, name) for name in ("library", "weights", "digest")}
    return Maker(extractor, view or run.view, run.name, run.folder.resolve(), loaded)
