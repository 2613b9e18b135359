"""The batches of a run, as its method takes them."""

from collections.abc import Iterator

import torch
from torch import Tensor

from eigenview.batches import AnySource, LockedSource, ViewLoader
from eigenview.data import Source, StreamSource
from eigenview.data.columns import by_set
from eigenview.distributed import Group
from eigenview.errors import SettingError
from eigenview.methods import ViewedBatch
from eigenview.runs import RunDirectory, TrainConfig
from eigenview.views import Recipe, Views, shrink

STREAM_EPOCH = 1000  # steps called an epoch of a stream of unknown length, for a run measured in steps or minutes


class Feed:
    """The batches of a run. ``state`` and ``restore`` speak of completed steps."""

    def __init__(self, config: TrainConfig, source: AnySource, recipe: Recipe, *, channels: int, group: Group) -> None:
        self.source, self.recipe = source, recipe
        early, size = config.views.early_size, recipe.crops[0].size
        if early is not None and early > size:
            raise SettingError(f"views.early_size shrinks views, which have {size} pixels; got {early}")
        self._early = 1.0 if early is None else early / size
        self.early_share = config.views.early_share if self._early < 1 else 0.0  # of the run, with smaller views
        steps_per_epoch = None
        if isinstance(source, Source):
            if len(source) < config.batch_size:
                raise SettingError(
                    f"the batch of {config.batch_size} images is larger than the source ({len(source)} images): "
                    "lower batch_size"
                )
            if config.steps_per_epoch is not None:
                raise SettingError("steps_per_epoch is for streams; an epoch of an indexed source is all of its images")
        else:
            steps_per_epoch = batches_of_stream(config, source)
        self.loader = ViewLoader(
            source,
            Views(recipe, seed=config.seed),
            batch_size=config.batch_size,
            seed=config.seed,
            steps_per_epoch=steps_per_epoch,
            workers=config.workers,
            log=RunDirectory(config.out).unreadable_log,
            channels=channels,
            group=group,
        )

    @property
    def items(self) -> int | None:
        """None: a stream."""
        return len(self.source) if isinstance(self.source, Source) else None

    @property
    def views(self) -> tuple[int, ...]:
        """How many views of each resolution, large ones first."""
        return (1,) if isinstance(self.source, LockedSource) else tuple(crop.count for crop in self.recipe.crops)

    @property
    def class_count(self) -> int | None:
        if not isinstance(self.source, Source):
            return None if self.source.classes is None else len(self.source.classes)
        labels = self.source.labels
        return None if labels is None else int(labels.max()) + 1

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.loader)

    def epoch(self, number: int, *, device: torch.device, step: int) -> Iterator[ViewedBatch]:
        """The batches of an epoch from the restored position on; ``step`` counts the optimizer's, for the first."""
        for seen in self.loader.epoch(number, device=device):
            batch, views, features = seen.batch, seen.views, None
            if isinstance(self.source, LockedSource):
                features = self.source.features[batch.index.cpu()].to(batch.index.device)
            captions = None if batch.captions is None else tuple(map(by_set, batch.captions))
            yield ViewedBatch(views.groups, views.images, batch.index, batch.label, number, step, captions, features)

    def shrunk(self, groups: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The views of a batch, one tensor a resolution, as they are in the first part of the run."""
        return early_views(groups, self._early)

    def whole_pass(self, epoch: int, *, device: torch.device) -> Iterator[ViewedBatch]:
        """One pass over the data that leaves the position alone."""
        where = self.loader.state()
        yield from self.epoch(epoch, device=device, step=0)
        self.loader.restore(where)


def early_views(groups: tuple[Tensor, ...], smaller: float) -> tuple[Tensor, ...]:
    """The views of a batch, one tensor a resolution, at this share of their size."""
    return tuple(shrink(group, max(1, round(smaller * group.shape[-1]))) for group in groups) if smaller < 1 else groups


def batches_of_stream(config: TrainConfig, source: StreamSource) -> int:
    """Batches that are called an epoch: as told, by the number of items where it is known, or any number."""
    count = source.describe().count
    if config.steps_per_epoch is not None:
        return config.steps_per_epoch
    if count is not None:
        return max(1, count // config.batch_size)
    if config.epochs is not None:
        raise SettingError("nobody knows how long this stream is: give steps_per_epoch, or steps instead of epochs")
    return STREAM_EPOCH
