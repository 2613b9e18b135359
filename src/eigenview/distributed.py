"""Collectives, the only ones in the project: on one process each is the identity.

The convention, so that world size does not matter: every process returns the *global* value of a loss, and its
backward gives W times the share of its own rows. DDP then averages over W processes, and the parameters receive the
gradient that one process with all the rows would have computed.

``gather_rows`` and ``sum_over_processes`` together keep it. A loss that adds local terms by ``sum_over_processes``
gets its W there; a loss computed redundantly from gathered rows gets it from the sum over processes in the backward
of ``gather_rows``. One global sum must not feed another: each would bring its own W.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from eigenview.errors import DataError, EigenviewError, NotFiniteError, ShapeError

Group = dist.ProcessGroup | None  # None: this process alone


def rank(group: Group) -> int:
    return dist.get_rank(group) if group is not None else 0


def world_size(group: Group) -> int:
    return dist.get_world_size(group) if group is not None else 1


def row_counts(rows: Tensor, group: Group) -> list[int]:
    """How many rows each process holds, in rank order. All processes must agree on the row's shape and dtype.

    And on whether they need a gradient: a process that needs none would leave the others waiting in the backward.
    """
    if group is None or world_size(group) == 1:
        return [rows.shape[0]]
    trailing = ([rows.ndim, *rows.shape[1:]] + [0] * 8)[:8]
    needs_gradient = rows.requires_grad and torch.is_grad_enabled()
    facts = [rows.shape[0], *trailing, _dtype_code(rows.dtype), int(needs_gradient)]
    mine = torch.tensor(facts, device=rows.device)
    everyone = [torch.empty_like(mine) for _ in range(world_size(group))]
    dist.all_gather(everyone, mine, group=group)
    if any(not torch.equal(other[1:-1], mine[1:-1]) for other in everyone):
        shapes = [other[2 : 1 + int(other[1])].tolist() for other in everyone]
        raise ShapeError(f"every process needs rows of one shape and dtype; got {shapes}, {rows.dtype} here")
    if any(other[-1] != mine[-1] for other in everyone):
        needs = [process for process, other in enumerate(everyone) if other[-1]]
        raise ShapeError(f"the rows of every process need a gradient, or of none; here those of {needs} alone do")
    return [int(other[0]) for other in everyone]


def row_offset(counts: list[int], group: Group) -> int:
    """Where this process's rows begin among the gathered ones."""
    return sum(counts[: rank(group)])


def gather_rows(rows: Tensor, group: Group, *, counts: list[int] | None = None) -> Tensor:
    """The rows of all processes, in rank order; uneven numbers are allowed.

    Differentiable: the backward adds up what every process's loss says about these rows.
    """
    if group is None or world_size(group) == 1:
        return rows
    counts = counts if counts is not None else row_counts(rows, group)
    if rows.requires_grad and torch.is_grad_enabled():
        gathered: Tensor = _GatherRows.apply(rows, group, counts)  # type: ignore[no-untyped-call]
        return gathered
    return _gather(rows, group, counts)


def sum_over_processes(value: Tensor, group: Group) -> Tensor:
    """Σ over processes of a tensor of one shape. Differentiable: the backward is W × the incoming gradient."""
    if group is None or world_size(group) == 1:
        return value
    if value.requires_grad and torch.is_grad_enabled():
        total: Tensor = _SumOverProcesses.apply(value, group)  # type: ignore[no-untyped-call]
        return total
    return _all_reduce(value, dist.ReduceOp.SUM, group)


def max_over_processes(value: Tensor, group: Group) -> Tensor:
    """The elementwise maximum over processes; carries no gradient."""
    if group is None or world_size(group) == 1:
        return value.detach()
    return _all_reduce(value, dist.ReduceOp.MAX, group)


def from_first_process(value: Tensor, group: Group) -> Tensor:
    """Rank 0's tensor, on every process; carries no gradient."""
    if group is None or world_size(group) == 1:
        return value.detach()
    copy = value.detach().clone()
    dist.broadcast(copy, group=group, group_src=0)
    return copy


def any_process(flag: bool, group: Group, device: torch.device) -> bool:
    """True everywhere if it is true anywhere: how processes agree to refuse bad input together instead of hanging."""
    if group is None or world_size(group) == 1:
        return flag
    return bool(_all_reduce(torch.tensor(int(flag), device=device), dist.ReduceOp.MAX, group).item())


def refuse_together(problem: EigenviewError | None, group: Group, device: torch.device) -> None:
    """Raise this process's problem, or say that another process has one, so that none waits for the others."""
    kind = 0 if problem is None else 2 if isinstance(problem, NotFiniteError) else 1
    if group is not None and world_size(group) > 1:
        kind = int(_all_reduce(torch.tensor(kind, device=device), dist.ReduceOp.MAX, group))
    if kind:
        message = "another process refused what it was given; its message says why"
        raise problem or (NotFiniteError(message) if kind == 2 else DataError(message))


def refusing_together(group: Group, device: torch.device) -> AbstractContextManager[None]:
    """Checks of this process's own input, before any collective: what one process refuses, all refuse."""
    return nullcontext() if group is None else _refusing_together(group, device)


@contextmanager
def _refusing_together(group: Group, device: torch.device) -> Iterator[None]:
    problem = None
    try:
        yield
    except EigenviewError as error:
        problem = error
    refuse_together(problem, group, device)


def _dtype_code(dtype: torch.dtype) -> int:
    return sum(ord(letter) * 31**place for place, letter in enumerate(str(dtype)[6:14]))


def _all_reduce(value: Tensor, operation: Any, group: dist.ProcessGroup) -> Tensor:
    copy = value.detach().clone()
    dist.all_reduce(copy, op=operation, group=group)
    return copy


def _gather(rows: Tensor, group: dist.ProcessGroup, counts: list[int]) -> Tensor:
    longest = max(counts)
    mine = rows.detach().contiguous()
    if mine.shape[0] < longest:  # collectives want equal sizes: pad, and cut afterwards
        mine = torch.cat([mine, mine.new_zeros(longest - mine.shape[0], *mine.shape[1:])])
    everyone = [torch.empty_like(mine) for _ in counts]
    dist.all_gather(everyone, mine, group=group)
    return torch.cat([other[:count] for other, count in zip(everyone, counts, strict=True)])


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: dist.ProcessGroup, counts: list[int]) -> Tensor:
        ctx.group, ctx.counts = group, counts
        return _gather(rows, group, counts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        total = _all_reduce(gradient.contiguous(), dist.ReduceOp.SUM, ctx.group)
        start = row_offset(ctx.counts, ctx.group)
        return total[start : start + ctx.counts[rank(ctx.group)]], None, None


class _SumOverProcesses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.processes = world_size(group)
        return _all_reduce(value, dist.ReduceOp.SUM, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.processes, None
