"""A locked encoder: its features are computed once, kept in the run, and fed in the place of images (LiT)."""

from __future__ import annotations

from eigenview.batches import AnySource, LockedSource
from eigenview.data import Source
from eigenview.distributed import refusing_together
from eigenview.errors import SettingError
from eigenview.evaluation import extract
from eigenview.methods import find_method
from eigenview.nn import POOLED
from eigenview.runs import RunDirectory, TrainConfig
from eigenview.training.begun import Begun
from eigenview.training.processes import Processes
from eigenview.views import centre_view


def locked(config: TrainConfig, begun: Begun, images: AnySource, processes: Processes) -> LockedSource:
    """The readable images with the features of the view that evaluation sees too; a collective call."""
    with refusing_together(processes.group, processes.device):
        if not isinstance(images, Source):
            raise SettingError(
                "features of a locked encoder are kept by index; a stream has none: use an indexed source"
            )
        if find_method(config.method).fewest_views > 1:
            raise SettingError(f"{config.method} compares views; a locked encoder sees one: leave encoder.locked out")
    assert isinstance(images, Source)
    view = centre_view(begun.recipe, side=min(begun.shape[:2]))
    features = extract(
        begun.encoder.to(processes.device),
        images,
        view=view,
        cache=RunDirectory(config.out).features,
        workers=config.workers,
        title="features of the locked encoder",
        group=processes.group,
    )
    return LockedSource(images, features.index, features[POOLED])
