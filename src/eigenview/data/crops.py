"""Is one picture a slight crop of the other? The window is sought on the brightness, and confirmed on the pixels.

Brightness alone aligns; whether what was aligned is one picture is decided by the fine detail of all of it, as for
copies that are whole (:mod:`eigenview.data.likeness`), but at half the side, since cutting blurs the finest scale.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from eigenview.data.likeness import (
    CELL,
    COARSE,
    LUMINANCE,
    PART,
    Confirmation,
    Floats,
    Thumbnail,
    pooled,
    same_picture,
)

SMALLEST = 0.82  # share of a side that a slight crop keeps
SIDE = 16  # that windows are sought at first
STEPS = 5  # windows along a side, of each scale
WORTH = 0.2  # correlation of brightness at 8 × 8, uncropped, below which two pictures differ: few crops have less
PLAIN = 4.0  # grey levels: pictures that vary less at 8 × 8 are not told apart by it
ALIGNED = 0.75  # correlation of brightness in the best window, below which it is none
ROUNDS = 3  # of halving the steps around the best window, at 32 pixels
FINER = (64, 64, 128, 128)  # sides at which it is then moved by least squares, where both pictures have them
CUT = 0.9  # for PART, in crops that are compared at 64 or 128 pixels, where interpolation alone may differ by 0.8

Samplings = tuple[Floats, Floats]  # (m, s, s) each: down and across


def same_or_cropped(first: Thumbnail, second: Thumbnail) -> Confirmation:
    """Whether two pictures are one, or one is the other with up to 18 % of its sides cut away.

    A change in a crop is only sure to be seen where it is wider than about an eighth of the picture.
    """
    a, b = _grey(first, CELL), _grey(second, CELL)
    is_telling = first.digest != second.digest and min(a.std(), b.std()) >= PLAIN
    if is_telling and _correlation(a[None], b)[0] < WORTH:
        return Confirmation("different")
    whole = same_picture(first, second)
    if whole.is_same or min(len(first.colours), len(second.colours)) < SIDE:
        return whole
    for larger, smaller in ((first, second), (second, first)):
        window = _best_window(larger, smaller)
        if window is not None:
            side = len(larger.luminance)
            is_whole = round(float(window[0]) * side) == side  # nothing is cut off: nothing is forgiven
            is_fine = min(len(first.luminance), len(second.luminance)) > 2 * COARSE
            cut = _cut(larger, window, side if is_whole else side // 2)
            cropped = same_picture(cut, smaller, part=CUT if is_fine and not is_whole else PART)
            if cropped.is_same:
                return cropped
    return whole


def _best_window(larger: Thumbnail, smaller: Thumbnail) -> Floats | None:
    """(3,): scale, left and top, in shares of the side."""
    likeness = _correlation(_seen(_grey(larger, SIDE), _first_samplings()), _grey(smaller, SIDE))
    if likeness.max() < ALIGNED - 0.1:
        return None
    best: Floats = _first_windows()[likeness.argmax()]
    finest = min(len(larger.luminance), len(smaller.luminance))
    picture, other = (_grey(thumbnail, min(COARSE, finest)) for thumbnail in (larger, smaller))
    for number in range(ROUNDS):
        windows = _around(best, 0.02 / 2**number)
        likeness = _correlation(_seen(picture, _samplings(len(picture), windows)), other)
        best = windows[likeness.argmax()]
    if likeness.max() < ALIGNED:
        return None
    for side in FINER:
        if side <= finest:
            picture, other = _grey(larger, side), _grey(smaller, side)
            windows = np.stack([best, _moved(best, picture, other)])
            best = windows[_correlation(_seen(picture, _samplings(side, windows)), other).argmax()]
    return best


@cache
def _first_windows() -> Floats:
    """(m, 3): scales down to the smallest, and for each the places of the window."""
    listed = [(1.0, 0.0, 0.0)]
    for scale in np.linspace(0.97, SMALLEST, 6):
        places = np.linspace(0, 1 - scale, STEPS)
        listed += [(scale, left, top) for left in places for top in places]
    return np.array(listed, dtype=np.float32)


@cache
def _first_samplings() -> Samplings:
    return _samplings(SIDE, _first_windows())


def _around(best: Floats, step: float) -> Floats:
    """(27, 3): a step either way, within the picture."""
    moves = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), axis=-1).reshape(-1, 3)
    return _within(best + moves.astype(np.float32) * np.float32(step))


def _moved(best: Floats, picture: Floats, other: Floats) -> Floats:
    """(3,): the window that shows the other picture, as far as slopes tell, in whatever brightness and contrast."""
    side = len(picture)
    seen = _seen(picture, _samplings(side, best[None]))[0]
    middles = (np.arange(side, dtype=np.float32) + 0.5) / side
    down, across = np.gradient(seen)
    slopes = np.stack([across * middles + down * middles[:, None], across, down]) * (side / best[0])
    columns = np.concatenate([slopes, seen[None], np.ones_like(seen)[None]]).reshape(5, -1).astype(np.float64)
    answer = np.linalg.lstsq(columns @ columns.T, columns @ other.ravel(), rcond=None)[0]
    moved: Floats = _within(best[None] + (answer[:3] / max(answer[3], 0.5)).astype(np.float32))[
        0
    ]  # [3] is the contrast
    return moved


def _within(windows: Floats) -> Floats:
    """The same, none too small or beyond the picture."""
    scale = windows[:, :1].clip(SMALLEST, 1)
    return np.hstack([scale, windows[:, 1:].clip(0, 1 - scale)]).astype(np.float32)


def _seen(picture: Floats, samplings: Samplings) -> Floats:
    """(m, s, s): what each window shows of a picture (s, s), at its size."""
    down, across = samplings
    seen: Floats = (down @ picture @ across.transpose(0, 2, 1)).astype(np.float32, copy=False)
    return seen


def _samplings(side: int, windows: Floats) -> Samplings:
    """Down and across, for each window."""
    return _sampling(side, windows[:, 0], windows[:, 2]), _sampling(side, windows[:, 0], windows[:, 1])


def _sampling(side: int, scale: Floats, start: Floats) -> Floats:
    """(m, s, s): linear interpolation at the middles of a window's pixels."""
    middles = (start[:, None] + scale[:, None] * (np.arange(side) + 0.5) / side) * side - 0.5
    matrix = (1 - np.abs(middles[:, :, None] - np.arange(side))).clip(0)
    weights: Floats = (matrix / matrix.sum(axis=2, keepdims=True)).astype(np.float32)
    return weights


