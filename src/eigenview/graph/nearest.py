"""The exact nearest neighbours, the only search of its kind: blocks of similarities by a matrix product, the best k.

kNN, retrieval, diagnosis, search and the report use it. It never holds more than a block of similarities, and reads a
bank that does not fit in memory in blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from eigenview.distributed import Group, any_process, gather_rows, rank, refusing_together, row_counts, row_offset
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.checks import check_rows
from eigenview.graph.largest import largest

Metric = Literal["cosine", "euclidean"]

BLOCK_ELEMENTS = 1 << 22  # similarities held at a time: 16 MB in float32
BANK_ELEMENTS = 1 << 25  # numbers of the bank prepared at a time: 128 MB in float32
BANK_ROWS = 1 << 14  # and at most so many rows: a block of similarities then has 256 queries
SAFE_NORM = 1e15  # between its inverse and this, squares of a row's numbers stay within float32


class RowBlocks(Protocol):
    """n rows of d finite numbers that are read in blocks, such as those of a file. They were checked when opened."""

    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...
    def blocks(self, size: int | None = None) -> Iterator[tuple[int, Tensor]]:
        """(first row, rows) of consecutive blocks of at most ``size`` rows."""
        ...


Bank = Tensor | RowBlocks


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of a bank for each query, nearest first."""

    similarity: Tensor  # (q, k): cosine, or −½ × squared Euclidean distance
    index: Tensor  # (q, k): rows of the bank


@torch.no_grad()
def nearest(
    bank: Bank,
    queries: Tensor,
    *,
    k: int,
    metric: Metric = "cosine",
    own: Tensor | None = None,
    excludes_self: bool = False,
    group: Group = None,
) -> Neighbours:
    """The ``k`` rows of ``bank`` (n, d) nearest to each row of ``queries`` (q, d), exactly.

    Similarities are cosines (0 for a row of zeros), or −½‖x − y‖²: on unit rows the two differ by 1. ``own`` (q,) is
    the row to leave out for each query, −1 for none; ``excludes_self`` is for queries that are the bank itself: row i
    is then no neighbour of query i (its duplicates are). Among equals the order is free. Memory beside the inputs: a
    copy of the queries, and two blocks.

    With ``group``, the bank is spread over the processes: each gives the rows it holds (also none), numbered in rank
    order, and queries of its own; it gets the neighbours of its queries among the rows of all.
    """
    with refusing_together(group, queries.device):
        _check(bank, queries, k, metric, least=1 if group is None else 0)
        _check_own(bank, queries, own, excludes_self)
    held, asked = [_shape(bank)[0]], [len(queries)]  # rows of the bank, and queries, that each process holds
    if group is not None:
        held, asked = row_counts(queries.new_empty(held[0], 0), group), row_counts(queries, group)
    first = row_offset(held, group)
    if excludes_self:
        own = torch.arange(len(queries), device=queries.device) + first
    leaves_out = any_process(own is not None and bool((own >= 0).any()), group, queries.device)
    if k > sum(held) - leaves_out:
        raise DataError(f"k = {k} neighbours were asked for, but the bank has {sum(held) - leaves_out} rows to find")
    if group is None:
        return _search(bank, queries, k, metric, own)
    own = queries.new_full((len(queries),), -1, dtype=torch.long) if own is None else own.to(queries.device)
    every_query, every_own = gather_rows(queries.detach(), group, counts=asked), gather_rows(own, group, counts=asked)
    with refusing_together(group, queries.device):
        local = _search(bank, every_query, min(k, held[rank(group)]), metric, every_own, first=first)
    missing, start = k - local.index.shape[1], row_offset(asked, group)
    mine = slice(start, start + asked[rank(group)])
    values, names = (  # what every process found for this one's queries
        gather_rows(column, group).view(-1, sum(asked), k)[:, mine].transpose(0, 1).flatten(1)
        for column in (
            pad(local.similarity, (0, missing), value=-torch.inf),
            pad(local.index, (0, missing), value=-1),
        )
    )
    best, order = values.topk(k, dim=1)
    return Neighbours(best, names.gather(1, order))


