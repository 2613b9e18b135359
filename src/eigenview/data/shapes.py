"""Shapes drawn on the fly: the shape is the class; colour, place, size, turn, texture and background are nuisance.

Every pixel is a pure function of (seed, index), so a set of any number and size of images needs no storage. Each
shape is the set where a function is negative; its value over one pixel's width gives a smooth edge.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data.decode import PixelImage
from eigenview.data.source import Labels, Unannotated
from eigenview.errors import SettingError

COLOURS = ("red", "yellow", "green", "cyan", "blue", "magenta")  # by hue, from 0 on
SLOTS, HUE, OTHER_HUE = 24, 5, 22  # random numbers of an image, and which of them say its colours
BLOCK = 1 << 15  # pixels drawn at once: the temporary arrays stay in cache

Plane = npt.NDArray[np.float32]  # (n, height, width), or (n, 1, 1) for a number per image


def _box(x: Plane, y: Plane, width: Plane, height: Plane) -> Plane:
    outside: Plane = np.maximum(np.abs(x) - width, np.abs(y) - height)
    return outside


def _star(x: Plane, y: Plane, r: Plane) -> Plane:
    angle = np.abs((np.arctan2(y, x) * np.float32(5 / (2 * np.pi))) % 1 - 0.5) * 2  # 1 at a tip, 0 between two
    outside: Plane = (np.hypot(x, y) - r * (0.4 + 0.6 * angle**1.5)) * np.float32(0.6)
    return outside


# Negative inside the shape of radius r around the origin; near its edge, the distance to it.
OUTLINES: dict[str, Callable[[Plane, Plane, Plane], Plane]] = {
    "disc": lambda x, y, r: np.hypot(x, y) - 0.9 * r,
    "ring": lambda x, y, r: np.abs(np.hypot(x, y) - 0.75 * r) - 0.2 * r,
    "square": lambda x, y, r: _box(x, y, 0.75 * r, 0.75 * r),
    "bar": lambda x, y, r: _box(x, y, r, 0.3 * r),
    "triangle": lambda x, y, r: np.maximum(np.abs(x) * np.float32(np.sqrt(0.75)) + y / 2, -y) - 0.5 * r,
    "cross": lambda x, y, r: np.minimum(_box(x, y, r, 0.25 * r), _box(x, y, 0.25 * r, r)),
    "star": _star,
    "crescent": lambda x, y, r: np.maximum(np.hypot(x, y) - 0.95 * r, 0.8 * r - np.hypot(x - 0.5 * r, y)),
}
SHAPES = tuple(OUTLINES)


class ShapesSource(Unannotated):
    """``count`` square RGB images of ``size`` pixels; image i shows shape i mod 8, so classes are balanced.

    ``captioned``: each has two captions, with and without its background.
    """

    _kind, _classes = "shapes", SHAPES

    def __init__(self, count: int = 10_000, *, size: int = 32, seed: int = 0, captioned: bool = False) -> None:
        if count < 1 or size < 8 or seed < 0:
            raise SettingError(f"shapes need count >= 1, size >= 8 and seed >= 0; got {count}, {size}, {seed}")
        self._count, self._size, self._seed = count, size, seed
        self._place = f"seed {seed}, {size} x {size}"
        self._is_captioned = captioned

    @property
    def labels(self) -> Labels:
        return np.arange(self._count, dtype=np.int64) % len(SHAPES)

    def __len__(self) -> int:
        return self._count

    def label(self, index: int) -> int:
        return index % len(SHAPES)

    def image(self, index: int) -> PixelImage:
        drawn = draw_shapes(np.array([index]), self._size, self._seed)[0]
        return PixelImage(drawn.transpose(1, 2, 0), name=self.name(index))

    def name(self, index: int) -> str:
        return f"shapes[{index}]"

    def captions(self, index: int) -> tuple[str, ...]:
        if not self._is_captioned:
            return ()
        chance = uniform(self._seed, np.array([index]), SLOTS)[0]
        hues = float(chance[HUE]), float(chance[HUE] + 0.25 + 0.5 * chance[OTHER_HUE]) % 1
        front, back = (COLOURS[int(len(COLOURS) * hue + 0.5) % len(COLOURS)] for hue in hues)
        shape = SHAPES[index % len(SHAPES)]
        return f"a {front} {shape}", f"a {front} {shape} on a {back} background"

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(draw_shapes(indices, self._size, self._seed))


def draw_shapes(indices: npt.NDArray[np.int64], size: int, seed: int) -> npt.NDArray[np.uint8]:
    """Images ``indices`` of the set ``seed``, uint8 (n, 3, size, size)."""
    rows = max(1, BLOCK // (size * size))
    images = np.empty((len(indices), 3, size, size), dtype=np.uint8)
    for start in range(0, len(indices), rows):
        images[start : start + rows] = _draw(indices[start : start + rows], size, seed)
    return images


def uniform(seed: int, indices: npt.NDArray[np.int64], slots: int) -> npt.NDArray[np.float32]:
    """(n, slots) numbers in [0, 1), a pure function of (seed, index, slot): splitmix64 as a counter-based generator."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    counters = np.add(indices.astype(np.uint64)[:, None] * np.uint64(slots), np.arange(slots, dtype=np.uint64))
    state: npt.NDArray[np.uint64] = _mixed(np.array([seed], dtype=np.uint64) * golden + golden) + counters * golden
    numbers: npt.NDArray[np.float32] = (_mixed(state) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)
    return numbers


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed


