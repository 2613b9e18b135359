"""From a source to batches of views: arrays are augmented whole, photos are cropped as workers decode them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from eigenview.data import BatchSource, Loader, LoaderState, Source, StreamSource, decoded, open_source
from eigenview.distributed import Group
from eigenview.errors import DataError, SettingError
from eigenview.methods import ViewedBatch
from eigenview.training.config import TrainConfig, ViewSettings
from eigenview.views import Crop, Cropper, Recipe, ViewBatch, Views, auto_recipe, preset

IN_MEMORY = 4 << 30  # bytes of decoded pixels up to which a table of small images is kept decoded
SMALL_SIDE = 96  # pixels up to which that is worth it


class Feed:
    """The batches of a run. ``state`` and ``restore`` speak of completed steps."""

    def __init__(self, config: TrainConfig, source: Source, recipe: Recipe, *, group: Group, log: Path) -> None:
        if len(source) < config.batch_size:
            raise SettingError(
                f"the batch of {config.batch_size} images is larger than the source ({len(source)} images): "
                "lower batch_size"
            )
        self.source, self.recipe = source, recipe
        self.views = Views(recipe, seed=config.seed)
        self._cuts_in_workers = not isinstance(source, BatchSource)
        prepare = Cropper(recipe, seed=config.seed) if self._cuts_in_workers else None
        self.loader = Loader(
            source,
            batch_size=config.batch_size,
            seed=config.seed,
            prepare=prepare,
            workers=config.workers,
            log=log,
            group=group,
        )

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.loader)

    def epoch(self, number: int, *, device: torch.device, step: int) -> Iterator[ViewedBatch]:
        """The batches of an epoch from the restored position on; ``step`` counts the optimiser's, for the first."""
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
        where = self.loader.state()
        yield from self.epoch(epoch, device=device, step=0)
        self.loader.restore(where)

    def state(self) -> dict[str, int]:
        where = self.loader.state()
        return {name: getattr(where, name) for name in ("epoch", "step", "seed", "batch_size", "count")}

    def restore(self, state: dict[str, int]) -> None:
        self.loader.restore(LoaderState(**state))


def open_for_training(spec: str) -> Source:
    """The source, with small images of one size decoded once and for all."""
    source = open_source(spec)
    if isinstance(source, StreamSource):
        raise SettingError(f"{spec} is a stream; training needs a source with an index for now")
    if len(source) == 0:
        raise DataError(f"no images in {spec}")
    if isinstance(source, BatchSource):
        return source
    width, height = source.image(0).size
    fits = max(width, height) <= SMALL_SIDE and 3 * width * height * len(source) <= IN_MEMORY
    return decoded(source) if fits else source


def recipe_for(settings: ViewSettings, source: Source) -> Recipe:
    """The views that the settings name, or that fit the images."""
    pixels = source.image(0).pixels()
    height, width, channels = pixels.shape
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
