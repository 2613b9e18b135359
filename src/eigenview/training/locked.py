"""A locked encoder: its features are computed once, kept in the run, and fed in the place of images (LiT)."""

from __future__ import annotations

from collections.abc import Callable

from eigenview.batches import AnySource, LockedSource
from eigenview.data import Source
from eigenview.distributed import refusing_together
from eigenview.errors import SettingError
from eigenview.evaluation import extract
from eigenview.evaluation.features import keep_only
from eigenview.methods import find_method
from eigenview.names import printable
from eigenview.nn import POOLED
from eigenview.runs import RunDirectory, TrainConfig
from eigenview.training.begun import Begun
from eigenview.training.processes import Processes
from eigenview.views import centre_view


def locked(
    config: TrainConfig, begun: Begun, images: AnySource, processes: Processes, told: Callable[[str], None]
) -> LockedSource:
    """The readable images with the features of the view that evaluation sees too; a collective call.

    A run keeps one file of them: where its images or the library have changed, the former one goes.
    """
    with refusing_together(processes.group, processes.device):
        if not isinstance(images, Source):
            raise SettingError(
                "features of a locked encoder are kept by index; a stream has none: use an indexed source"
            )
        if find_method(config.method).fewest_views > 1:
            raise SettingError(f"{config.method} compares views; a locked encoder sees one: leave encoder.locked out")
    assert isinstance(images, Source)
    view = centre_view(begun.recipe, side=min(begun.shape[:2]))
    folder = RunDirectory(config.out).features
    features = extract(
        begun.encoder.to(processes.device),
        images,
        view=view,
        cache=folder,
        workers=config.workers,
        title="features of the locked encoder",
        group=processes.group,
    )
    if processes.is_first:
        size = keep_only(folder, features).stat().st_size
        told(f"features of {len(features.index):,} images are kept in {printable(folder)} ({size / 1e6:,.1f} MB)")
    return LockedSource(images, features.index, features[POOLED])
