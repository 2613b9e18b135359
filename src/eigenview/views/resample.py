"""Crop, flip, resize and blur as two small matrices a view: out = R · image · Cᵀ.

A crop with a flip has no rotation, so resampling is separable: one matrix for rows, one for columns, each row of which
holds the filter's weights and sums to 1. The filter widens when it shrinks, as Pillow's does, so nothing aliases. A
Gaussian blur is another matrix on the left of either, and costs no pass over the pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenview.views.recipe import Interpolation

_TILE = 32  # of a blur's outputs: small enough to skip most of its matrix's zeros, large enough for a matrix product


@dataclass(frozen=True)
class Span:
    """Where ``size`` output pixels lie along one axis of the input, for each of n images: tensors (n,).

    Output pixel i is centred at start + (i + ½) · step in input pixels, whose centres lie at ½, 1½, …; a negative step
    mirrors. Only input pixels in [low, high) are read: those of the crop, as if it had been cut out first.
    """

    start: Tensor
    step: Tensor
    low: Tensor
    high: Tensor
    size: int

    def part(self, block: slice) -> Span:
        return Span(self.start[block], self.step[block], self.low[block], self.high[block], self.size)


def crop_span(first: Tensor, length: Tensor, size: int, flip: Tensor | None = None) -> Span:
    """The part [first, first + length) of an axis, resized to ``size`` pixels, mirrored where ``flip``."""
    last = first + length
    step = length / size
    if flip is None:
        return Span(first, step, first, last, size)
    return Span(torch.where(flip, last, first), torch.where(flip, -step, step), first, last, size)


def resampling_matrix(span: Span, length: int, interpolation: Interpolation) -> Tensor:
    """(n, size, length) weights of the input pixels in each output pixel; rows sum to 1."""
    dtype, device = span.start.dtype, span.start.device
    inputs = torch.arange(length, dtype=dtype, device=device) + 0.5
    outputs = torch.arange(span.size, dtype=dtype, device=device) + 0.5
    centres = span.start[:, None] + outputs * span.step[:, None]
    narrowness = span.step.abs().clamp_min(1.0).reciprocal()[:, None]
    distance = (inputs * narrowness)[:, None, :] - (centres * narrowness)[:, :, None]
    is_linear = interpolation == "bilinear"  # the triangle filter
    weights = distance.abs_().neg_().add_(1.0).clamp_min_(0.0) if is_linear else _cubic(distance)
    inside = (inputs > span.low[:, None]) & (inputs < span.high[:, None])
    weights.mul_(inside[:, None, :])
    return weights.div_(weights.sum(dim=2, keepdim=True))


def blur_matrix(sigmas: Tensor, size: int, radius: int) -> Tensor:
    """(n, size, size) Gaussian blur of an axis with 2·radius + 1 taps, mirrored at the ends; σ = 0 is the identity."""
    half = blur_taps(sigmas, radius)[:, radius:]
    return (half @ _reads(size, radius).to(sigmas)).view(-1, size, size)


@lru_cache(maxsize=32)  # for each resolution and radius in use
def _reads(size: int, radius: int) -> Tensor:
    """(radius + 1, size · size): how often output i reads input j at distance k, with the ends mirrored."""
    offsets = torch.arange(-radius, radius + 1)[:, None]
    outputs = torch.arange(size)[None, :]
    reads = torch.zeros(radius + 1, size, size)
    place = (offsets.abs().expand(-1, size), outputs.expand(2 * radius + 1, -1), mirror(outputs + offsets, size))
    return reads.index_put_(place, torch.ones(()), accumulate=True).flatten(1)


def blur_taps(sigmas: Tensor, radius: int) -> Tensor:
    """(n, 2·radius + 1) weights exp(−k²/2σ²), each row summing to 1; σ = 0 puts all weight on the centre."""
    offsets = torch.arange(-radius, radius + 1, dtype=sigmas.dtype, device=sigmas.device)
    taps = torch.exp(-0.5 * (offsets / sigmas.clamp_min(1e-3)[:, None]) ** 2)
    taps = torch.where(taps < 1e-12, 0.0, taps)  # subnormal numbers are many times as slow, and add nothing
    return taps / taps.sum(dim=1, keepdim=True)


def mirror(places: Tensor, size: int) -> Tensor:
    """Places outside [0, size) folded back at the first and last pixel, which are not repeated."""
    folded = places.abs()
    return torch.where(folded >= size, 2 * (size - 1) - folded, folded)


def resample(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows · image · columnsᵀ for images (n, c, h, w), rows (n, h′, h), columns (n, w′, w) → (n, c, h′, w′)."""
    n, channels, height, width = images.shape
    narrow = torch.bmm(images.reshape(n, channels * height, width), columns.transpose(1, 2))
    return torch.matmul(rows[:, None], narrow.view(n, channels, height, -1))


