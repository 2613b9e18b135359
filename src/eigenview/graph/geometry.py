"""Inner products and distances between embeddings, with gradients that stay finite."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from eigenview.errors import ShapeError


class Geometry:
    """Inner products and squared distances between embeddings, computed once however many kernels ask.

    All pairs of ``a`` (n, d) and ``y`` (m, d) as (n, m), or row by row as (n,) when ``paired``. ``exact``, where ``y``
    is ``a`` itself: the pairs (row, column) whose distance is taken row by row.
    """

    def __init__(
        self, a: Tensor, y: Tensor, *, paired: bool = False, exact: tuple[Tensor, Tensor] | None = None
    ) -> None:
        if a.ndim != 2 or y.ndim != 2 or a.shape[1] != y.shape[1] or (paired and a.shape != y.shape):
            rule = "equal (n, d)" if paired else "(n, d) and (m, d)"
            raise ShapeError(f"a kernel compares embeddings of shape {rule}; got {tuple(a.shape)} and {tuple(y.shape)}")
        self.a, self.y, self.paired = at_least_float32(a), at_least_float32(y), paired
        self.exact = exact

    @cached_property
    def inner(self) -> Tensor:
        with full_precision(self.a.device):
            return (self.a * self.y).sum(dim=1) if self.paired else self.a @ self.y.T

    @cached_property
    def squared_distance(self) -> Tensor:
        """‖a−y‖², one matrix product for all pairs: [−2a, ‖a‖², 1]·[y, 1, ‖y‖²].

        Seen from the first anchor, so that nearly collapsed embeddings keep their digits. Rounding leaves an error of
        a few units in the last place of ‖a−a₀‖² (see :attr:`floor`); row by row there is none.
        """
        if self.paired:
            apart: Tensor = _PairedDistances.apply(self.a, self.y)  # type: ignore[no-untyped-call]
            return apart
        if self.a is self.y:
            own: Tensor = _OwnDistances.apply(self.a, self.exact)  # type: ignore[no-untyped-call]
            return own
        a, y = self._from_first
        left = torch.cat([-2 * a, a.square().sum(1, keepdim=True), a.new_ones(len(a), 1)], dim=1)
        right = torch.cat([y, y.new_ones(len(y), 1), y.square().sum(1, keepdim=True)], dim=1)
        with full_precision(a.device):
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

    def distance_power(self, gamma: float) -> Tensor:
        """‖a−y‖^gamma, gradients finite (:func:`distance_power`)."""
        if self.a is self.y and not self.paired:
            return distance_power(self.squared_distance, gamma, is_flat=True)
        return distance_power(self.squared_distance, gamma, floor=self.floor)

    @cached_property
    def on_sphere(self) -> Geometry:
        unit = nn.functional.normalize(self.a, dim=1)
        other = unit if self.a is self.y else nn.functional.normalize(self.y, dim=1)
        return Geometry(unit, other, paired=self.paired, exact=self.exact)

    @cached_property
    def halves(self) -> tuple[Geometry, Geometry]:
        width = self.a.shape[1]
        if width % 2:
            raise ShapeError(f"concat splits embeddings in two halves and needs an even width; got {width}")
        ours = self.a.tensor_split(2, dim=1)
        theirs = ours if self.a is self.y else self.y.tensor_split(2, dim=1)
        pairs = zip(ours, theirs, strict=True)
        first, second = (Geometry(a, y, paired=self.paired, exact=self.exact) for a, y in pairs)
        return first, second


class _OwnDistances(torch.autograd.Function):
    """‖z_i − z_j‖² of all pairs, with gradient 2·(diag(G'1) − G')·Z, G' = G + Gᵀ: one product each way.

    Below 16 units in the last place of the largest ‖z−z₀‖², where rounding rules, it is 0, but for ``exact`` pairs.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, exact: tuple[Tensor, Tensor] | None) -> Tensor:
        ctx.save_for_backward(rows)
        centred = rows - rows[:1]
        size = centred.square().sum(dim=1, keepdim=True)
        with full_precision(rows.device):
            squared = torch.addmm(size, centred, centred.T, alpha=-2).add_(size.T)
        torch.threshold_(squared, 16 * torch.finfo(rows.dtype).eps * size.max().item(), 0.0)
        if exact is not None:
            row, column = exact
            squared[row, column] = rows.index_select(0, row).sub_(rows.index_select(0, column)).square_().sum(dim=1)
        return squared

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        centred, both = rows - rows[:1], gradient + gradient.T
        with full_precision(rows.device):
            return 2 * torch.addmm(both.sum(dim=1, keepdim=True) * centred, both, centred, alpha=-1), None


