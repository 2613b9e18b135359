"""Reductions over the edges of a similarity graph, block by block: exact, and never an n × n matrix.

:func:`reduce_rows` gives each anchor i a number over its edges: log Σ_j k_ij, Σ_j log(1+k_ij) or Σ_j w_ij log k_ij.
:func:`edge_similarities` gives log k along a list of edges. Both are differentiable in anchors, candidates and the
kernel's tensors; the backward evaluates the blocks again, so memory stays O(n·d).

When anchors are their own candidates the graph is symmetric, and only the blocks on and above the diagonal are
visited: each serves its rows and its columns. That is two thirds of the matrix products of the plain way.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from eigenview.errors import EigenviewError
from eigenview.graph.blocks import Block, Mask, Similarities, blocks
from eigenview.graph.eager import eager
from eigenview.graph.kernels import Kernel
from eigenview.graph.targets import SoftWeights

Reduction = Literal["log_sum", "softplus_sum", "sum"]

EDGES_AT_ONCE = 16_384


@eager
def reduce_rows(
    anchors: Tensor,
    candidates: Tensor | None,
    kernel: Kernel,
    *,
    reduction: Reduction = "log_sum",
    mask: Mask | None = None,
    weights: Tensor | SoftWeights | None = None,
    block_size: int | None = None,
) -> Tensor:
    """One number per anchor over its edges: ``log_sum`` log Σ k, ``softplus_sum`` Σ log(1+k), ``sum`` Σ w·log k.

    ``anchors`` (n, d); ``candidates`` (m, d), or None when the anchors are their own candidates. ``weights`` (n, m)
    only with ``sum``. An anchor without edges gets −inf by ``log_sum`` and 0 by the others. ``InnerProductKernel()``
    takes bare matrix products: fold a temperature into the embeddings (see ``Kernel.inner_form``).
    """
    # 512 × 512 floats stay in a core's cache; an accelerator wants larger pieces to be busy
    size = block_size or (512 if anchors.device.type == "cpu" else 4096)
    task = _Task(kernel, reduction, mask or Mask(), weights, size)
    result: Tensor = _ReduceRows.apply(task, anchors, candidates, *kernel.tensors())  # type: ignore[no-untyped-call]
    return result


@eager
def edge_similarities(
    anchors: Tensor, candidates: Tensor | None, kernel: Kernel, edges: tuple[Tensor, Tensor]
) -> Tensor:
    """log k along edges (row, column), as (e,): a few thousand edges at a time."""
    result: Tensor = _EdgeSimilarities.apply(kernel, edges, anchors, candidates, *kernel.tensors())  # type: ignore[no-untyped-call]
    return result


def softplus(values: Tensor) -> Tensor:
    """log(1 + e^x), exact in float64 too: torch's own takes x for it from 20 on."""
    return torch.nn.functional.softplus(values, threshold=50.0)


@dataclass(frozen=True)
class _Task:
    kernel: Kernel
    reduction: Reduction
    mask: Mask
    weights: Tensor | SoftWeights | None
    block_size: int
    shift: float | None = None  # set: visited symmetrically, with one shift for all exponentials

    def blocks(self, rows: int, columns: int) -> Iterator[Block]:
        return blocks(rows, columns, self.block_size, self.mask, symmetric=self.shift is not None)


