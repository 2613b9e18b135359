"""Whole batches of uint8 images to normalised float views, on the device where the images are.

The order of a view: crop with flip and blur as two matrix products (or blur alone, for crops cut by a worker), a small
turn, the colour matrix with the normalisation folded in, one clamp to [0, 1], solarise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from eigenview.errors import SettingError, ShapeError
from eigenview.views.draw import Ints, Keys, view_keys
from eigenview.views.memory import empty_floats
from eigenview.views.recipe import Crop, Recipe
from eigenview.views.work import BlurWork, CropWork, FinishWork

# Values in a block of images: temporaries stay near the core, and their memory is reused instead of mapped anew.
CROP_NUMBERS = 1 << 20  # many small images, for matrix products that are worth starting
FINISH_NUMBERS = 1 << 18  # one view at 224 pixels: what is blurred need not be gathered first


@dataclass(frozen=True)
class ViewBatch:
    """V views of n images, one tensor for each entry of the recipe's crops, so that an encoder is called once for each.

    ``groups[g]`` is (countᵍ · n, c, sizeᵍ, sizeᵍ), view after view: rows 0 … n − 1 are its first view of every image.
    """

    groups: tuple[Tensor, ...]
    images: int

    @property
    def views(self) -> list[Tensor]:
        """All V views in order, each (n, c, size, size), without copies."""
        return [view for group in self.groups for view in torch.split(group, self.images)]


@dataclass(frozen=True)
class Views:
    """The views of a recipe: a pure function of (seed, epoch, item index, view number).

    Array sets: ``views(images, indices, epoch=…)`` with uint8 images (n, c, h, w), c 1 or 3.
    Photos: a ``Cropper`` cuts each photo's crops in a worker, ``views.finish(crops, indices, epoch=…)`` does the rest.
    """

    recipe: Recipe
    seed: int = field(default=0, kw_only=True)

    def __call__(self, images: Tensor, indices: Tensor | Sequence[int], *, epoch: int) -> ViewBatch:
        check_images(images)
        groups = []
        for crop, keys in self._keys(item_numbers(indices, len(images)), epoch):
            out = _empty_views(images, crop)
            crops = [CropWork(self.recipe, crop, own, images) for own in keys]
            finishes = [FinishWork(self.recipe, own, images) for own in keys]
            for block in blocks(images, CROP_NUMBERS // max(images[0].numel(), out[0].numel())):
                pixels = images[block].to(torch.float32)
                for cropping, finish, view in zip(crops, finishes, torch.split(out, len(images)), strict=True):
                    finish(cropping(pixels, block), block, out=view[block])
            groups.append(out)
        return ViewBatch(tuple(groups), images=len(images))

    def finish(self, crops: Sequence[Tensor], indices: Tensor | Sequence[int], *, epoch: int) -> ViewBatch:
        """Blur, colour and normalise crops cut by a ``Cropper``: one uint8 tensor (n, c, size, size) for each view."""
        check_crops(crops, self.recipe)
        waiting = iter(crops)
        groups = []
        for crop, keys in self._keys(item_numbers(indices, len(crops[0])), epoch):
            out = _empty_views(crops[0], crop)
            for own, view in zip(keys, torch.split(out, len(crops[0])), strict=True):
                images = next(waiting)
                blurring, finish = BlurWork(self.recipe, crop, own, images), FinishWork(self.recipe, own, images)
                for block in blocks(images, FINISH_NUMBERS // images[0].numel()):
                    pixels = images[block].to(torch.float32, memory_format=torch.contiguous_format)
                    finish(blurring(pixels, block), block, out=view[block])
            groups.append(out)
        return ViewBatch(tuple(groups), images=len(crops[0]))

    def _keys(self, numbers: Ints, epoch: int) -> list[tuple[Crop, Keys]]:
        return [(crop, view_keys(self.seed, epoch, numbers, views)) for crop, views in crop_views(self.recipe)]


def blocks(images: Tensor, together: int) -> list[slice]:
    """The images in blocks of ``together`` (at least one), so that a core's cache holds them; one block elsewhere."""
    count = len(images)
    step = max(1, together) if images.device.type == "cpu" else count
    return [slice(first, first + step) for first in range(0, count, step)]


def _empty_views(like: Tensor, crop: Crop) -> Tensor:
    return empty_floats((crop.count * len(like), like.shape[1], crop.size, crop.size), like.device)


def crop_views(recipe: Recipe) -> list[tuple[Crop, range]]:
    """Each crop of a recipe with the numbers of its views, counted through all crops."""
    ends = accumulate(crop.count for crop in recipe.crops)
    return [(crop, range(end - crop.count, end)) for crop, end in zip(recipe.crops, ends, strict=True)]


def check_images(images: Tensor) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
        raise ShapeError(
            "images must be a non-empty uint8 tensor (n, c, h, w) with 1 or 3 channels, values 0 to 255; "
            f"got {tuple(images.shape)}, {images.dtype}"
        )


def check_crops(crops: Sequence[Tensor], recipe: Recipe) -> None:
    sizes = [crop.size for crop, views in crop_views(recipe) for _ in views]
    arrived = [tuple(crop.shape) for crop in crops]
    wanted = [(*arrived[0][:2], size, size) for size in sizes] if arrived else None
    if arrived != wanted or any(crop.dtype != torch.uint8 for crop in crops):
        raise ShapeError(
            f"crops must be {len(sizes)} uint8 tensors (n, c, size, size) with sizes {sizes}, one a view, as a Cropper "
            f"of the same recipe cuts them; got {arrived}, {sorted({str(crop.dtype) for crop in crops})}"
        )
    check_images(crops[0])


def item_numbers(indices: Tensor | Sequence[int], count: int) -> Ints:
    numbers = indices.detach().cpu().numpy() if isinstance(indices, Tensor) else np.asarray(indices)
    if numbers.shape != (count,) or not np.issubdtype(numbers.dtype, np.integer):
        raise ShapeError(f"indices must be {count} whole numbers, one an image; got {numbers.shape}, {numbers.dtype}")
    if numbers.min() < 0:
        raise SettingError(f"indices are an item's place in its source, from 0; got {numbers.min()}")
    return numbers.astype(np.int64)