class _PairedDistances(torch.autograd.Function):
    """‖a_i − y_i‖² row by row."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(a, y)
        return (a - y).square_().sum(dim=1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, y = ctx.saved_tensors
        pull = (a - y) * (2 * gradient)[:, None]
        return pull, -pull


def distance_power(squared: Tensor, gamma: float, *, floor: float | None = None, is_flat: bool = False) -> Tensor:
    """‖·‖^gamma from ‖·‖²; below ‖·‖² = ``floor`` a parabola, so that the slope is finite (``ExponentialKernel``).

    ``is_flat``: what is 0 stays 0, without a slope.
    """
    if gamma == 2:
        return squared
    least = torch.finfo(squared.dtype).eps ** 2 if floor is None else floor
    power: Tensor = _DistancePower.apply(squared, gamma, least, is_flat)  # type: ignore[no-untyped-call]
    return power


class _DistancePower(torch.autograd.Function):
    """r · max(r, floor)^(γ/2−1), in few passes over the block."""

    @staticmethod
    def forward(ctx: Any, squared: Tensor, gamma: float, floor: float, is_flat: bool) -> Tensor:
        slope = squared.clamp_min(floor)
        if gamma == 1:
            slope.rsqrt_()
        elif gamma == 0.5:
            root = slope.rsqrt_()
            slope = root.sqrt().mul_(root)  # r^(−1/4) · r^(−1/2)
        else:
            slope.log_().mul_(gamma / 2 - 1).exp_()  # pow, several times faster
        ctx.save_for_backward(squared, slope)
        ctx.gamma, ctx.floor, ctx.is_flat = gamma, floor, is_flat
        return squared * slope

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        squared, slope = ctx.saved_tensors
        if ctx.is_flat:
            slope = torch.where(squared > 0, slope, 0).mul_(ctx.gamma / 2)
        else:
            slope = torch.addcmul(slope, slope, (squared > ctx.floor).to(slope.dtype), value=ctx.gamma / 2 - 1)
        return slope.mul_(gradient), None, None, None


def unit_rows(rows: Tensor, norm: Tensor | None = None) -> Tensor:
    """Rows on the unit sphere. ``norm`` (n, 1) where it is known and its square is in range; otherwise rows are first
    brought to size 1, so that none over- or underflows. Zero stays zero."""
    unit: Tensor = _UnitRows.apply(rows, norm)  # type: ignore[no-untyped-call]
    return unit


class _UnitRows(torch.autograd.Function):
    """x/‖x‖ with gradient (g − z·⟨z, g⟩)/‖x‖: a third of the calls that autograd would make of it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, norm: Tensor | None) -> Tensor:
        if norm is None:
            size = _sizes(rows)
            unit = rows / size
            norm = torch.linalg.vector_norm(unit, dim=1, keepdim=True).clamp_min_(1e-12)
            unit.div_(norm)
            norm.mul_(size)
        else:
            unit = rows / norm
        ctx.save_for_backward(rows, unit, norm)
        return unit

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        rows, unit, norm = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            again = nn.functional.normalize(rows / _sizes(rows.detach()), dim=1)
            return torch.autograd.grad(again, rows, gradient, create_graph=True)[0], None
        along = (unit * gradient).sum(dim=1, keepdim=True)
        return torch.addcmul(gradient, unit, along, value=-1).div_(norm), None


def _sizes(rows: Tensor) -> Tensor:
    """(n, 1) the largest entry of each row, 1 for a row of zeros."""
    largest = rows.abs().amax(dim=1, keepdim=True)
    return largest.where(largest > 0, 1)


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """No autocast inside; where there is none anyway, nothing is entered."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def at_least_float32(embeddings: Tensor) -> Tensor:
    return embeddings.float() if embeddings.dtype in (torch.float16, torch.bfloat16) else embeddings
