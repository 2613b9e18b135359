"""Shuffle-BN: keys are encoded on another process than their queries (He et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.distributed import Group, from_first_process, gather_rows, rank, row_counts, row_offset
from eigenview.errors import ShapeError


@dataclass(frozen=True)
class Shuffle:
    """Which row went where: ``permutation`` (n over all processes) and how many rows each process holds."""

    permutation: Tensor
    counts: tuple[int, ...]


@torch.no_grad()
def shuffle_rows(
    rows: Tensor, group: Group = None, *, generator: torch.Generator | None = None
) -> tuple[Tensor, Shuffle]:
    """As many rows as this process gave, drawn from all processes' by rank 0's permutation; and the way back.

    No gradient: keys have none. ``generator``: a CPU one; rank 0's counts, yet all draw, so states stay alike.
    """
    counts = row_counts(rows, group)
    drawn = torch.randperm(sum(counts), generator=generator).to(rows.device)
    shuffle = Shuffle(from_first_process(drawn, group), tuple(counts))
    start = row_offset(counts, group)
    mine = shuffle.permutation[start : start + len(rows)]
    return gather_rows(rows.detach(), group, counts=counts)[mine], shuffle


@torch.no_grad()
def unshuffle_rows(rows: Tensor, shuffle: Shuffle, group: Group = None) -> Tensor:
    """The rows of this process's own items, from wherever they were encoded."""
    counts = list(shuffle.counts)
    start = row_offset(counts, group)
    mine = counts[rank(group)]
    if len(rows) != mine:
        raise ShapeError(f"unshuffle needs the {mine} rows that were shuffled; got {len(rows)}")
    back = torch.argsort(shuffle.permutation)
    return gather_rows(rows.detach(), group, counts=counts)[back[start : start + mine]]
