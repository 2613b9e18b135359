"""Learnt positions of a transformer's patches, stretched to another grid."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import interpolate

SUFFIXES = ("pos_embed", "positional_embedding", "position_embeddings")  # what state dicts call them


def stretch_positions(positions: Tensor, height: int, width: int, *, others: int = 1) -> Tensor:
    """(1, others + g², d) → (1, others + height · width, d): bicubic and antialiased, as timm's.

    The first ``others`` belong to tokens that are no patch, such as the class token, and stay as they are.
    """
    own, patches = positions[:, :others], positions[:, others:]
    grid = math.isqrt(patches.shape[1])
    maps = patches.transpose(1, 2).reshape(1, -1, grid, grid)
    stretched = interpolate(maps, size=(height, width), mode="bicubic", antialias=True, align_corners=False)
    return torch.cat([own, stretched.flatten(2).transpose(1, 2)], dim=1)


def fitted_positions(name: str, stored: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A file's positions at the shape that the module has; any other tensor, and one that cannot fit, unchanged."""
    if not name.endswith(SUFFIXES) or stored.shape == shape or stored.ndim != len(shape) or stored.ndim < 2:
        return stored
    if stored.shape[-1] != shape[-1] or math.prod(stored.shape[:-2]) != 1:
        return stored
    for others in (1, 0):
        before, after = stored.shape[-2] - others, shape[-2] - others
        if all(count > 0 and math.isqrt(count) ** 2 == count for count in (before, after)):
            side = math.isqrt(after)
            rows = stored.float().reshape(1, *stored.shape[-2:])
            return stretch_positions(rows, side, side, others=others).reshape(shape)
    return stored
