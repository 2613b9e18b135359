"""Is one picture a slight crop of the other? The window is sought on the brightness, and confirmed on the pixels.

Brightness alone aligns; whether what was aligned is one picture is decided by the fine detail of all of it, as for
copies that are whole (:mod:`eigenview.data.likeness`).
"""

from dataclasses import replace
from functools import cache

import numpy as np

from eigenview.data.likeness import CELL, COARSE, Confirmation, Floats, Thumbnail, pooled, same_picture

SMALLEST = 0.82  # share of a side that a slight crop keeps
SIDE = 16  # that windows are sought at first
STEPS = 5  # windows along a side, of each scale
WORTH = 0.5  # correlation of brightness at 8 × 8, uncropped, below which two pictures differ: crops have 0.7 and more
PLAIN = 4.0  # grey levels: pictures that vary less at 8 × 8 are not told apart by it
ALIGNED = 0.75  # correlation of brightness in the best window, below which it is none
ROUNDS = 3  # of halving the steps around the best window

Window = tuple[float, float, float]  # scale, left, top, in shares of the side


def same_or_cropped(first: Thumbnail, second: Thumbnail) -> Confirmation:
    """Whether two pictures are one, or one is the other with up to 18 % of its sides cut away."""
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
            cropped = same_picture(_cut(larger, window), smaller)
            if cropped.is_same:
                return cropped
    return whole


def _best_window(larger: Thumbnail, smaller: Thumbnail) -> Window | None:
    windows, step = _windows(), np.array([0.02, 0.02, 0.02])
    side = SIDE
    for number in range(1 + ROUNDS):
        seen = _seen(_grey(larger, side), windows)
        likeness = _correlation(seen, _grey(smaller, side))
        best = windows[likeness.argmax()]
        if number == 0 and likeness.max() < ALIGNED - 0.1:
            return None
        windows, step, side = _around(best, step), step / 2, min(COARSE, len(larger.colours), len(smaller.colours))
    return (float(best[0]), float(best[1]), float(best[2])) if likeness.max() >= ALIGNED else None


@cache
def _windows() -> Floats:
    """(m, 3): scales down to the smallest, and for each the places of the window."""
    listed = [(1.0, 0.0, 0.0)]
    for scale in np.linspace(0.97, SMALLEST, 6):
        places = np.linspace(0, 1 - scale, STEPS)
        listed += [(scale, left, top) for left in places for top in places]
    return np.array(listed, dtype=np.float32)


def _around(best: Floats, step: Floats) -> Floats:
    """(27, 3): a step either way, within the picture."""
    moves = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), axis=-1).reshape(-1, 3)
    windows = best + moves * step
    windows[:, 0] = windows[:, 0].clip(SMALLEST, 1)
    windows[:, 1:] = windows[:, 1:].clip(0, 1 - windows[:, :1])
    return windows.astype(np.float32)


def _seen(picture: Floats, windows: Floats) -> Floats:
    """(m, s, s): what each window shows of a picture (s, s), at its size."""
    down, across = (_sampling(len(picture), windows[:, 0], windows[:, place]) for place in (2, 1))
    seen: Floats = (down @ picture @ across.transpose(0, 2, 1)).astype(np.float32, copy=False)
    return seen


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
    return pooled(thumbnail.luminance.astype(np.float32), side)


def _cut(thumbnail: Thumbnail, window: Window) -> Thumbnail:
    """What the window shows, as a picture of its own; of another size, since cutting blurs the finest scale."""
    given = np.array([window], dtype=np.float32)
    colours = np.stack([_seen(thumbnail.colours[:, :, channel], given)[0] for channel in range(3)], axis=2)
    luminance = np.rint(_seen(thumbnail.luminance.astype(np.float32), given)[0]).clip(0, 255).astype(np.uint8)
    width, height = (max(1, round(window[0] * side)) for side in thumbnail.size)
    return replace(thumbnail, size=(width, height), digest=b"", colours=colours, luminance=luminance)
