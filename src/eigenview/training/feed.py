"""From a source to batches of views: arrays are augmented whole, photos are cropped as workers decode them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from eigenview.data import (
    BatchSource,
    Item,
    LazyImage,
    Loader,
    LoaderState,
    Source,
    StreamLoader,
    StreamSource,
    StreamState,
    UnreadableImage,
    decoded,
    open_source,
)
from eigenview.data.source import Share
from eigenview.distributed import Group
from eigenview.errors import DataError, SettingError
from eigenview.methods import ViewedBatch
from eigenview.training.config import TrainConfig, ViewSettings
from eigenview.views import Crop, Cropper, Recipe, ViewBatch, Views, auto_recipe, preset

AnySource = Source | StreamSource
Shape = tuple[int, int, int]  # height, width, channels

IN_MEMORY = 4 << 30  # bytes of decoded pixels up to which a table of small images is kept decoded
SMALL_SIDE = 96  # pixels up to which that is worth it
STREAM_EPOCH = 1000  # steps called an epoch of a stream of unknown length, for a run measured in steps or minutes


class Feed:
    """The batches of a run. ``state`` and ``restore`` speak of completed steps."""

    def __init__(self, config: TrainConfig, source: AnySource, recipe: Recipe, *, group: Group, log: Path) -> None:
        self.source, self.recipe = source, recipe
        self.views = Views(recipe, seed=config.seed)
        self._cuts_in_workers = not isinstance(source, BatchSource)
        options: dict[str, Any] = {
            "batch_size": config.batch_size,
            "seed": config.seed,
            "prepare": Cropper(recipe, seed=config.seed) if self._cuts_in_workers else None,
            "workers": config.workers,
            "log": log,
            "group": group,
        }
        self.loader: Loader | StreamLoader
        if isinstance(source, StreamSource):
            self._batches = batches_of_stream(config, source)
            self.loader = StreamLoader(source, steps_per_epoch=self._batches, **options)
        else:
            _check_length(config, source)
            self.loader = Loader(source, **options)
            self._batches = len(self.loader)

    @property
    def items(self) -> int | None:
        """None: a stream."""
        return None if isinstance(self.source, StreamSource) else len(self.source)

    @property
    def class_count(self) -> int | None:
        if isinstance(self.source, StreamSource):
            return None if self.source.classes is None else len(self.source.classes)
        labels = self.source.labels
        return None if labels is None else int(labels.max()) + 1

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._batches

    def epoch(self, number: int, *, device: torch.device, step: int) -> Iterator[ViewedBatch]:
        """The batches of an epoch from the restored position on; ``step`` counts the optimizer's, for the first."""
        self.loader.set_epoch(number)
        for batch in self.loader:
            batch = batch.to(device)
            made = self._views_of(batch.views, batch.index, number)
            yield ViewedBatch(made.groups, made.images, batch.index, batch.label, number, step)

    def _views_of(self, images: tuple[torch.Tensor, ...], index: torch.Tensor, epoch: int) -> ViewBatch:
        if self._cuts_in_workers:
            return self.views.finish(images, index, epoch=epoch)
        return self.views(images[0], index, epoch=epoch)

    def whole_pass(self, epoch: int, *, device: torch.device) -> Iterator[ViewedBatch]:
        """One pass over the data that leaves the position alone."""
        where = self.state()
        yield from self.epoch(epoch, device=device, step=0)
        self.restore(where)

    @property
    def is_at_start_of_epoch(self) -> bool:
        return self.loader.state().step == 0

    @property
    def batches_left(self) -> int:
        """Of the epoch under way."""
        return len(self) - self.loader.state().step

    def state(self) -> dict[str, int]:
        return asdict(self.loader.state())

    def restore(self, state: dict[str, int]) -> None:
        if isinstance(self.loader, StreamLoader):
            self.loader.restore(StreamState(**state))
        else:
            self.loader.restore(LoaderState(**state))


def _check_length(config: TrainConfig, source: Source) -> None:
    if len(source) < config.batch_size:
        raise SettingError(
            f"the batch of {config.batch_size} images is larger than the source ({len(source)} images): "
            "lower batch_size"
        )
    if config.steps_per_epoch is not None:
        raise SettingError("steps_per_epoch is for streams; an epoch of an indexed source is all of its images")


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


def open_for_training(spec: str) -> AnySource:
    """The source, with small images of one size decoded once and for all."""
    source = open_source(spec)
    if isinstance(source, StreamSource):
        return source
    if len(source) == 0:
        raise DataError(f"no images in {spec}")
    if isinstance(source, BatchSource):
        return source
    height, width, _ = first_shape(source)
    fits = max(width, height) <= SMALL_SIDE and 3 * width * height * len(source) <= IN_MEMORY
    return decoded(source) if fits else source


def first_shape(source: AnySource) -> Shape:
    """Height, width and channels of the first image that can be read."""
    for image in _images(source):
        try:
            height, width, channels = image().pixels().shape
        except UnreadableImage:
            continue
        return height, width, channels
    raise DataError("none of the images can be read; `eigenview data check` says why")


def _images(source: AnySource) -> Iterator[Callable[[], LazyImage]]:
    if not isinstance(source, StreamSource):
        yield from (partial(source.image, index) for index in range(len(source)))
        return
    for item in source.items(Share(seed=0, epoch=0), shuffle=False):
        if isinstance(item, Item):
            yield partial(getattr, item, "image")


def recipe_for(settings: ViewSettings, source: AnySource) -> Recipe:
    """The views that the settings name, or that fit the images."""
    height, width, channels = first_shape(source)
    recipe = auto_recipe(height, width, channels) if settings.preset == "auto" else preset(settings.preset)
    if channels == 1 and len(recipe.mean) == 3:
        recipe = replace(recipe, mean=recipe.mean[:1], std=recipe.std[:1])
    if settings.crops is not None and settings.size is not None:
        raise SettingError("views.size and views.crops exclude each other: the crops have their own sizes")
    if settings.crops is not None:
        return recipe.with_crops([Crop(crop.size, crop.count, crop.scale) for crop in settings.crops])
    if settings.size is not None:
        return recipe.with_crops([replace(crop, size=settings.size) for crop in recipe.crops])
    return recipe
