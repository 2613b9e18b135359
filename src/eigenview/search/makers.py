"""What makes vectors: the encoder of a run, the view it sees, and the layer that is read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from eigenview.data import Source
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import EvaluatedRun, open_run
from eigenview.evaluation.features import evaluating
from eigenview.evaluation.identity import weights_identity
from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import check_layers
from eigenview.views import CentreView

AnyRun = str | Path | EvaluatedRun | Encoder


@dataclass(frozen=True)
class Maker:
    """Views (n, c, size, size) → vectors (n, d), float32 on the CPU; layers with positions are averaged over them."""

    encoder: Encoder
    view: CentreView
    layer: str
    name: str
    folder: Path | None

    def __post_init__(self) -> None:
        check_layers([self.layer], self.encoder.layer_names)

    @cached_property
    def identity(self) -> str:
        return weights_identity(self.encoder)

    def __call__(self, images: Tensor) -> Tensor:
        device = next(self.encoder.parameters(), images).device
        with evaluating(self.encoder), torch.no_grad():
            rows = self.encoder.features(images.to(device, memory_format=torch.channels_last), [self.layer])[self.layer]
        return (rows if rows.ndim == 2 else rows.flatten(2).mean(dim=2)).float().cpu()


def maker_of(run: AnyRun, *, like: Source | None, view: CentreView | None, layer: str = POOLED) -> Maker:
    """From a run's folder, a run that is open, or an encoder of one's own with its ``view``.

    ``like`` is a source such as the run was trained on, for runs that did not write down how their images looked.
    """
    if isinstance(run, Encoder):
        if view is None:
            raise SettingError("an encoder of your own needs view=, the CentreView that its images are seen through")
        return Maker(run, view, layer, type(run).__name__, None)
    if isinstance(run, (str, Path)):
        if not Path(run).is_dir():
            raise DataError(f"no run in {run}: it is not a folder; is the path right?")
        run = open_run(run, like)
    if not isinstance(run, EvaluatedRun):
        raise SettingError(f"a run is its folder, an open run, or an Encoder with view=; got {type(run).__name__}")
    return Maker(run.encoder, view or run.view, layer, run.name, run.folder.resolve())