class _ReduceRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, task: _Task, anchors: Tensor, candidates: Tensor | None, *settings: Tensor) -> Tensor:
        similarities = Similarities(task.kernel, anchors, candidates)
        result = None
        with torch.autocast(anchors.device.type, enabled=False):
            is_symmetric = task.mask.is_symmetric and task.kernel.is_symmetric
            if candidates is None and task.weights is None and is_symmetric:
                task = replace(task, shift=_common_shift(task, anchors))
                result = _symmetric_rows(task, similarities)
            if result is None:
                task = replace(task, shift=None)
                result = _plain_rows(task, similarities)
        ctx.task = task
        ctx.save_for_backward(anchors, candidates, result, *settings)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        anchors, candidates, result, *settings = ctx.saved_tensors
        needs = (ctx.needs_input_grad[1], ctx.needs_input_grad[2])
        similarities = Similarities(ctx.task.kernel, anchors, candidates, needs=needs)
        pull = _pull_plain if ctx.task.shift is None else _pull_symmetric
        with torch.no_grad(), torch.autocast(anchors.device.type, enabled=False):
            pull(ctx.task, similarities, result, gradient)
        return None, *_gradients(similarities, gradient, anchors, candidates, settings)


class _EdgeSimilarities(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        kernel: Kernel,
        edges: tuple[Tensor, Tensor],
        anchors: Tensor,
        candidates: Tensor | None,
        *settings: Tensor,
    ) -> Tensor:
        ctx.kernel, ctx.edges = kernel, edges
        ctx.save_for_backward(anchors, candidates, *settings)
        result = anchors.new_empty(len(edges[0]))
        with torch.autocast(anchors.device.type, enabled=False):
            for piece, row, column in _pieces(edges):
                result[piece] = kernel.pairs(anchors[row], (anchors if candidates is None else candidates)[column])
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        anchors, candidates, *settings = ctx.saved_tensors
        needs = (ctx.needs_input_grad[2], ctx.needs_input_grad[3])
        similarities = Similarities(ctx.kernel, anchors, candidates, needs=needs)
        with torch.no_grad(), torch.autocast(anchors.device.type, enabled=False):
            for piece, row, column in _pieces(ctx.edges):
                similarities.pull_edges(row, column, gradient[piece])
        return None, None, *_gradients(similarities, gradient, anchors, candidates, settings)


def _pieces(edges: tuple[Tensor, Tensor]) -> Iterator[tuple[slice, Tensor, Tensor]]:
    for start in range(0, len(edges[0]), EDGES_AT_ONCE):
        piece = slice(start, start + EDGES_AT_ONCE)
        yield piece, edges[0][piece], edges[1][piece]


def _common_shift(task: _Task, anchors: Tensor) -> float:
    """What all exponentials can be shifted by: the largest log k of an anchor with itself.

    Where kernels peak at zero distance (and, by Cauchy–Schwarz, for inner products) that is the largest of all;
    :func:`_symmetric_rows` checks.
    """
    if task.reduction != "log_sum":
        return 0.0
    return max(float(task.kernel.pairs(rows, rows).max()) for rows in torch.split(anchors, EDGES_AT_ONCE))


def _symmetric_rows(task: _Task, similarities: Similarities) -> Tensor | None:
    """The reduction from blocks on and above the diagonal; None where one shift cannot serve all rows."""
    embeddings = similarities.anchors.embeddings
    total = embeddings.new_zeros(len(embeddings))
    for block in task.blocks(len(total), len(total)):
        values = _edge_values(task, block, similarities.of(block))
        total[block.rows] += values.sum(dim=1)
        if not block.is_diagonal:
            total[block.columns] += values.sum(dim=0)
    if task.reduction != "log_sum":
        return total
    assert task.shift is not None
    limits = torch.finfo(total.dtype)
    # below tiny/eps a row's largest terms would have lost digits; above max they overflowed
    is_safe = bool((total > limits.tiny / limits.eps).all() & (total < limits.max).all())
    return total.log() + task.shift if is_safe else None


def _edge_values(task: _Task, block: Block, similarities: Tensor) -> Tensor:
    """What each edge adds to its row; exponentials come shifted."""
    if task.reduction == "sum":
        return block.mask.fill(similarities, 0.0)
    block.mask.fill(similarities, -torch.inf)
    if task.reduction == "softplus_sum":
        return softplus(similarities)
    return similarities.sub_(task.shift or 0.0).exp_()


