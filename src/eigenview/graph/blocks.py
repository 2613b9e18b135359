"""The blocks that a streamed graph is cut into: which edges of a block count, and its log k with gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

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

    def within(self, block: Block) -> Mask:
        """The mask of one block."""

        def cut(ids: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor] | None:
            return ids and (ids[0][block.rows], ids[1][block.columns])

        return Mask(block.excluded, cut(self.same), cut(self.different))


@dataclass(frozen=True)
class Block:
    rows: slice
    columns: slice
    excluded: tuple[Tensor, Tensor] | None  # positions within the block
    is_diagonal: bool


class Blocks:
    """The blocks of an n × m graph in order; when ``symmetric``, those on and above the diagonal."""

    def __init__(self, rows: int, columns: int, size: int, mask: Mask, *, symmetric: bool) -> None:
        self.rows, self.columns, self.size, self.mask, self.symmetric = rows, columns, size, mask, symmetric
        self.across = -(-columns // size)

    @cached_property
    def _excluded_by_block(self) -> tuple[Tensor, Tensor, list[int]] | None:
        if self.mask.excluded is None:
            return None
        row, column = self.mask.excluded
        block = (row // self.size) * self.across + column // self.size
        order = torch.argsort(block, stable=True)
        number = -(-self.rows // self.size) * self.across
        ends = torch.bincount(block, minlength=number).cumsum(0).tolist()
        return row[order] % self.size, column[order] % self.size, [0, *ends]

    def __iter__(self) -> Iterator[Block]:
        for i, top in enumerate(range(0, self.rows, self.size)):
            rows = slice(top, min(top + self.size, self.rows))
            for j in range(i if self.symmetric else 0, self.across):
                columns = slice(j * self.size, min((j + 1) * self.size, self.columns))
                if not self._is_empty(rows, columns):
                    yield Block(rows, columns, self._excluded_in(i, j), self.symmetric and i == j)

    def _excluded_in(self, i: int, j: int) -> tuple[Tensor, Tensor] | None:
        if self._excluded_by_block is None:
            return None
        row, column, ends = self._excluded_by_block
        start, stop = ends[i * self.across + j], ends[i * self.across + j + 1]
        return (row[start:stop], column[start:stop]) if stop > start else None

    def _is_empty(self, rows: slice, columns: slice) -> bool:
        if self.mask.same is None:
            return False
        ours, theirs = self.mask.same[0][rows], self.mask.same[1][columns]
        return bool((ours.max() < theirs.min()) | (theirs.max() < ours.min()))

    def fill(self, values: Tensor, block: Block, value: float) -> Tensor:
        """Write ``value`` over the edges that do not count, in place."""
        return self.mask.within(block).fill(values, value)


@dataclass
class _Side:
    """Embeddings on one side of the graph, with the running sum of their gradient (None where nobody asks)."""

    embeddings: Tensor
    gradient: Tensor | None

    def add(self, where: slice | Tensor, share: Tensor) -> None:
        assert self.gradient is not None
        if isinstance(where, slice):
            self.gradient[where] += share
        else:
            self.gradient.index_add_(0, where, share)


class Similarities:
    """log k of a block and, for the backward, what a gradient on that block means for embeddings and settings.

    ``candidates`` None: the anchors are their own candidates, and one gradient holds both sides.
    """

    def __init__(
        self, kernel: Kernel, anchors: Tensor, candidates: Tensor | None, *, needs: tuple[bool, bool] = (False, False)
    ) -> None:
        # leaves of their own: where one setting is made from another, its gradient must not reach the other twice
        leaves = {id(setting): setting.detach().requires_grad_() for setting in kernel.tensors()}
        self.settings = tuple(leaves.values())
        self.kernel = deepcopy(kernel, dict[int, object](leaves)) if leaves else kernel
        self.anchors = _Side(anchors, torch.zeros_like(anchors) if needs[0] else None)
        if candidates is None:
            self.candidates = self.anchors
        else:
            self.candidates = _Side(candidates, torch.zeros_like(candidates) if needs[1] else None)
        self.setting_gradients = [torch.zeros_like(setting) for setting in self.settings]
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
            if side.gradient is not None:
                side.add(where, next(gradients))
        for total, share in zip(self.setting_gradients, gradients, strict=True):
            total += share
