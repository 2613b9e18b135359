"""A graph small enough to be held whole: one matrix of log k from the forward to the backward.

Up to ``EDGES_HELD`` edges this beats the blocks of :mod:`eigenview.graph.streaming`: nothing is evaluated twice, and at
a few hundred views time goes into calls, not into arithmetic. The same sums of the same log k, so the same results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from eigenview.graph.blocks import Mask
from eigenview.graph.edges import Graph
from eigenview.graph.geometry import Geometry, full_precision, with_transpose
from eigenview.graph.kernels import Kernel
from eigenview.graph.streaming import Reduction, once, softplus
from eigenview.graph.targets import DenseWeights, Edges, EqualIds, Positives, SoftWeights

EDGES_HELD = 1536**2  # from there on blocks are as fast, for sums a little sooner (docs/losses.md)

CHEAP_COPY = 256**2  # edges whose copy takes less time than two more calls


@dataclass(frozen=True)
class HeldGraph(Graph):
    """A :class:`Graph` with its ``log_k`` (n, m), without the bias; nobody asks it for extra candidates."""

    log_k: Tensor

    @classmethod
    def holding(
        cls, kernel: Kernel, anchors: Tensor, candidates: Tensor | None, positives: Positives, *, unit: bool
    ) -> HeldGraph:
        """Listed positives enter with their exact log k: from a matrix product, distances close to 0 are rounding."""
        form = kernel.inner_form(unit=unit)
        others = anchors if candidates is None else candidates
        listed = positives if isinstance(positives, Edges) else None
        if form is None and candidates is None:
            log_k = kernel.log_similarity(Geometry(anchors, anchors, exact=listed))
        elif form is None:
            log_k = kernel(anchors, others)
            if listed is not None:
                exact = kernel.pairs(anchors[listed.row], others[listed.column])
                log_k = log_k.index_put((listed.row, listed.column), exact)
        elif candidates is None and isinstance(form.scale, float):
            log_k = _InnerProducts.apply(anchors, form.scale)  # type: ignore[no-untyped-call]
        else:
            with full_precision(anchors.device):
                log_k = anchors * form.scale @ others.T
        return cls(kernel, anchors, candidates, None, 0.0 if form is None else form.bias, None, log_k)

    def squared(self) -> HeldGraph:
        return replace(self, log_k=2 * self.log_k, bias=2 * self.bias)

    def cross_entropy(self, edges: Edges, mask: Mask, scale: Tensor | int) -> Tensor:
        """−Σ_ij P_ij log Q_ij / scale, Q the walk over the edges that ``mask`` counts: one call for the usual case."""
        loss: Tensor = _CrossEntropy.apply(self.log_k, mask, edges, scale)  # type: ignore[no-untyped-call]
        return loss

    def rows(self, reduction: Reduction, mask: Mask) -> Tensor:
        log_k = self.log_k
        if reduction == "log_sum":
            return self._with_bias(_LogSum.apply(log_k, mask), reduction)  # type: ignore[no-untyped-call]
        if reduction == "sum":
            return mask.fill(log_k.clone(), 0.0).sum(dim=1)
        return softplus(mask.fill(log_k + self.bias, -torch.inf)).sum(dim=1)

    def along(self, edges: Edges) -> Tensor:
        return self._with_bias(self.log_k[edges.row, edges.column], "log_sum")

    def _over_weights(self, positives: DenseWeights | SoftWeights) -> Tensor:
        weights = positives.weights if isinstance(positives, DenseWeights) else positives[:, :]
        return (weights * self.log_k).sum(dim=1)

    def _over_equal_ids(self, positives: EqualIds, reduction: Reduction) -> Tensor:
        return replace(self, bias=0.0).rows(reduction, positives.mask)


class _InnerProducts(torch.autograd.Function):
    """scale · Z·Zᵀ, whose gradient scale · (G + Gᵀ)·Z is one product instead of two."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        ctx.save_for_backward(rows)
        with full_precision(rows.device):
            return torch.addmm(rows.new_empty(()), rows, rows.T, beta=0, alpha=scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        with full_precision(rows.device):
            return torch.addmm(rows.new_empty(()), with_transpose(gradient), rows, beta=0, alpha=ctx.scale), None


class _LogSum(torch.autograd.Function):
    """log Σ_j exp(log k_ij) over the edges that count, (n,); −inf for a row without any."""

    @staticmethod
    def forward(ctx: Any, log_k: Tensor, mask: Mask) -> Tensor:
        values = mask.fill(log_k.clone(), -torch.inf)
        highest = values.amax(dim=1, keepdim=True).clamp_min_(torch.finfo(values.dtype).min)
        values.sub_(highest).exp_()
        total = values.sum(dim=1)
        log_sum = total.log().add_(highest[:, 0])
        ctx.save_for_backward(values, total, log_sum)
        return log_sum

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        values, total, log_sum = ctx.saved_tensors
        share = values * (gradient / total)[:, None]
        return once(share, gradient, log_sum) if torch.is_grad_enabled() else share, None


def _log_softmax(log_k: Tensor, mask: Mask) -> Tensor:
    """Of each row, over the edges that count. Where few do not, they are left out for a moment, which saves a copy."""
    is_cheap = log_k.numel() <= CHEAP_COPY
    if is_cheap or mask.excluded is None or mask.same is not None or mask.different is not None:
        return torch.log_softmax(mask.fill(log_k.clone(), -torch.inf), dim=1)
    values = log_k.data  # as it was when the backward asks for it: what is saved of it stays true
    kept = values[mask.excluded]
    try:
        return torch.log_softmax(mask.fill(values, -torch.inf), dim=1)
    finally:
        values[mask.excluded] = kept


class _CrossEntropy(torch.autograd.Function):
    """−Σ_ij P_ij log Q_ij over listed positives, Q the softmax of each row; its gradient is Q·ΣP − P."""

    @staticmethod
    def forward(ctx: Any, log_k: Tensor, mask: Mask, edges: Edges, scale: Tensor | int) -> Tensor:
        log_q = _log_softmax(log_k, mask)
        along = log_q[edges.row, edges.column]
        ctx.edges, ctx.scale = edges, scale
        loss = (along if edges.is_one_each else edges.weight * along).sum().div_(-scale)
        ctx.save_for_backward(log_q, loss)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        log_q, loss = ctx.saved_tensors
        edges: Edges = ctx.edges
        share = torch.softmax(log_q, dim=1)
        if not edges.is_one_each:
            share.mul_(share.new_zeros(len(share)).index_add_(0, edges.row, edges.weight)[:, None])
        share.index_put_((edges.row, edges.column), -edges.weight, accumulate=True)
        share.mul_(gradient / ctx.scale)
        return once(share, gradient, loss) if torch.is_grad_enabled() else share, None, None, None
