"""A view's parameters, drawn for whole batches: where to crop, whether to flip, how to colour, blur and turn.

They are a pure function of (seed, epoch, item index, view number) and of the original image's size: no state, no order.
Each number is a splitmix64 hash (Steele, Lea, Flood 2014) of those and of its slot, so a batch's numbers come from few
vectorised operations and do not depend on what else is in the batch, on workers, processes or devices. They are drawn
on the host with NumPy and only then sent to where the images are. Each quantity has a slot of its own: turning one off
does not move the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenview.views.recipe import Affine, Blur, Crop, Jitter, Range, Recipe

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # odd, so multiplying by it is a bijection of 64-bit words
_MASK = 2**64 - 1


def view_keys(seed: int, epoch: int, indices: Ints, views: Sequence[int]) -> Keys:
    """One 64-bit key for each view of each item, (views, n); the numbers of a view are hashed from its key."""
    with np.errstate(over="ignore"):  # arithmetic modulo 2⁶⁴ is the point
        key = _absorb(np.zeros(1, dtype=np.uint64), _word(seed))
        key = _absorb(key, _word(epoch))
        key = _absorb(key, indices.astype(np.uint64))
        return _absorb(key[None, :], np.asarray(views, dtype=np.uint64)[:, None])


def uniforms(keys: Keys, first: int, count: int) -> Floats:
    """Uniform numbers in [0, 1) with 53 random bits, for ``count`` slots from ``first`` on: (*keys.shape, count)."""
    slots = np.arange(first, first + count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        bits = _absorb(keys[..., None], slots)
    numbers: Floats = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def _word(number: int) -> Keys:
    return np.array([number & _MASK], dtype=np.uint64)


def _absorb(key: Keys, word: Keys) -> Keys:
    bits = key + (word + np.uint64(1)) * _GOLDEN
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Keys = bits ^ (bits >> np.uint64(31))
    return mixed


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
    first, every = fits.argmax(axis=-1).ravel(), np.arange(keys.size)
    some = fits.any(axis=-1)
    box_width, box_height = (sides.reshape(-1, TRIES)[every, first].reshape(keys.shape) for sides in (widths, heights))
    if not some.all():
        central_width, central_height = _largest_allowed(wide, high, recipe.ratio)
        box_width, box_height = np.where(some, box_width, central_width), np.where(some, box_height, central_height)
    beside, above = wide - box_width, high - box_height
    top, left = np.floor(numbers[..., _TOP] * (above + 1)), np.floor(numbers[..., _LEFT] * (beside + 1))
    if not some.all():
        top, left = np.where(some, top, above // 2), np.where(some, left, beside // 2)
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


def draw_turns(affine: Affine, keys: Keys) -> dict[str, Floats]:
    """Rotation and shear in radians, shift as a share of the size, zoom as a factor, for ``turn``; each (…)."""
    angle, shear, shift = np.radians(affine.degrees), np.radians(affine.shear), affine.shift
    limits = {
        "angle": (-angle, angle),
        "shift_x": (-shift, shift),
        "shift_y": (-shift, shift),
        "zoom": (np.log(affine.zoom[0]), np.log(affine.zoom[1])),
        "shear": (-shear, shear),
    }
    drawn = dict(zip(limits, np.moveaxis(uniforms(keys, _AFFINE, 5), -1, 0), strict=True))
    turns = {name: between(drawn[name], ends) for name, ends in limits.items()}
    return {**turns, "zoom": np.exp(turns["zoom"])}


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