def _edge_slopes(task: _Task, block: Block, similarities: Tensor) -> Tensor:
    """The derivative of :func:`_edge_values` in log k."""
    if task.reduction == "sum":
        return block.mask.fill(similarities.fill_(1.0), 0.0)
    if task.reduction == "softplus_sum":
        return block.mask.fill(similarities, -torch.inf).sigmoid_()
    return _edge_values(task, block, similarities)


def _pull_symmetric(task: _Task, similarities: Similarities, result: Tensor, gradient: Tensor) -> None:
    """dL/d log k_ij = slope_ij · (u_i + u_j): an edge above the diagonal stands for both directions."""
    assert task.shift is not None
    row_weight = gradient * (task.shift - result).exp() if task.reduction == "log_sum" else gradient

    def gradient_of(values: Tensor) -> Tensor:
        slopes = _edge_slopes(task, block, values)
        ours = row_weight[block.rows, None]
        return slopes.mul_(ours if block.is_diagonal else ours + row_weight[None, block.columns])

    for block in task.blocks(len(result), len(result)):
        similarities.pull(block, gradient_of)


def _plain_rows(task: _Task, similarities: Similarities) -> Tensor:
    """The reduction row by row, each shifted by its own running maximum: safe for any range of log k."""
    rows, columns = len(similarities.anchors.embeddings), len(similarities.candidates.embeddings)
    total = similarities.anchors.embeddings.new_zeros(rows)
    highest = torch.full_like(total, -torch.inf)
    for block in task.blocks(rows, columns):
        values = similarities.of(block)
        if task.reduction == "log_sum":
            block.mask.fill(values, -torch.inf)
            before = highest[block.rows]
            now = torch.maximum(before, values.amax(dim=1))
            shift = now.nan_to_num(neginf=0.0)  # a row without edges so far
            share = values.sub_(shift[:, None]).exp_().sum(dim=1)
            total[block.rows] = total[block.rows] * (before - shift).exp() + share
            highest[block.rows] = now
        else:
            values = _edge_values(task, block, values)
            if task.weights is not None:
                values = values * task.weights[block.rows, block.columns]
            total[block.rows] += values.sum(dim=1)
    return highest + total.log() if task.reduction == "log_sum" else total


def _pull_plain(task: _Task, similarities: Similarities, result: Tensor, gradient: Tensor) -> None:
    log_sum = result.nan_to_num(neginf=0.0)

    def gradient_of(values: Tensor) -> Tensor:
        if task.reduction == "log_sum":
            slopes = block.mask.fill(values, -torch.inf).sub_(log_sum[block.rows, None]).exp_()
        else:
            slopes = _edge_slopes(task, block, values)
            if task.weights is not None:
                slopes = slopes.mul_(task.weights[block.rows, block.columns])
        return slopes.mul_(gradient[block.rows, None])

    for block in task.blocks(len(result), len(similarities.candidates.embeddings)):
        similarities.pull(block, gradient_of)


def _gradients(
    similarities: Similarities, incoming: Tensor, anchors: Tensor, candidates: Tensor | None, settings: list[Tensor]
) -> tuple[Tensor | None, ...]:
    """Gradients of anchors, candidates and settings."""
    of_candidates = None if candidates is None else similarities.candidates.gradient
    gradients = (similarities.anchors.gradient, of_candidates, *similarities.setting_gradients)
    if not torch.is_grad_enabled():
        return gradients
    sources = [tensor for tensor in (incoming, anchors, candidates, *settings) if tensor is not None]
    return tuple(None if gradient is None else once(gradient, *sources) for gradient in gradients)


def once(gradient: Tensor, *sources: Tensor) -> Tensor:
    """The same gradient, which refuses to be differentiated again."""
    refusing: Tensor = _Once.apply(gradient, *sources)  # type: ignore[no-untyped-call]
    return refusing


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, *sources: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise EigenviewError("a streamed coupling has first derivatives only; second derivatives were asked for")
