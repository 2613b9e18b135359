"""Are two pictures the same one, re-encoded, resized or slightly brightened? Decided on their pixels.

An encoder finds plain pictures alike whatever they show. So agreement is asked of fine detail, which two different
pictures share by chance only, and the chance is known; then of brightness, colour and every small part of the picture.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from eigenview.data.decode import LazyImage, PixelImage

Floats = npt.NDArray[np.float32]
Verdict = Literal["identical", "same", "different", "unclear"]

COARSE, FINEST = 32, 256  # sides that colours and detail, and every part, are compared at
CELL = 8  # side of a part, at that size
LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)

ROUNDED = 0.1  # deviations that float16 may take from it
CERTAIN = 8.0  # deviations by which detail agrees: one pair in 10^15 of different pictures does by chance
FAINT = 0.3  # grey levels: fainter detail is rounding
RICH = 3.0  # from here on detail survives any re-encoding: where it does not agree, pictures differ
PART = 0.65  # difference in a part / (deviation within it + NOISE): to 0.5 after JPEG at quality 60, 1.4 if unrelated
NOISE = 6.0  # grey levels that re-encoding may add
BRIGHTNESS, CONTRAST, COLOUR = 35.0, 1.3, 14.0  # grey levels of the mean, a factor, and grey levels in any sixteenth
ASPECT = 0.03  # of the logarithm of width / height
DARK, BRIGHT = 20, 235  # beyond, brightening clips: not compared where both pictures are


@dataclass(frozen=True)
class Confirmation:
    """What the pixels say. ``same``: one picture, though perhaps re-encoded; ``unclear``: too little detail to tell."""

    verdict: Verdict
    agreement: float = 0.0  # of fine detail, in standard deviations of what chance gives
    difference: float = 0.0  # of the part that differs most; see PART

    @property
    def is_same(self) -> bool:
        return self.verdict in ("identical", "same")


@dataclass(frozen=True)
class Sketch:
    """Of a thumbnail only what :func:`first_look` needs: 2 kB, so that those of all pictures can be held."""

    size: tuple[int, int]
    digest: bytes
    details: Mapping[int, npt.NDArray[np.float16]]
    is_rich: bool


@dataclass(frozen=True)
class Thumbnail:
    """As much of a picture as it takes to compare it."""

    size: tuple[int, int]  # width, height
    digest: bytes  # equal for equal pixels or equal files
    colours: Floats  # (s, s, 3): s is 32, or 16 or 8 for smaller pictures
    luminance: npt.NDArray[np.uint8]  # (f, f): f is the largest power of two up to 256 that the picture fills

    @cached_property
    def details(self) -> dict[int, Floats]:
        """Unit vectors of fine detail by the side it was taken at; without those too faint to count."""
        sides = [side for side in (COARSE, COARSE // 2) if side <= len(self.colours)]
        taken = {side: _detail(pooled(self.colours @ LUMINANCE, side)) for side in sides}
        return {side: detail / size for side, (detail, size) in taken.items() if size > 0}

    @cached_property
    def is_rich(self) -> bool:
        """Whether detail would have survived re-encoding; that of pictures under 16 pixels is not asked."""
        detail, size = _detail(self.colours @ LUMINANCE)
        return len(self.colours) > CELL and size >= RICH * math.sqrt(len(detail))

    def sketch(self) -> Sketch:
        details = {side: detail.astype(np.float16) for side, detail in self.details.items()}
        return Sketch(self.size, self.digest, details, self.is_rich)


Detailed = Sketch | Thumbnail  # what most pairs of pictures are told apart by


def thumbnail_of(image: LazyImage) -> Thumbnail:
    """Decoded at a fraction of its size where it is large. A file that cannot be used raises ``UnreadableImage``."""
    width, height = image.size
    reduce = max((factor for factor in (1, 2, 4, 8) if min(width, height) // factor >= FINEST), default=1)
    pixels = image.pixels(reduce)
    digest = PixelImage(pixels, name=image.name).digest() if reduce == 1 else image.digest()
    channels = [_averaged(pixels[:, :, channel], _side(width, height, COARSE)) for channel in range(pixels.shape[2])]
    colours = np.stack(channels * (3 // len(channels)), axis=2)
    grey = pixels.astype(np.float32) @ LUMINANCE if pixels.shape[2] == 3 else pixels[:, :, 0]
    luminance = np.rint(_averaged(grey, _side(width, height, FINEST))).astype(np.uint8)
    return Thumbnail((width, height), digest, colours, luminance)


def same_picture(first: Thumbnail, second: Thumbnail, *, part: float = PART) -> Confirmation:
    """Whether two pictures are one, as far as their pixels tell.

    Tolerated: re-encoding, another size, a little more or less brightness and contrast. Not: crops, flips, another
    aspect, or a change in any part, down to 1/100 of the width. Pictures under 16 pixels are identical or unclear.
    """
    seen = first_look(first, second)
    if seen.verdict != "same":
        return seen
    difference = _difference(first, second)
    return Confirmation("same" if difference <= part else "different", seen.agreement, difference)


def first_look(first: Detailed, second: Detailed) -> Confirmation:
    """What shape and detail say. ``same`` only means that every part is yet to be compared; the rest is final.

    Of sketches it may be "same" at an agreement that is below the bar by their rounding.
    """
    if first.digest == second.digest:
        return Confirmation("identical", math.inf)
    aspect, other = (math.log(width / height) for width, height in (first.size, second.size))
    if abs(aspect - other) > max(ASPECT, 1 / min(*first.size, *second.size)):
        return Confirmation("different")
    agreement = detail_agreement(first, second)
    if agreement >= CERTAIN - (ROUNDED if isinstance(first, Sketch) else 0):
        return Confirmation("same", agreement)
    return Confirmation("different" if first.is_rich and second.is_rich else "unclear", agreement)


def detail_agreement(first: Detailed, second: Detailed) -> float:
    """By how many standard deviations fine detail agrees more than by chance: Fisher's z of its correlation.

    Detail is what a pixel has beyond its four neighbours, at 32 × 32 and 16 × 16, without anything smooth: that makes
    it nearly independent from pixel to pixel, so that chance is known. The larger of the two; 0 where there is none.
    """
    best = 0.0
    for side in first.details.keys() & second.details.keys():
        correlation = min(float(first.details[side] @ second.details[side]), 1 - 1e-6)
        best = max(best, math.atanh(correlation) * math.sqrt((side - 2) ** 2 - 3) if correlation > 0 else 0.0)
    return best


def _difference(first: Thumbnail, second: Thumbnail) -> float:
    """How much the most different part differs; infinite where brightness, contrast or colour do."""
    smallest = min(*first.size, *second.size)
    side = min(len(first.luminance), len(second.luminance))
    while first.size != second.size and side > CELL and side * 1.5 > smallest:  # resizing blurs the finest scale
        side //= 2
    a, b = (pooled(thumbnail.luminance.astype(np.float32), side) for thumbnail in (first, second))
    compared = ~(((a > BRIGHT) & (b > BRIGHT)) | ((a < DARK) & (b < DARK)))
    if compared.sum() < side:
        compared[:] = True
    means = a[compared].mean(), b[compared].mean()
    spreads = a[compared].std(), b[compared].std()
    contrast = (spreads[1] + 2) / (spreads[0] + 2)
    if abs(means[1] - means[0]) > BRIGHTNESS or not 1 / CONTRAST <= contrast <= CONTRAST:
        return math.inf
    if _colour_difference(first, second) > COLOUR:
        return math.inf
    gain = math.sqrt(contrast)  # both are brought to the middle
    a, b = (a - means[0]) * gain, (b - means[1]) / gain
    off = _cells(np.where(compared, b - a, 0))
    within = _cells((a + b) / 2).std(axis=1)
    return float((np.sqrt(np.square(off).mean(axis=1)) / (within + NOISE)).max())


def _colour_difference(first: Thumbnail, second: Thumbnail) -> float:
    """The largest difference of colour, without brightness, in any of 4 × 4 parts."""
    chroma = []
    for thumbnail in (first, second):
        parts = pooled(thumbnail.colours, 4)
        grey = parts @ LUMINANCE
        chroma.append(np.stack([(parts[:, :, 2] - grey) * 0.564, (parts[:, :, 0] - grey) * 0.713], axis=2))
    return float(np.linalg.norm(chroma[0] - chroma[1], axis=2).max())


def _detail(grey: Floats) -> tuple[Floats, float]:
    """What each pixel has beyond its neighbours, less everything smooth, and its norm; 0 where it is too faint."""
    side = len(grey)
    smooth = _smooth(side)
    flat = grey.reshape(-1)
    rest = (flat - smooth @ (smooth.T @ flat)).reshape(side, side)
    around = rest[:-2, 1:-1] + rest[2:, 1:-1] + rest[1:-1, :-2] + rest[1:-1, 2:]
    detail = (rest[1:-1, 1:-1] - around / 4).reshape(-1)
    detail = detail - detail.mean()
    size = float(np.linalg.norm(detail))
    return detail, size if size >= FAINT * math.sqrt(len(detail)) else 0.0


@cache
def _smooth(side: int) -> Floats:
    """(side², 10) orthonormal polynomials up to the third degree."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    powers = [x**i * y**j for i in range(4) for j in range(4 - i)]
    basis: Floats = np.linalg.qr(np.stack(powers, axis=2).reshape(side * side, -1))[0].astype(np.float32)
    return basis


def _side(width: int, height: int, most: int) -> int:
    """The largest power of two from 8 to ``most`` that the shorter side has."""
    return max(CELL, 1 << min(width, height, most).bit_length() - 1)


def _averaged(channel: npt.NDArray[np.generic], side: int) -> Floats:
    shrunk = Image.fromarray(channel.astype(np.float32)).resize((side, side), Image.Resampling.BOX)
    return np.asarray(shrunk, dtype=np.float32)


def pooled(values: Floats, side: int) -> Floats:
    """(side, side, …): means of square blocks."""
    factor = len(values) // side
    if factor <= 1:
        return values
    means: Floats = values.reshape(side, factor, side, factor, *values.shape[2:]).mean(axis=(1, 3))
    return means


def _cells(values: Floats) -> Floats:
    """(parts, 64): the square parts of 8 × 8 pixels."""
    parts = len(values) // CELL
    cells: Floats = values.reshape(parts, CELL, parts, CELL).transpose(0, 2, 1, 3).reshape(parts * parts, CELL * CELL)
    return cells
