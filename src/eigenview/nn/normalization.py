"""Normalisation layers by name: what encoders are built with."""

from collections.abc import Callable
from math import gcd
from typing import Literal

from torch import nn

from eigenview.names import Table

Normalization = Literal["batch", "group"]
Norm = Callable[[int], nn.Module]  # channels → layer

GROUPS = 32  # Wu & He 2018


def group_norm(channels: int) -> nn.GroupNorm:
    """GroupNorm with 32 groups, fewer where that leaves under two channels each: one value minus itself is zero."""
    return nn.GroupNorm(gcd(GROUPS, max(1, channels // 2)), channels)


NORMALIZATIONS: Table[Norm] = Table("normalization", {"batch": nn.BatchNorm2d, "group": group_norm})
