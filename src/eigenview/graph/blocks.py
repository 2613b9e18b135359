"""The blocks that a streamed graph is cut into: which edges of a block count, and its log k with gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.graph.kernels import BARE, Kernel


@dataclass(frozen=True)
class Mask:
    """Which edges count. By default all; ``excluded`` (row, column) leaves edges out; ``same`` keeps only those whose
    (row ids, column ids) agree, ``different`` only those whose ids differ.

    ``is_symmetric``: where (i, j) counts, (j, i) does; otherwise say so. With ``same``, sorted ids make most blocks
    empty and those are never visited.
    """

    excluded: tuple[Tensor, Tensor] | None = None
    same: tuple[Tensor, Tensor] | None = None
    different: tuple[Tensor, Tensor] | None = None
    is_symmetric: bool = True

    def fill(self, values: Tensor, value: float) -> Tensor:
        """Write ``value`` over the edges of a whole (n, m) matrix that do not count, in place."""
        if self.excluded is not None:
            values[self.excluded] = value
        if self.same is not None:
            values.masked_fill_(self.same[0][:, None] != self.same[1][None, :], value)
        if self.different is not None:
            values.masked_fill_(self.different[0][:, None] == self.different[1][None, :], value)
        return values


@dataclass(frozen=True)
class Block:
    rows: slice
    columns: slice
    mask: Mask  # of its own edges
    is_diagonal: bool


def blocks(rows: int, columns: int, size: int, mask: Mask, *, symmetric: bool) -> Iterator[Block]:
    """The blocks of an n × m graph in order; when ``symmetric``, those on and above the diagonal."""
    across = -(-columns // size)
    if mask.excluded is not None:
        row, column = mask.excluded
        number = (row // size) * across + column // size
        order = torch.argsort(number, stable=True)
        row, column = row[order] % size, column[order] % size
        ends = [0, *torch.bincount(number, minlength=-(-rows // size) * across).cumsum(0).tolist()]
    for i, top in enumerate(range(0, rows, size)):
        ours = slice(top, min(top + size, rows))
        for j in range(i if symmetric else 0, across):
            theirs = slice(j * size, min((j + 1) * size, columns))
            same, different = (ids and (ids[0][ours], ids[1][theirs]) for ids in (mask.same, mask.different))
            if same is not None and bool((same[0].max() < same[1].min()) | (same[1].max() < same[0].min())):
                continue
            excluded, place = None, i * across + j
            if mask.excluded is not None and ends[place] < ends[place + 1]:
                inside = slice(ends[place], ends[place + 1])
                excluded = row[inside], column[inside]
            yield Block(ours, theirs, Mask(excluded, same, different), symmetric and i == j)


@dataclass
class _Side:
    """Embeddings on one side of the graph, with the running sum of their gradient (None where nobody asks)."""

    embeddings: Tensor
    gradient: Tensor | None


class Similarities:
    """log k of a block and, for the backward, what a gradient on that block means for embeddings and settings.

    ``candidates`` None: the anchors are their own candidates, and one gradient holds both sides.
    """

    def __init__(
        self, kernel: Kernel, anchors: Tensor, candidates: Tensor | None, *, needs: tuple[bool, bool] = (False, False)
    ) -> None:
        # leaves of their own: where one setting is made from another, its gradient must not reach the other twice
        leaves = {id(tensor): tensor.detach().requires_grad_() for tensor in kernel.tensors()}
        self.settings = tuple(leaves.values())
        self.kernel = deepcopy(kernel, dict[int, object](leaves)) if leaves else kernel
        self.anchors = _Side(anchors, torch.zeros_like(anchors) if needs[0] else None)
        if candidates is None:
            self.candidates = self.anchors
        else:
            self.candidates = _Side(candidates, torch.zeros_like(candidates) if needs[1] else None)
        self.setting_gradients = [torch.zeros_like(leaf) for leaf in self.settings]
        self.is_bare = not self.settings and kernel == BARE
        self._buffer: Tensor | None = None

    def of(self, block: Block) -> Tensor:
        """(rows, columns) log-similarities, free to overwrite until the next call."""
        a, y = self.anchors.embeddings[block.rows], self.candidates.embeddings[block.columns]
        if not self.is_bare:
            return self.kernel(a, y)
        if self._buffer is None or self._buffer.numel() < len(a) * len(y):
            self._buffer = a.new_empty(len(a) * len(y))
        return torch.mm(a, y.T, out=self._buffer[: len(a) * len(y)].view(len(a), len(y)))

    def pull(self, block: Block, gradient_of: Callable[[Tensor], Tensor]) -> None:
        """Add this block's share to every gradient; ``gradient_of`` turns its log k into dL/d log k."""
        if not self.is_bare:
            self._pull_by_autograd(self.kernel, gradient_of, block.rows, block.columns)
            return
        gradient = gradient_of(self.of(block))
        if self.anchors.gradient is not None:
            self.anchors.gradient[block.rows].addmm_(gradient, self.candidates.embeddings[block.columns])
        if self.candidates.gradient is not None:
            self.candidates.gradient[block.columns].addmm_(gradient.T, self.anchors.embeddings[block.rows])

    def pull_edges(self, row: Tensor, column: Tensor, gradient: Tensor) -> None:
        self._pull_by_autograd(self.kernel.pairs, lambda _: gradient, row, column)

    def _pull_by_autograd(
        self,
        evaluate: Callable[[Tensor, Tensor], Tensor],
        gradient_of: Callable[[Tensor], Tensor],
        rows: slice | Tensor,
        columns: slice | Tensor,
    ) -> None:
        sides = ((self.anchors, rows), (self.candidates, columns))
        with torch.enable_grad():
            a, y = (side.embeddings[where].detach().requires_grad_(side.gradient is not None) for side, where in sides)
            similarities = evaluate(a, y)
        wanted = [tensor for tensor in (a, y, *self.settings) if tensor.requires_grad]
        gradient = gradient_of(similarities.detach().clone())
        gradients = iter(torch.autograd.grad(similarities, wanted, gradient, materialize_grads=True))
        for side, where in sides:
            if side.gradient is None:
                continue
            if isinstance(where, slice):
                side.gradient[where] += next(gradients)
            else:
                side.gradient.index_add_(0, where, next(gradients))
        for total, share in zip(self.setting_gradients, gradients, strict=True):
            total += share
