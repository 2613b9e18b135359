"""Inner products and distances between embeddings, with gradients that stay finite."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from eigenview.errors import ShapeError


class Geometry:
    """Inner products and squared distances between embeddings, computed once however many kernels ask.

    All pairs of ``a`` (n, d) and ``y`` (m, d) as (n, m), or row by row as (n,) when ``paired``.
    """

    def __init__(self, a: Tensor, y: Tensor, *, paired: bool = False) -> None:
        if a.ndim != 2 or y.ndim != 2 or a.shape[1] != y.shape[1] or (paired and a.shape != y.shape):
            rule = "equal (n, d)" if paired else "(n, d) and (m, d)"
            raise ShapeError(f"a kernel compares embeddings of shape {rule}; got {tuple(a.shape)} and {tuple(y.shape)}")
        self.a, self.y, self.paired = at_least_float32(a), at_least_float32(y), paired

    @cached_property
    def inner(self) -> Tensor:
        with torch.autocast(self.a.device.type, enabled=False):
            return (self.a * self.y).sum(dim=1) if self.paired else self.a @ self.y.T

    @cached_property
    def squared_distance(self) -> Tensor:
        """‖a−y‖², one matrix product for all pairs: [−2a, ‖a‖², 1]·[y, 1, ‖y‖²].

        Seen from the first anchor, so that nearly collapsed embeddings keep their digits. Rounding leaves an error of
        a few units in the last place of ‖a−a₀‖² (see :attr:`floor`); row by row there is none.
        """
        if self.paired:
            return (self.a - self.y).square().sum(dim=1)
        a, y = self._from_first
        left = torch.cat([-2 * a, a.square().sum(1, keepdim=True), a.new_ones(len(a), 1)], dim=1)
        right = torch.cat([y, y.new_ones(len(y), 1), y.square().sum(1, keepdim=True)], dim=1)
        with torch.autocast(a.device.type, enabled=False):
            squared = left @ right.T
        squared.detach().clamp_(min=0)  # in place, and not part of the gradient: two passes over the block less
        return squared

    @cached_property
    def _from_first(self) -> tuple[Tensor, Tensor]:
        origin = self.a[:1].detach()
        return self.a - origin, self.y - origin

    @cached_property
    def floor(self) -> float:
        """The squared distance below which rounding rules: 16 units in the last place of the largest ‖·−a₀‖²."""
        limits = torch.finfo(self.a.dtype)
        if self.paired:
            return limits.eps**2
        largest = max(float(rows.detach().square().sum(dim=1).max()) for rows in self._from_first)
        return max(16 * limits.eps * largest, limits.eps**2)

    @cached_property
    def on_sphere(self) -> Geometry:
        unit = nn.functional.normalize
        return Geometry(unit(self.a, dim=1), unit(self.y, dim=1), paired=self.paired)

    @cached_property
    def halves(self) -> tuple[Geometry, Geometry]:
        width = self.a.shape[1]
        if width % 2:
            raise ShapeError(f"concat splits embeddings in two halves and needs an even width; got {width}")
        first = Geometry(self.a[:, : width // 2], self.y[:, : width // 2], paired=self.paired)
        return first, Geometry(self.a[:, width // 2 :], self.y[:, width // 2 :], paired=self.paired)


def distance_power(squared: Tensor, gamma: float, *, floor: float | None = None) -> Tensor:
    """‖·‖^gamma from ‖·‖²; below ‖·‖² = ``floor`` a parabola, so that the slope is finite (``ExponentialKernel``)."""
    if gamma == 2:
        return squared
    least = torch.finfo(squared.dtype).eps ** 2 if floor is None else floor
    power: Tensor = _DistancePower.apply(squared, gamma, least)  # type: ignore[no-untyped-call]
    return power


class _DistancePower(torch.autograd.Function):
    """r · max(r, floor)^(γ/2−1), in few passes over the block."""

    @staticmethod
    def forward(ctx: Any, squared: Tensor, gamma: float, floor: float) -> Tensor:
        slope = squared.clamp_min(floor)
        if gamma == 1:
            slope.rsqrt_()
        elif gamma == 0.5:
            root = slope.rsqrt_()
            slope = root.sqrt().mul_(root)  # r^(−1/4) · r^(−1/2)
        else:
            slope.log_().mul_(gamma / 2 - 1).exp_()  # pow, several times faster
        ctx.save_for_backward(squared, slope)
        ctx.gamma, ctx.floor = gamma, floor
        return squared * slope

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        squared, slope = ctx.saved_tensors
        beyond = (squared > ctx.floor).to(slope.dtype)
        return torch.addcmul(slope, slope, beyond, value=ctx.gamma / 2 - 1) * gradient, None, None


def at_least_float32(embeddings: Tensor) -> Tensor:
    return embeddings.float() if embeddings.dtype in (torch.float16, torch.bfloat16) else embeddings
