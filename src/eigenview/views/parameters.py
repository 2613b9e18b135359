"""A view's parameters, drawn for whole batches: where to crop, whether to flip, how to colour, blur and turn.

Every number comes from ``draw``, so parameters are a pure function of (seed, epoch, item index, view number) and of the
original image's size. Each quantity has a slot of its own: turning one off does not move the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenview.views.draw import Floats, Ints, Keys, uniforms
from eigenview.views.recipe import Affine, Blur, Crop, Jitter, Range, Recipe

Bools = NDArray[np.bool_]
Values = TypeVar("Values")

TRIES = 10  # then the central part of the image, as torchvision does

# the first slot of each quantity
_AREA, _RATIO, _TOP, _LEFT, _FLIP = 0, TRIES, 2 * TRIES, 2 * TRIES + 1, 2 * TRIES + 2
_JITTER, _GREY, _BLUR, _SOLARISE, _AFFINE = 32, 40, 41, 43, 44


@dataclass(frozen=True)
class Boxes:
    """Parts of images, in whole pixels of the original: left, top, width, height, and whether mirrored; each (…)."""

    left: Ints
    top: Ints
    width: Ints
    height: Ints
    flip: Bools


class Colours(NamedTuple, Generic[Values]):
    """Arrays as they are drawn, or tensors beside the images.

    Factors that leave the image as it is are 1 (brightness, contrast, saturation) and 0 (hue, in turns); each (…).

    ``order`` (…, 4) says which of brightness 0, contrast 1, saturation 2, hue 3 comes first, second, …: it matters only
    to the "steps" colour model, since the four commute as matrices.
    """

    brightness: Values
    contrast: Values
    saturation: Values
    hue: Values
    order: Values  # whole numbers
    grey: Values  # true or false
    solarise: Values  # true or false


@dataclass(frozen=True)
class Turns:
    """Rotation and shear in radians, shift as a share of the size, zoom as a factor; each (…)."""

    angle: Floats
    shift_x: Floats
    shift_y: Floats
    zoom: Floats
    shear: Floats


def draw_boxes(crop: Crop, recipe: Recipe, keys: Keys, *, width: int | Ints, height: int | Ints) -> Boxes:
    """Random resized crop by torchvision's rule: share of the area uniform, log of width / height uniform.

    The first of ten tries that fits in the image is taken at a uniform whole-pixel place; if none fits, the largest
    central part whose shape is allowed. ``width`` and ``height`` are the originals' (one for all, or keys' shape).
    """
    wide, high = np.broadcast_to(width, keys.shape), np.broadcast_to(height, keys.shape)
    numbers = uniforms(keys, _AREA, _FLIP + 1)
    area = between(numbers[..., _AREA:_RATIO], crop.scale) * (wide * high)[..., None]
    ratio = _ratios(numbers[..., _RATIO:_TOP], recipe.ratio, wide, high)
    widths, heights = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
    fits = (widths >= 1) & (widths <= wide[..., None]) & (heights >= 1) & (heights <= high[..., None])
    first = fits.argmax(axis=-1)[..., None]
    some = fits.any(axis=-1)
    central_width, central_height = _largest_allowed(wide, high, recipe.ratio)
    box_width = np.where(some, np.take_along_axis(widths, first, -1)[..., 0], central_width)
    box_height = np.where(some, np.take_along_axis(heights, first, -1)[..., 0], central_height)
    top = np.where(some, np.floor(numbers[..., _TOP] * (high - box_height + 1)), (high - box_height) // 2)
    left = np.where(some, np.floor(numbers[..., _LEFT] * (wide - box_width + 1)), (wide - box_width) // 2)
    left, top, box_width, box_height = (edge.astype(np.int64) for edge in (left, top, box_width, box_height))
    return Boxes(left, top, box_width, box_height, flip=numbers[..., _FLIP] < recipe.flip)


def draw_colours(recipe: Recipe, keys: Keys) -> Colours[NDArray[Any]]:
    jitter = recipe.jitter or Jitter(probability=0.0)
    numbers = uniforms(keys, _JITTER, 6)  # one each for: whether, the four factors, their order
    chosen = numbers[..., 0] < jitter.probability
    brightness, contrast, saturation = (
        np.where(chosen, between(numbers[..., slot], (max(0.0, 1.0 - strength), 1.0 + strength)), 1.0)
        for slot, strength in enumerate((jitter.brightness, jitter.contrast, jitter.saturation), start=1)
    )
    hue = np.where(chosen, between(numbers[..., 4], (-jitter.hue, jitter.hue)), 0.0)
    order = _ORDERS[(numbers[..., 5] * len(_ORDERS)).astype(np.int64)]
    grey = uniforms(keys, _GREY, 1)[..., 0] < recipe.grey
    solarise = uniforms(keys, _SOLARISE, 1)[..., 0] < recipe.solarise
    return Colours(brightness, contrast, saturation, hue, order, grey, solarise)


def draw_sigmas(blur: Blur, keys: Keys) -> Floats:
    """σ of each view's blur in pixels; 0 where there is none."""
    numbers = uniforms(keys, _BLUR, 2)
    return np.where(numbers[..., 0] < blur.probability, between(numbers[..., 1], blur.sigma), 0.0)


def draw_turns(affine: Affine, keys: Keys) -> Turns:
    numbers = uniforms(keys, _AFFINE, 5)
    angle, shear = np.radians(affine.degrees), np.radians(affine.shear)
    log_zoom = between(numbers[..., 3], (np.log(affine.zoom[0]), np.log(affine.zoom[1])))
    return Turns(
        angle=between(numbers[..., 0], (-angle, angle)),
        shift_x=between(numbers[..., 1], (-affine.shift, affine.shift)),
        shift_y=between(numbers[..., 2], (-affine.shift, affine.shift)),
        zoom=np.exp(log_zoom),
        shear=between(numbers[..., 4], (-shear, shear)),
    )


def between(numbers: Floats, limits: Range) -> Floats:
    """Uniform numbers in [0, 1) stretched to the limits."""
    return limits[0] + (limits[1] - limits[0]) * numbers


def _ratios(numbers: Floats, limits: Range | None, wide: Ints, high: Ints) -> Floats:
    """Width / height of each try: its log is uniform, or the image's own."""
    if limits is None:
        return np.broadcast_to((wide / high)[..., None], numbers.shape)
    return np.exp(between(numbers, (math.log(limits[0]), math.log(limits[1]))))


def _largest_allowed(wide: Ints, high: Ints, ratio: Range | None) -> tuple[Floats, Floats]:
    if ratio is None:
        return wide.astype(np.float64), high.astype(np.float64)
    width = np.where(wide / high > ratio[1], np.rint(high * ratio[1]), wide)
    height = np.where(wide / high < ratio[0], np.rint(wide / ratio[0]), high)
    return np.maximum(width, 1.0), np.maximum(height, 1.0)


def _permutations(count: int) -> Ints:
    if count == 0:
        return np.zeros((1, 0), dtype=np.int64)
    shorter = _permutations(count - 1)
    return np.concatenate([np.insert(shorter, place, count - 1, axis=1) for place in range(count)])


_ORDERS = _permutations(4)  # (24, 4)
