"""What makes vectors: the encoder of a run, the view it sees, and the layer that is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from eigenview.batches import PROJECTION, Extractor
from eigenview.batches.identity import weights_identity
from eigenview.errors import SettingError
from eigenview.nn import POOLED, Encoder
from eigenview.runs import OpenedRun, open_run
from eigenview.views import CentreView

AnyRun = str | Path | OpenedRun | Encoder


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
    return Maker(extractor, view or run.view, run.name, run.folder.resolve(), _loaded(run))


def _loaded(run: OpenedRun) -> dict[str, str]:
    record = run.directory.encoder
    if record is None:
        return {}
    return {"name": record.settings.name, "library": record.library, "weights": record.weights, "digest": record.digest}