def shrink(views: Tensor, size: int) -> Tensor:
    """Float views (n, c, s, s) as (n, c, size, size): the triangle filter, as wide as a pixel of the smaller view."""
    return F.interpolate(views, size=(size, size), mode="bilinear", antialias=True)


def blur(images: Tensor, sigmas: Tensor, radius: int) -> Tensor:
    """Gaussian blur of float images (n, c, s, s) with a σ each (n,), mirrored at the edges: for crops cut by a worker.

    On a CPU image by image, so that what lies between the two passes stays near the core.
    """
    _, channels, size, _ = images.shape
    if images.device.type != "cpu":  # two batched products, zeros included, are better than many small ones
        dense = blur_matrix(sigmas, size, radius)
        return resample(images, dense, dense)
    is_tiled = size % _TILE == 0 and size >= 4 * _TILE and radius <= _TILE
    matrices = blur_matrix(sigmas, 3 * _TILE if is_tiled else size, radius)
    blurred = torch.empty_like(images, memory_format=torch.contiguous_format)
    across = images.new_empty(channels, size, size)
    for image, matrix, out in zip(images, matrices, blurred, strict=True):
        parts = _tiles(matrix, size, radius) if is_tiled else [(slice(size), slice(size), matrix)]
        for written, read, weights in parts:
            torch.mm(image.reshape(-1, size)[:, read], weights.T, out=across.view(-1, size)[:, written])
        for written, read, weights in parts:
            torch.bmm(weights.expand(channels, -1, -1), across[:, read], out=out[:, written])
    return blurred


def _tiles(matrix: Tensor, size: int, radius: int) -> list[tuple[slice, slice, Tensor]]:
    """(outputs, inputs, weights) of each tile of an axis, from the blur matrix of three tiles.

    A tile of outputs reads itself and ``radius`` inputs on either side. All tiles but the first and the last have the
    same weights, which are the middle ones of three tiles.
    """
    reach, last = _TILE + radius, size - _TILE
    inner = matrix[_TILE : 2 * _TILE, _TILE - radius : 2 * _TILE + radius]
    return [
        (slice(_TILE), slice(reach), matrix[:_TILE, :reach]),
        *((slice(at, at + _TILE), slice(at - radius, at + reach), inner) for at in range(_TILE, last, _TILE)),
        (slice(last, size), slice(size - reach, size), matrix[-_TILE:, -reach:]),
    ]


def turn(images: Tensor, *, angle: Tensor, shift_x: Tensor, shift_y: Tensor, zoom: Tensor, shear: Tensor) -> Tensor:
    """Rotation, shear, zoom and shift of float images (n, c, h, w) about their centre; black (0) comes in.

    In coordinates from −1 to 1, an output point p shows the input at (R·S)⁻¹(p − 2·shift) / zoom, R turning
    anticlockwise by ``angle`` as seen and S moving x by tan(shear)·y.
    """
    cos, sin, slope = torch.cos(angle), torch.sin(angle), torch.tan(shear)
    # y points down, so anticlockwise on the screen is R = [[cos, sin], [−sin, cos]]; here (R·S)⁻¹ = S⁻¹ · Rᵀ
    inverse = torch.stack([cos - slope * sin, -sin - slope * cos, sin, cos], dim=1).view(-1, 2, 2) / zoom[:, None, None]
    shift = 2.0 * torch.stack([shift_x, shift_y], dim=1)[:, :, None]
    theta = torch.cat([inverse, -inverse @ shift], dim=2)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _cubic(distance: Tensor) -> Tensor:
    """Keys' cubic with a = −½, Pillow's: 1.5|x|³ − 2.5|x|² + 1 to 1, −0.5|x|³ + 2.5|x|² − 4|x| + 2 to 2."""
    x = distance.abs_().clamp_max_(2.0)
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return torch.where(x < 1.0, near, far)
