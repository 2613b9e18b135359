"""Embeddings of the past, the same on every process, so that a checkpoint of one holds all: queues, a memory bank."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.distributed import Group, gather_rows, rank, world_size
from eigenview.errors import DataError, SettingError, ShapeError


class Queue(nn.Module):
    """The newest K embeddings of the past: MoCo's negatives. Rows (K, d) on the sphere, replaced oldest first.

    Starts as random directions drawn from ``seed``. Rows are stored as given: pass unit rows.
    """

    rows: Tensor
    pointer: Tensor

    def __init__(self, length: int, width: int, *, seed: int = 0) -> None:
        super().__init__()
        check_sizes("a queue", length=length, width=width)
        start = torch.randn(length, width, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("rows", normalize(start, dim=1))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))  # where the oldest row is

    def snapshot(self) -> Tensor:
        """The rows (K, d) as they are now: what the loss takes, since its backward may come after the next enqueue."""
        return self.rows.clone()

    @torch.no_grad()
    def enqueue(self, rows: Tensor, group: Group = None) -> None:
        """Replace the oldest rows by those of all processes, in rank order. Any number: it wraps around.

        Of more rows than the queue holds, the last ones stay. Call it after the loss.
        """
        _check_rows(rows, self.rows.shape[1])
        new = gather_rows(rows.detach().to(self.rows), group)
        length = len(self.rows)
        places = (self.pointer + torch.arange(len(new), device=new.device)) % length
        self.rows[places[-length:]] = new[-length:]
        self.pointer.copy_((self.pointer + len(new)) % length)


class CropQueue(nn.Module):
    """SwAV's queue: the newest embeddings of each large crop, newest first; (crops, L, d), zeros until filled.

    It holds the rows of all processes; :meth:`share` is the part that this process scores, so that together they
    score each row once.
    """

    rows: Tensor
    filled: Tensor

    def __init__(self, crops: int, length: int, width: int) -> None:
        super().__init__()
        check_sizes("a queue", crops=crops, length=length, width=width)
        self.register_buffer("rows", torch.zeros(crops, length, width))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))  # rows enqueued so far, at most L

    @property
    def is_full(self) -> bool:
        """True once every row is an embedding: codes must not see the zeros."""
        return int(self.filled) == self.rows.shape[1]

    def share(self, crop: int, group: Group = None) -> Tensor:
        """This process's part of one crop's rows, about L/W of them: all of them on one process."""
        mine: Tensor = self.rows[crop].tensor_split(world_size(group))[rank(group)]
        return mine.clone()  # enqueue comes before the codes are used

    @torch.no_grad()
    def enqueue(self, crops: Sequence[Tensor], group: Group = None) -> None:
        """Put the embeddings (n, d) of each large crop, of all processes in rank order, at the front."""
        if len(crops) != len(self.rows):
            raise ShapeError(f"this queue holds {len(self.rows)} crops; got embeddings of {len(crops)}")
        length, added = self.rows.shape[1], 0
        for number, embeddings in enumerate(crops):
            _check_rows(embeddings, self.rows.shape[2])
            new = gather_rows(embeddings.detach().to(self.rows), group)
            self.rows[number] = torch.cat([new, self.rows[number]])[:length]
            added = len(new)
        self.filled.copy_((self.filled + added).clamp_max(length))


def check_sizes(whose: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise SettingError(f"{whose}'s {name} must be a whole number of at least 1; got {size}")


def _check_rows(rows: Tensor, width: int) -> None:
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ShapeError(f"this queue takes rows (n, {width}); got {tuple(rows.shape)}")


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
        places, inverse = torch.unique(everyone, return_inverse=True)
        positions = torch.arange(len(everyone), device=everyone.device)
        last = torch.zeros_like(places).scatter_reduce_(0, inverse, positions, reduce="amax")  # the last one of each
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
