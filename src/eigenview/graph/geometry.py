"""Inner products and distances between embeddings, with gradients that stay finite."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from eigenview.errors import ShapeError
from eigenview.graph.pointwise import distance_power
from eigenview.graph.scalars import Scalar

if TYPE_CHECKING:
    from eigenview.graph.targets import Edges


class Geometry:
    """Inner products and squared distances between embeddings, computed once however many kernels ask.

    All pairs of ``a`` (n, d) and ``y`` (m, d) as (n, m), or row by row as (n,) when ``paired``. ``exact``, where ``y``
    is ``a`` itself: the pairs whose distance is taken row by row.
    """

    def __init__(self, a: Tensor, y: Tensor, *, paired: bool = False, exact: Edges | None = None) -> None:
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
        """‖a−y‖², one matrix product for all pairs, seen from the first anchor: nearly collapsed embeddings keep their
        digits. Below 16 units in the last place of the largest ‖·−a₀‖², where rounding rules, it is 0; row by row there
        is no rounding."""
        if self.paired:
            apart: Tensor = _PairedDistances.apply(self.a, self.y)  # type: ignore[no-untyped-call]
            return apart
        if self.a is self.y:
            own: Tensor = _OwnDistances.apply(self.a, self.exact)  # type: ignore[no-untyped-call]
            return own
        squared: Tensor = _Distances.apply(self.a, self.y)  # type: ignore[no-untyped-call]
        return squared

    def distance_power(self, gamma: float, *, scale: Scalar = 1.0) -> Tensor:
        """scale · ‖a−y‖^gamma, gradients finite (:func:`distance_power`)."""
        return distance_power(self.squared_distance, gamma, scale=scale)

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
        ours = self.a.chunk(2, dim=1)
        theirs = ours if self.a is self.y else self.y.chunk(2, dim=1)
        pairs = zip(ours, theirs, strict=True)
        first, second = (Geometry(a, y, paired=self.paired, exact=self.exact) for a, y in pairs)
        return first, second


class _Distances(torch.autograd.Function):
    """‖a_i − y_j‖² of all pairs, with gradients 2·(diag(G1)·A − G·Y) and 2·(diag(Gᵀ1)·Y − Gᵀ·A)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(a, y)
        return _squared_distances(a - a[:1], y - a[:1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, y = ctx.saved_tensors
        a, y = a - a[:1], y - a[:1]
        return (
            _pulled(gradient, a, y) if ctx.needs_input_grad[0] else None,
            _pulled(gradient.T, y, a) if ctx.needs_input_grad[1] else None,
        )


class _OwnDistances(torch.autograd.Function):
    """‖z_i − z_j‖² of all pairs, those of ``exact`` without rounding; its gradient is one product instead of two."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, exact: Edges | None) -> Tensor:
        centred = rows - rows[:1]
        ctx.save_for_backward(rows, centred)
        squared = _squared_distances(centred, centred)
        if exact is not None:
            ours = rows if exact.is_one_each else rows[exact.row]
            squared[exact.row, exact.column] = (ours - rows[exact.column]).square().sum(dim=1)
        return squared

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        rows, centred = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            centred = rows - rows[:1]
        return _pulled(with_transpose(gradient), centred, centred), None


def _squared_distances(a: Tensor, y: Tensor) -> Tensor:
    ours = a.square().sum(dim=1, keepdim=True)
    theirs = ours if a is y else y.square().sum(dim=1, keepdim=True)
    with full_precision(a.device):
        squared = torch.addmm(ours, a, y.T, alpha=-2).add_(theirs.T)
    largest = ours.max() if a is y else torch.maximum(ours.max(), theirs.max())
    return torch.threshold_(squared, 16 * torch.finfo(a.dtype).eps * largest.item(), 0.0)


def _pulled(gradient: Tensor, a: Tensor, y: Tensor) -> Tensor:
    """2·Σ_j G_ij·(a_i − y_j)."""
    with full_precision(a.device):
        return torch.addmm(gradient.sum(dim=1, keepdim=True) * a, gradient, y, beta=2, alpha=-2)


def with_transpose(matrix: Tensor) -> Tensor:
    """M + Mᵀ. Copied first: an addition that reads down columns takes up to six times as long."""
    return matrix.T.clone(memory_format=torch.contiguous_format).add_(matrix)


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