@torch.no_grad()
def similarities(
    bank: Tensor,
    queries: Tensor,
    *,
    metric: Metric = "cosine",
    excludes_self: bool = False,
    elements: int = BLOCK_ELEMENTS,
) -> Iterator[tuple[slice, Tensor]]:
    """(which queries, their similarities (b, n) to the whole bank), some queries at a time: for whole rankings.

    Euclidean ones lack −½‖query‖², which changes no ranking. ``excludes_self``: a query's own row has −inf. The block
    is overwritten by the next.
    """
    _check(bank, queries, 1, metric)
    _check_own(bank, queries, None, excludes_self)
    points, centre = _points(bank, queries, metric)
    columns = _columns(bank.detach().to(points.dtype), 0, centre, len(points))
    own = torch.arange(len(points), device=points.device) if excludes_self else None
    yield from _scores(points, columns, own, elements)


@dataclass(frozen=True)
class _Columns:
    """Rows of the bank such that (point · row) × scale + bias orders them."""

    rows: Tensor  # (m, d)
    scale: Tensor | None  # (m,)
    bias: Tensor | None  # (m,)
    first: int  # number of the first


def _search(bank: Bank, queries: Tensor, k: int, metric: Metric, own: Tensor | None, *, first: int = 0) -> Neighbours:
    """``first`` is the number of the bank's first row."""
    points, centre = _points(bank, queries, metric)
    best = Neighbours(
        points.new_full((len(points), k), -torch.inf), torch.full((len(points), k), -1, device=points.device)
    )
    if k and len(points):
        own = None if own is None else own.to(points.device)
        for start, rows in _blocks(bank):
            columns = _columns(rows.to(points.dtype), first + start, centre, len(points))
            for where, scores in _scores(points, columns, own, BLOCK_ELEMENTS):
                _merge(best, where, scores, columns.first)
    if metric == "euclidean":
        best.similarity.sub_(points.square().sum(dim=1, keepdim=True) / 2).clamp_max_(0)
    return best


