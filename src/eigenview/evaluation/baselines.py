"""What every representation must beat without any training: the pixels themselves, and the colours alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import Step

LARGEST_SIDE = 16  # pixels: more columns tell a linear classifier little, and take it hours


class RawPixels(Encoder):
    """The evaluation view, averaged down to at most 16 × 16 and flattened: a classifier without a representation."""

    def __init__(self, size: int, *, channels: int = 3) -> None:
        super().__init__()
        self.side = min(size, LARGEST_SIDE)
        self.channels, self.feature_width = channels, channels * self.side**2

    def steps(self) -> list[Step]:
        return [(POOLED, self._flattened)]

    def _flattened(self, images: Tensor) -> Tensor:
        small = images if images.shape[2] == self.side else adaptive_avg_pool2d(images, self.side)
        return small.flatten(1)

    def extra_repr(self) -> str:
        return f"{self.feature_width} values, {self.side} x {self.side} pixels"


class ColourStatistics(Encoder):
    """The mean and the standard deviation of each channel: six numbers for colour, two for grey."""

    def __init__(self, *, channels: int = 3) -> None:
        super().__init__()
        self.channels, self.feature_width = channels, 2 * channels

    def steps(self) -> list[Step]:
        return [(POOLED, _statistics)]


def _statistics(images: Tensor) -> Tensor:
    deviation, mean = torch.std_mean(images.flatten(2), dim=2, correction=0)
    return torch.cat([mean, deviation], dim=1)
