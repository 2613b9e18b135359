"""Embeddings from anywhere, read in blocks: a tensor, a NumPy array or an ``.npy`` file that need not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.errors import SettingError, ShapeError
from eigenview.graph.checks import check_rows, prepared
from eigenview.tensors import map_array

BLOCK_ELEMENTS = 1 << 21  # numbers read at a time: 8 MB in float32


class Rows:
    """n rows of d numbers. ``block`` and ``take`` give float32, or float64 where the rows are, without gradient.

    An ``.npy`` file is mapped anew for every read, so that pages already read do not stay in memory.
    """

    centre: Tensor | None = None  # (d,) taken off every row as it is read
    is_unit = False  # True: every row is put on the sphere as it is read

    def __init__(self, source: Tensor | NDArray[np.floating] | Path, n: int, d: int, dtype: torch.dtype) -> None:
        self.source, self.n, self.d, self.dtype = source, n, d, dtype
        self.device = source.device if isinstance(source, Tensor) else torch.device("cpu")

    def centred(self) -> Rows:
        """The same rows with their mean taken off each."""
        moved = copy(self)
        moved.centre = self.mean().to(self.device, self.dtype)
        return moved

    def on_sphere(self) -> Rows:
        """The same rows, each at length 1."""
        unit = copy(self)
        unit.is_unit = True
        return unit

    def mean(self) -> Tensor:
        """The mean row (d,), float64."""
        total = torch.zeros(self.d, dtype=torch.float64, device=self.device)
        for _, block in self.blocks():
            total += block.double().sum(dim=0)
        return total / self.n

    def block(self, start: int, stop: int) -> Tensor:
        """Rows start … stop − 1 as (stop − start, d)."""
        return self._read(slice(start, stop))

    def take(self, index: Tensor) -> Tensor:
        """The rows with these numbers, in that order."""
        return self._read(index)

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, Tensor]]:
        """(first row, rows) of consecutive blocks."""
        size = size or max(1, BLOCK_ELEMENTS // self.d)
        for start in range(0, self.n, size):
            yield start, self.block(start, min(start + size, self.n))

    def _read(self, where: slice | Tensor) -> Tensor:
        if isinstance(self.source, Tensor):
            rows = self.source.detach()[where.to(self.device) if isinstance(where, Tensor) else where].to(self.dtype)
        else:
            array = map_array(self.source) if isinstance(self.source, Path) else self.source
            numbers = np.float64 if self.dtype == torch.float64 else np.float32
            stored = array[where.cpu().numpy()] if isinstance(where, Tensor) else array[where]
            rows = torch.from_numpy(np.array(stored, dtype=numbers, order="C"))  # a copy: a mapped file is read-only
        return prepared(rows if self.centre is None else rows - self.centre, normalize=self.is_unit)


class JoinedRows:
    """The rows of several sources one after the other, as one bank to search."""

    def __init__(self, sources: Sequence[Rows]) -> None:
        self.sources, first = sources, sources[0]
        self.n, self.d, self.dtype, self.device = sum(rows.n for rows in sources), first.d, first.dtype, first.device

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, Tensor]]:
        first = 0
        for rows in self.sources:
            for start, block in rows.blocks(size):
                yield first + start, block
            first += rows.n


Embeddings = Tensor | NDArray[np.floating] | str | Path | Rows


def open_rows(embeddings: Embeddings, *, name: str = "embeddings", least: int = 1, directions: bool = True) -> Rows:
    """The rows of a tensor, an array or an ``.npy`` file, refused by name where no figure could use them.

    ``least`` rows are needed. One pass checks them: NaN and Inf are refused, and zero rows too where ``directions`` are
    asked for. What is already :class:`Rows` was checked when it was opened.
    """
    if isinstance(embeddings, Rows):
        _check_least(name, embeddings.n, least)
        return embeddings
    source = Path(embeddings) if isinstance(embeddings, str) else embeddings
    stored = map_array(source) if isinstance(source, Path) else source
    if not isinstance(stored, Tensor | np.ndarray):
        kind = type(stored).__name__
        raise ShapeError(f"{name} must be a torch tensor, a NumPy array or the path of an .npy file; got a {kind}")
    if stored.ndim != 2 or 0 in stored.shape:
        raise ShapeError(f"{name} must be (n, d) embeddings, not empty; got shape {tuple(stored.shape)}")
    is_floating = stored.is_floating_point() if isinstance(stored, Tensor) else stored.dtype.kind == "f"
    if not is_floating:
        raise ShapeError(f"{name} must be floating point; got {stored.dtype}")
    _check_least(name, stored.shape[0], least)
    is_wide = stored.dtype == torch.float64 if isinstance(stored, Tensor) else stored.dtype.itemsize >= 8
    kept = source if isinstance(source, Path) else stored
    n, d = stored.shape
    rows = Rows(kept, int(n), int(d), torch.float64 if is_wide else torch.float32)
    check_rows(name, rows.blocks(), directions=directions)
    return rows


def open_pair(z_a: Embeddings, z_b: Embeddings, *, least: int = 2) -> tuple[Rows, Rows]:
    """Two views of the same items: row i of the one belongs to row i of the other."""
    first, second = open_rows(z_a, name="z_a", least=least), open_rows(z_b, name="z_b", least=least)
    check_same_shape({"z_a": first, "z_b": second})
    return first, second


def check_same_shape(views: dict[str, Rows]) -> None:
    if len({(rows.n, rows.d) for rows in views.values()}) > 1:
        got = ", ".join(f"{name} {(rows.n, rows.d)}" for name, rows in views.items())
        raise ShapeError(f"views need one and the same shape (n, d), row i of each from item i; got {got}")


def sampled_rows(n: int, count: int, seed: int) -> Tensor:
    """``count`` distinct row numbers of n drawn evenly, ascending; all of them when there are no more."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise SettingError(f"the number of sampled rows must be a whole number of at least 2; got {count}")
    if count >= n:
        return torch.arange(n)
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(n, generator=generator)[:count].sort().values


def _check_least(name: str, rows: int, least: int) -> None:
    if rows < least:
        raise ShapeError(f"{name} must have at least {least} rows here; got {rows}")
