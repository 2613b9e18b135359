"""Whole batches of uint8 images to normalised float views, on the device where the images are.

The order of a view: crop with flip and blur as two matrix products (or blur alone, for crops cut by a worker), a small
turn, the colour matrix with the normalisation folded in, one clamp to [0, 1], solarise. What is done to a view is drawn
once for all its images, and applied a block of images at a time.
"""

import math
import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from eigenview.errors import SettingError, ShapeError
from eigenview.views.colour import colour_matrices, colour_steps, luma_row
from eigenview.views.parameters import Colours, Ints, Keys, draw_boxes, draw_colours, draw_sigmas, draw_turns, view_keys
from eigenview.views.recipe import Crop, Recipe
from eigenview.views.resample import blur, blur_matrix, crop_span, resample, resampling_matrix, turn

_LARGE = 1 << 25  # bytes: glibc keeps and reuses what is smaller, so its pages have been touched already


def empty_floats(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """An uninitialised float32 tensor. Where Linux offers huge pages, a large one on the CPU lies in them.

    A batch of views is too large for the allocator to keep, so each comes in fresh pages; touching them for the first
    time 4 kB at a time took 0.2 ms a view at 224 pixels, a quarter of all the batch stage does. The tensor owns its
    memory like any other, except that its storage cannot grow.
    """
    numbers = math.prod(shape)
    if device.type != "cpu" or 4 * numbers < _LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(shape, dtype=torch.float32, device=device)
    pages = mmap.mmap(-1, 4 * numbers, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel built without them: ordinary pages do as well
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.float32).view(shape)


class CropWork:
    """Crop, flip, resize and blur by two matrix products: float (m, c, h, w) → (m, c, size, size)."""

    def __init__(self, recipe: Recipe, crop: Crop, keys: Keys, images: Tensor) -> None:
        self.recipe = recipe
        self.height, self.width = images.shape[2:]
        boxes = draw_boxes(crop, recipe, keys, width=self.width, height=self.height)
        numbers = np.stack([boxes.left, boxes.width, boxes.top, boxes.height]).astype(np.float32)
        left, width, top, height = torch.from_numpy(numbers).to(images.device)
        self.rows = crop_span(top, height, crop.size)
        self.columns = crop_span(left, width, crop.size, torch.from_numpy(boxes.flip).to(images.device))
        self.blurring = BlurWork(recipe, crop, keys, images)

    def __call__(self, pixels: Tensor, block: slice) -> Tensor:
        rows = resampling_matrix(self.rows.part(block), self.height, self.recipe.interpolation)
        columns = resampling_matrix(self.columns.part(block), self.width, self.recipe.interpolation)
        chosen, sigmas = self.blurring.chosen(block)
        if len(chosen):
            matrix = blur_matrix(sigmas, self.rows.size, self.blurring.radius)
            rows[chosen] = matrix @ rows[chosen]
            columns[chosen] = matrix @ columns[chosen]
        return resample(pixels, rows, columns)


class BlurWork:
    """Gaussian blur of the views that are to have one: float (m, c, size, size) → the same."""

    def __init__(self, recipe: Recipe, crop: Crop, keys: Keys, images: Tensor) -> None:
        self.radius = 0 if recipe.blur is None else recipe.blur.radius(crop.size)
        sigmas = np.zeros(len(images)) if recipe.blur is None else draw_sigmas(recipe.blur, keys)
        self.sigmas = sigmas.astype(np.float32)
        self.device = images.device

    def chosen(self, block: slice) -> tuple[Tensor, Tensor]:
        """Which views of the block are blurred, and their σ: (k,) each."""
        sigmas = self.sigmas[block]
        chosen = sigmas.nonzero()[0] if self.radius else np.zeros(0, dtype=np.int64)
        return torch.from_numpy(chosen).to(self.device), torch.from_numpy(sigmas[chosen]).to(self.device)

    def __call__(self, pixels: Tensor, block: slice) -> Tensor:
        chosen, sigmas = self.chosen(block)
        if len(chosen) == 0:
            return pixels
        radius = min(self.radius, math.ceil(6 * self.sigmas[block].max()))  # exp(−6²/2) is nothing to float32
        if len(chosen) == len(pixels):
            return blur(pixels, sigmas, radius)
        pixels[chosen] = blur(pixels[chosen], sigmas, radius)
        return pixels


class FinishWork:
    """Turn, colour, normalise, clamp and solarise: float (m, c, s, s) with values 0 to 255 → ``out``."""

    def __init__(self, recipe: Recipe, keys: Keys, images: Tensor) -> None:
        self.recipe, self.keys, self.channels = recipe, keys, images.shape[1]
        colours = draw_colours(recipe, keys)
        narrow = (array.astype(np.float32) if array.dtype == np.float64 else array for array in colours)
        self.factors = Colours(*(torch.from_numpy(array).to(images.device) for array in narrow))
        self.solarised = torch.from_numpy(colours.solarise)
        self.black, self.white = normalised_limits(recipe.mean, recipe.std, self.channels)
        black, white = (torch.tensor(limit, device=images.device)[:, None] for limit in (self.black, self.white))
        self.scale, self.shift = white - black, black
        matrix, pivot = colour_matrices(self.factors, self.channels)
        self.matrix = matrix * (self.scale / 255.0)
        self.of_mean = pivot[:, None, None] * (self.scale / 255.0) * luma_row(self.matrix)

    def __call__(self, pixels: Tensor, block: slice, *, out: Tensor) -> None:
        if self.recipe.affine is not None:
            turns = draw_turns(self.recipe.affine, self.keys[block])
            pixels = turn(pixels, **{name: torch.from_numpy(drawn).to(pixels) for name, drawn in turns.items()})
        if self.recipe.colour == "steps":
            out.copy_(colour_steps(pixels / 255.0, Colours(*(values[block] for values in self.factors))))
            out.flatten(2).mul_(self.scale).add_(self.shift)
        else:
            self._by_matrix(pixels, block, out.flatten(2))
        if self.recipe.solarise > 0:
            solarise_(out, self.solarised[block], self.black, self.white)

    def _by_matrix(self, pixels: Tensor, block: slice, out: Tensor) -> None:
        """The colour map with the normalisation folded in, then one clamp: (m, c, s, s) → (m, c, s · s)."""
        pixels = pixels.flatten(2)
        constant = torch.baddbmm(self.shift, self.of_mean[block], pixels.mean(dim=2, keepdim=True))
        torch.baddbmm(constant, self.matrix[block], pixels, out=out)
        for channel, (low, high) in enumerate(zip(self.black, self.white, strict=True)):
            out[:, channel].clamp_(low, high)  # channel by channel: bounds that are numbers clamp several times as fast


def solarise_(views: Tensor, chosen: Tensor, black: Sequence[float], white: Sequence[float]) -> None:
    """Invert the brighter half, value → 1 − value where value ≥ ½, of chosen views, in normalised values, in place."""
    if not chosen.any():
        return
    numbers = chosen.nonzero()[:, 0].to(views.device)
    total = views.new_tensor([low + high for low, high in zip(black, white, strict=True)])[:, None, None]
    before = views[numbers]
    views[numbers] = torch.where(before >= total / 2, total - before, before)


def normalised_limits(mean: Sequence[float], std: Sequence[float], channels: int) -> tuple[list[float], list[float]]:
    """What 0 and 1 become in each channel. One channel under three statistics takes their average; one serves three."""
    if channels == 1 and len(mean) == 3:
        mean, std = [sum(mean) / 3], [sum(std) / 3]
    elif channels == 3 and len(mean) == 1:
        mean, std = list(mean) * 3, list(std) * 3
    pairs = list(zip(mean, std, strict=True))
    return [(0.0 - m) / s for m, s in pairs], [(1.0 - m) / s for m, s in pairs]


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