def _draw(indices: npt.NDArray[np.int64], size: int, seed: int) -> npt.NDArray[np.float32]:
    chance = uniform(seed, indices, SLOTS)[:, :, None, None]  # (n, slot, 1, 1)
    ticks = (np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1
    across, down = np.broadcast_arrays(ticks[None, None, :], ticks[None, :, None])
    radius = 0.35 + 0.3 * chance[:, 0]
    room = 1 - radius
    turn = 2 * np.pi * chance[:, 1]
    x, y = across - room * (2 * chance[:, 2] - 1), down - room * (2 * chance[:, 3] - 1)
    x, y = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    outside = np.empty(x.shape, dtype=np.float32)
    for number, outline in enumerate(OUTLINES.values()):
        chosen = indices % len(SHAPES) == number
        if chosen.any():
            outside[chosen] = outline(x[chosen], y[chosen], radius[chosen])
    cover = np.clip(0.5 - outside * (size / 2), 0, 1)[:, None]
    is_dark = chance[:, 4] < 0.5  # the shape on its background, or the other way round
    dim, bright = np.float32(0.35), np.float32(1)
    hue = chance[:, HUE]
    front = _painted(chance[:, 6:14], x, y, hue, np.where(is_dark, dim, bright))
    other_hue = hue + 0.25 + 0.5 * chance[:, OTHER_HUE]
    back = _painted(chance[:, 14:22], across, down, other_hue, np.where(is_dark, bright, dim))
    back += cover * (front - back)
    drawn: npt.NDArray[np.float32] = np.rint(255 * back)  # both lie in [0, 1] by construction
    return drawn


def _painted(chance: Plane, x: Plane, y: Plane, hue: Plane, value: Plane) -> npt.NDArray[np.float32]:
    """A textured colour, (n, 3, h, w): plain, striped, chequered or shaded, with equal probability."""
    turn, wave = 2 * np.pi * chance[:, 0], 3 + 9 * chance[:, 1]
    along, beside = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    kind = np.floor(4 * chance[:, 4, 0, 0])
    texture = np.where(kind == 3, 0.7, 0).astype(np.float32)[:, None, None] * along
    waved = (kind == 1) | (kind == 2)
    texture[waved] = np.clip(2 * np.sin(wave[waved] * along[waved] + 6 * chance[waved, 2]), -1, 1)
    crossed = kind == 2
    texture[crossed] *= np.clip(2 * np.sin(wave[crossed] * beside[crossed] + 6 * chance[crossed, 3]), -1, 1)
    bright = value * (0.75 + (0.1 + 0.15 * chance[:, 5]) * texture)
    full = 0.4 + 0.6 * chance[:, 6:7]
    sectors = np.array([5, 3, 1], dtype=np.float32)[:, None, None]
    k = (sectors + 6 * hue[:, None]) % 6  # hue, saturation, value to RGB in closed form
    colour = 1 - full * np.clip(np.minimum(k, 4 - k), 0, 1)
    painted: npt.NDArray[np.float32] = bright[:, None] * colour
    return painted