def _correlation(pictures: Floats, other: Floats) -> Floats:
    """(m,) of pictures (m, s, s) with another (s, s)."""
    rows = pictures.reshape(len(pictures), -1)
    rows = rows - rows.mean(axis=1, keepdims=True)
    column = (other - other.mean()).ravel()
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(column)
    correlation: Floats = rows @ column / np.maximum(sizes, 1e-6)
    return correlation


def _grey(thumbnail: Thumbnail, side: int) -> Floats:
    is_coarse = side <= len(thumbnail.colours)  # fewer to pool
    return pooled(thumbnail.colours @ LUMINANCE if is_coarse else thumbnail.luminance.astype(np.float32), side)


def _cut(thumbnail: Thumbnail, window: Floats, side: int) -> Thumbnail:
    """What the window shows, as a picture of its own, its luminance at that side."""
    colours = _seen(thumbnail.colours.transpose(2, 0, 1), _samplings(len(thumbnail.colours), window[None]))
    grey = _seen(thumbnail.luminance.astype(np.float32), _samplings(len(thumbnail.luminance), window[None]))[0]
    luminance = np.rint(pooled(grey, side)).clip(0, 255).astype(np.uint8)
    width, height = (max(1, round(float(window[0]) * length)) for length in thumbnail.size)
    size, colours = (width, height), colours.transpose(1, 2, 0)
    return replace(thumbnail, size=size, digest=b"", colours=colours, luminance=luminance)
