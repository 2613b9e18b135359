"""Photos of differing sizes: cropped and shrunk by the worker that decodes them, one decode for all views.

What a worker sends on is uint8 crops of the views' sizes; ``Views.finish`` does the rest in whole batches.
"""

import warnings
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from eigenview.errors import ShapeError
from eigenview.views.augment import crop_views
from eigenview.views.parameters import Boxes, draw_boxes, view_keys
from eigenview.views.recipe import Interpolation, Recipe

Pixels = NDArray[np.uint8]  # (h, w, c) with 1 or 3 channels

REDUCTIONS = (8, 4, 2)  # what a JPEG decoder can leave out cheaply
OVERSAMPLING = 1.5  # pixels left along a crop for each of the view's: at 1.0 the decoder's coarse filter would show


_PILLOW = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


class Photo(Protocol):
    """An image that is decoded on demand."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels as it is seen (after any rotation in its metadata)."""

    def pixels(self, reduce: int = 1) -> Pixels:
        """uint8 (h, w, c), at about 1 / ``reduce`` of the size where that is cheap, otherwise whole."""


@dataclass(frozen=True)
class Cropper:
    """Cuts a photo's crops: ``cropper(photo, epoch, index)`` → one uint8 (size, size, c) array for each view.

    The same boxes and flips as ``Views`` of this recipe and seed draws for an image of that size. The photo is decoded
    once, as small as every crop allows; a reduced photo is cut at the same place. Picklable.
    """

    recipe: Recipe
    seed: int = field(default=0, kw_only=True)

    def __call__(self, photo: Photo, epoch: int, index: int) -> tuple[Pixels, ...]:
        width, height = photo.size
        item = np.array([index], dtype=np.int64)
        wanted: list[tuple[int, Boxes]] = []
        for crop, views in crop_views(self.recipe):
            keys = view_keys(self.seed, epoch, item, views)
            wanted.append((crop.size, draw_boxes(crop, self.recipe, keys, width=width, height=height)))
        spare = min(min(boxes.width.min(), boxes.height.min()) / size for size, boxes in wanted)
        pixels = check_pixels(photo.pixels(reduce=reduction(float(spare))))
        return tuple(
            cut(pixels, boxes, view, size=size, original=(width, height), interpolation=self.recipe.interpolation)
            for size, boxes in wanted
            for view in range(len(boxes.left))
        )


def reduction(pixels_each: float) -> int:
    """How much smaller a photo may be decoded that has so many pixels for each pixel of its most demanding view."""
    return next((factor for factor in REDUCTIONS if factor * OVERSAMPLING <= pixels_each), 1)


def cut(
    pixels: Pixels, boxes: Boxes, view: int, *, size: int, original: tuple[int, int], interpolation: Interpolation
) -> Pixels:
    """One crop, resized to (size, size, c) and flipped; the box is in pixels of the ``original`` (width, height).

    In a reduced photo the box has fractions of pixels, which only Pillow's slower resize takes; such photos are large,
    and their decoding costs far more.
    """
    left, top, wide, high = (int(edge[view, 0]) for edge in (boxes.left, boxes.top, boxes.width, boxes.height))
    height, width = pixels.shape[:2]
    if (width, height) == original:
        resized = resize(pixels[top : top + high, left : left + wide], size, size, interpolation)
    else:
        across, down = width / original[0], height / original[1]
        right, bottom = min((left + wide) * across, width), min((top + high) * down, height)  # against rounding errors
        box = (left * across, top * down, right, bottom)
        resized = pillow_resize(pixels, size, size, interpolation, box=box)
    return resized[:, ::-1] if boxes.flip[view, 0] else resized  # a view: whoever stacks the crops copies them anyway


def resize(pixels: Pixels, height: int, width: int, interpolation: Interpolation) -> Pixels:
    """Antialiased, within two grey levels of Pillow's resize and several times as fast (torch's uint8 kernels)."""
    if pixels.shape[:2] == (height, width):
        return pixels
    planes = _read_only(pixels).unsqueeze(0).permute(0, 3, 1, 2)  # so torch sees channels last: faster
    resized = F.interpolate(planes, (height, width), mode=interpolation, antialias=True, align_corners=False)
    view: Pixels = resized[0].permute(1, 2, 0).numpy()
    return view


def _read_only(pixels: Pixels) -> Tensor:
    """A tensor on an array's memory. Of arrays that may not be written to torch warns, though these are only read."""
    if pixels.flags.writeable:  # as decoders give them; to catch warnings takes longer than the rest
        return torch.from_numpy(pixels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(pixels)


def pillow_resize(
    pixels: Pixels,
    height: int,
    width: int,
    interpolation: Interpolation,
    *,
    box: tuple[float, float, float, float] | None = None,
) -> Pixels:
    """Pillow's own resize, of the ``box`` (left, top, right, bottom) if there is one."""
    channels = pixels.shape[2]
    picture = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    return np.asarray(picture.resize((width, height), _PILLOW[interpolation], box=box)).reshape(height, width, channels)


def check_pixels(pixels: Pixels) -> Pixels:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        raise ShapeError(
            f"a photo's pixels must be uint8 (h, w, c) with 1 or 3 channels; got {pixels.shape}, {pixels.dtype}"
        )
    return pixels
