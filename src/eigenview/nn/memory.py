"""The memory bank of DeepCluster-v2 and SeLa-v2: the latest embedding of every item, per large crop."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eigenview.distributed import Group, gather_rows, rank, world_size
from eigenview.errors import DataError, ShapeError
from eigenview.nn.queues import check_sizes


class MemoryBank(nn.Module):
    """Item index → embedding: (crops, items, d), zeros where ``seen`` (items,) is False.

    Every process holds all rows, so that samplers may hand any item to any process and one checkpoint holds it all.
    """

    rows: Tensor
    seen: Tensor

    def __init__(self, crops: int, items: int, width: int) -> None:
        super().__init__()
        check_sizes("a memory bank", crops=crops, items=items, width=width)
        self.register_buffer("rows", torch.zeros(crops, items, width))
        self.register_buffer("seen", torch.zeros(items, dtype=torch.bool))

    @torch.no_grad()
    def update(self, index: Tensor, crops: Sequence[Tensor], group: Group = None) -> None:
        """Store the embeddings (n, d) of each large crop under ``index`` (n,), from all processes.

        Where an index comes twice, its last row in rank order stays.
        """
        self._check(index, crops)
        everyone = gather_rows(index.detach(), group)
        if len(everyone) == 0:
            return
        low, high = int(everyone.min()), int(everyone.max())
        if low < 0 or high >= len(self.seen):
            raise DataError(f"this memory bank holds items 0 to {len(self.seen) - 1}; got indices {low} to {high}")
        places, last = _last_occurrence(everyone)
        for number, embeddings in enumerate(crops):
            new = gather_rows(embeddings.detach().to(self.rows), group)
            self.rows[number, places] = new[last]
        self.seen[places] = True

    def share(self, crop: int, group: Group = None) -> tuple[Tensor, Tensor]:
        """(indices, rows) of the seen items that this process clusters: about 1/W of them, consecutive."""
        indices = torch.nonzero(self.seen).flatten().tensor_split(world_size(group))[rank(group)]
        return indices, self.rows[crop, indices]

    def _check(self, index: Tensor, crops: Sequence[Tensor]) -> None:
        number, _, width = self.rows.shape
        if index.ndim != 1 or index.dtype != torch.long:
            raise ShapeError(f"an index must be int64 of shape (n,); got {index.dtype}, {tuple(index.shape)}")
        shapes = [tuple(embeddings.shape) for embeddings in crops]
        if shapes != [(len(index), width)] * number:
            raise ShapeError(f"this memory bank takes {number} crops of ({len(index)}, {width}); got {shapes}")


def _last_occurrence(index: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct values of ``index`` and the last position of each."""
    places, inverse = torch.unique(index, return_inverse=True)
    positions = torch.arange(len(index), device=index.device)
    last = torch.zeros_like(places).scatter_reduce_(0, inverse, positions, reduce="amax")
    return places, last