def _blocks(bank: Bank) -> Iterator[tuple[int, Tensor]]:
    _, width = _shape(bank)
    size = max(1, min(BANK_ROWS, BANK_ELEMENTS // width))
    if not isinstance(bank, Tensor):
        yield from bank.blocks(size)
        return
    for start in range(0, len(bank), size):
        yield start, bank[start : start + size].detach()


def _points(bank: Bank, queries: Tensor, metric: Metric) -> tuple[Tensor, Tensor | None]:
    """Queries on the sphere, or less a centre (d,): distances do not change, and rounding is of smaller numbers."""
    is_wide = torch.float64 in (bank.dtype, queries.dtype)
    points = queries.detach().to(bank.device, torch.float64 if is_wide else torch.float32)
    if metric == "cosine":
        points, norms = _with_norms(points, "queries", 0)
        return points / norms[:, None], None
    check_rows("queries", [(0, points)])
    near = next((rows for _, rows in _blocks(bank)), points)
    centre = near.to(points.dtype).mean(dim=0)
    return points - centre, centre


def _columns(rows: Tensor, first: int, centre: Tensor | None, queries: int) -> _Columns:
    if centre is None:
        rows, norms = _with_norms(rows, "the bank", first)
        if queries < rows.shape[1]:  # cheaper to scale the similarities than the rows
            return _Columns(rows, norms.reciprocal(), None, first)
        return _Columns(rows / norms[:, None], None, None, first)
    moved = rows - centre
    bias = moved.square().sum(dim=1).div_(-2)
    if not bool(bias.isfinite().all()):
        check_rows("the bank", [(first, rows)])
        raise DataError(f"squared distances leave the range of {rows.dtype}; scale the rows, or give float64")
    return _Columns(moved, None, bias, first)


def _with_norms(rows: Tensor, name: str, first: int) -> tuple[Tensor, Tensor]:
    """Rows, scaled where squares would leave the range of the numbers, and their norms (1 for rows of zeros)."""
    norms = torch.linalg.vector_norm(rows, dim=1)
    if bool(((norms > 1 / SAFE_NORM) & (norms < SAFE_NORM)).all()):  # so all are finite, too
        return rows, norms
    check_rows(name, [(first, rows)])
    size = rows.abs().amax(dim=1)
    rows = rows / size.where(size > 0, 1)[:, None]
    return rows, torch.linalg.vector_norm(rows, dim=1).where(size > 0, 1)


def _scores(points: Tensor, columns: _Columns, own: Tensor | None, elements: int) -> Iterator[tuple[slice, Tensor]]:
    """(which points, their similarities to the columns), a point's own row at −inf."""
    count = len(columns.rows)
    step = min(len(points), max(1, elements // count))
    space = points.new_empty(step, count)  # one for all blocks: fresh memory costs more than the product's writes
    for start in range(0, len(points), step):
        where = slice(start, min(start + step, len(points)))
        scores = space[: where.stop - start]
        if columns.bias is None:
            torch.mm(points[where], columns.rows.T, out=scores)
        else:
            torch.addmm(columns.bias, points[where], columns.rows.T, out=scores)
        if columns.scale is not None:
            scores.mul_(columns.scale)
        if own is not None:
            column = own[where] - columns.first
            row = ((column >= 0) & (column < count)).nonzero().flatten()
            scores[row, column[row]] = -torch.inf
        yield where, scores


def _merge(best: Neighbours, where: slice, scores: Tensor, first: int) -> None:
    """Let rows from number ``first`` on take the places of worse neighbours."""
    similarity, index = best.similarity[where], best.index[where]
    k = min(similarity.shape[1], scores.shape[1])
    is_first = bool(index[0, 0] < 0)  # there is nothing to compare with yet
    better, values, columns = largest(scores, k, None if is_first else similarity[:, -1])
    if is_first:
        similarity[:, :k], index[:, :k] = values, columns + first
    elif len(better):
        values, names = torch.cat([similarity[better], values], dim=1), torch.cat([index[better], columns + first], 1)
        similarity[better], order = values.topk(similarity.shape[1], dim=1)
        index[better] = names.gather(1, order)


def _shape(bank: Bank) -> tuple[int, int]:
    return (len(bank), bank.shape[1]) if isinstance(bank, Tensor) else (bank.n, bank.d)


def _check(bank: Bank, queries: Tensor, k: int, metric: str, *, least: int = 1) -> None:
    given = {"the bank": bank, "queries": queries} if isinstance(bank, Tensor) else {"queries": queries}
    for name, rows in given.items():
        if rows.ndim != 2 or len(rows) < least or rows.shape[1] == 0 or not rows.is_floating_point():
            raise ShapeError(f"{name} must be floating rows (n, d); got {tuple(rows.shape)}, {rows.dtype}")
    _, width = _shape(bank)
    if width != queries.shape[1]:
        raise ShapeError(f"the bank and queries need rows of one width; got {width} and {queries.shape[1]}")
    if metric not in ("cosine", "euclidean"):
        raise SettingError(f"metric must be cosine or euclidean; got {metric!r}")
    if k < 1:
        raise SettingError(f"k must be at least 1; got {k}")


def _check_own(bank: Bank, queries: Tensor, own: Tensor | None, excludes_self: bool) -> None:
    rows, _ = _shape(bank)
    if excludes_self and len(queries) != rows:
        raise SettingError(f"excludes_self is for queries that are the bank; got {len(queries)} queries, {rows} rows")
    if excludes_self and own is not None:
        raise SettingError("own and excludes_self both say which rows to leave out; got both, give one")
    if own is not None and (own.shape != (len(queries),) or own.dtype != torch.long):
        raise ShapeError(
            f"own must be {len(queries)} row numbers, one for each query; got {tuple(own.shape)}, {own.dtype}"
        )
