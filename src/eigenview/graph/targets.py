"""Target graphs: which candidates belong to which anchor, as the data say it.

``weights``: each row sums to 1 (an anchor picks one of its positives). ``indicators``: every positive edge counts 1.
Ids must agree across processes: two views of one image carry one id wherever they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.blocks import Mask

PartitionSet = Literal["others", "all", "negatives", "same_view", "extra", "positives_and_extra"]
PARTITION_SETS: dict[str, str] = {
    "others": "all candidates but oneself, and the extra ones",
    "all": "all candidates, oneself too, and the extra ones",
    "negatives": "others without the positives",
    "same_view": "others within the anchor's own view",
    "extra": "the extra candidates alone (a queue)",
    "positives_and_extra": "the anchor's positives and the extra candidates",
}
assert set(PARTITION_SETS) == set(get_args(PartitionSet))


@dataclass(frozen=True)
class SameItem:
    """Positive where ids agree, oneself excepted. ``ids`` (n,) of the anchors, ``candidate_ids`` (m,) of the
    candidates (None: the anchors are their own)."""

    ids: Tensor
    candidate_ids: Tensor | None = None
    as_indicators: bool = False


@dataclass(frozen=True)
class Crops:
    """:class:`SameItem` for ``views`` views of every item, view by view: what is asked of it is counted, not sorted."""

    items: int
    views: int
    offset: int
    as_indicators: bool
    device: torch.device | None
    candidate_ids: None = None

    @property
    def rows(self) -> int:
        return self.items * self.views

    @cached_property
    def ids(self) -> Tensor:
        return torch.arange(self.offset, self.offset + self.items, device=self.device).repeat(self.views)

    def edges(self, number: Tensor, dtype: torch.dtype) -> Edges:
        """Among themselves, ``number`` 0, 1, …: each view with the next, the one after it, …, round the circle."""
        if self.views == 2:
            return Edges(number, number.roll(self.items), torch.ones_like(number, dtype=dtype), is_one_each=True)
        column = torch.cat([number.roll(-self.items * step) for step in range(1, self.views)])
        weight = torch.ones_like(column, dtype=dtype)
        return Edges(number.repeat(self.views - 1), column, weight if self.as_indicators else weight / (self.views - 1))


@dataclass(frozen=True)
class WeightedGraph:
    """Positive as a given graph says: ``weights`` (n, m), dense or sparse COO, non-negative; columns are the
    candidates of all processes. Self-edges are ignored. Rows are divided by their sum unless ``as_indicators``; an
    empty row has no say."""

    weights: Tensor
    as_indicators: bool = False


@dataclass(frozen=True)
class SimilarItems:
    """Positive as far as two items are alike by what is known of them: P_ij = softmax_j(g_i·g_j / temperature), soft
    targets (X-CLR). ``vectors`` (n, p) of the anchors, ``candidate_vectors`` (m, p) of this process's candidates; no
    gradient goes there. Never held as (n, m)."""

    vectors: Tensor
    candidate_vectors: Tensor
    temperature: float = 0.1


Target = SameItem | Crops | WeightedGraph | SimilarItems


def two_views(items: int, *, offset: int = 0, as_indicators: bool = False, device: torch.device | None = None) -> Crops:
    """View a of every item, then view b: [a; b] of length 2·items, i⁺ = i ± items."""
    return crops(items, 2, offset=offset, as_indicators=as_indicators, device=device)


def crops(
    items: int, views: int, *, offset: int = 0, as_indicators: bool = False, device: torch.device | None = None
) -> Crops:
    """``views`` views of every item, view by view; all other views of an item are its positives.

    ``offset``: how many items the processes before this one hold.
    """
    if items < 1 or views < 2:
        raise SettingError(f"positives need at least one item and two views of it; got {items} items, {views} views")
    return Crops(items, views, offset, as_indicators, device)


def from_labels(labels: Tensor, *, as_indicators: bool = False) -> SameItem:
    """Embeddings of one class belong together (supervised contrastive). ``labels`` (n,) integers."""
    _require_ids("labels", labels)
    return SameItem(labels.long(), as_indicators=as_indicators)


def from_captions(anchor_ids: Tensor, candidate_ids: Tensor, *, as_indicators: bool = False) -> SameItem:
    """Image ids on one side, caption ids on the other: several captions may share an image, and an id that occurs
    twice in the batch is a positive every time, never a negative."""
    _require_ids("ids", anchor_ids)
    _require_ids("ids", candidate_ids)
    return SameItem(anchor_ids.long(), candidate_ids.long(), as_indicators=as_indicators)


def from_graph(weights: Tensor, *, as_indicators: bool = False) -> WeightedGraph:
    """Any similarity graph π ≥ 0, (n, m), dense or sparse COO."""
    if weights.ndim != 2 or weights.layout not in (torch.strided, torch.sparse_coo):
        raise ShapeError(f"a graph is an (n, m) dense or sparse COO tensor; got {tuple(weights.shape)}")
    if weights.layout == torch.sparse_coo:
        weights = weights.coalesce()
    values = weights.values() if weights.layout == torch.sparse_coo else weights
    if not bool((values >= 0).all() & values.isfinite().all()):
        raise DataError("a graph's weights must be non-negative and finite")
    return WeightedGraph(weights, as_indicators)


def from_vectors(vectors: Tensor, candidate_vectors: Tensor, *, temperature: float = 0.1) -> SimilarItems:
    """Soft targets from what is known of both sides, such as vectors of captions: (n, p) and (m, p)."""
    shapes = tuple(vectors.shape), tuple(candidate_vectors.shape)
    if vectors.ndim != 2 or candidate_vectors.ndim != 2 or shapes[0][1] != shapes[1][1]:
        raise ShapeError(f"soft targets need vectors (n, p) and (m, p); got {shapes[0]} and {shapes[1]}")
    if not 0 < temperature < float("inf"):
        raise SettingError(f"the temperature of soft targets must be positive; got {temperature}")
    if not bool(vectors.isfinite().all() & candidate_vectors.isfinite().all()):
        raise DataError("vectors of soft targets must be finite")
    return SimilarItems(vectors.detach(), candidate_vectors.detach(), temperature)


def _require_ids(name: str, ids: Tensor) -> None:
    if ids.ndim != 1 or ids.dtype.is_floating_point or ids.dtype == torch.bool:
        raise ShapeError(f"{name} must be integers of shape (n,); got {ids.dtype} of shape {tuple(ids.shape)}")


@dataclass(frozen=True)
class Edges:
    """Positive edges as lists: ``row`` (e,), ``column`` (e,), ``weight`` (e,). ``is_one_each``: row i has
    edge i alone, of weight 1."""

    row: Tensor
    column: Tensor
    weight: Tensor
    is_one_each: bool = False


@dataclass(frozen=True)
class EqualIds:
    """Positive edges too many to list: wherever ids agree, minus oneself. All of a row share ``row_weight`` (n,)."""

    row_ids: Tensor
    column_ids: Tensor
    row_count: Tensor
    row_weight: Tensor
    self_column: Tensor | None

    @property
    def mask(self) -> Mask:
        own = None
        if self.self_column is not None:
            own = (torch.arange(len(self.row_ids), device=self.row_ids.device), self.self_column)
        return Mask(excluded=own, same=(self.row_ids, self.column_ids))


@dataclass(frozen=True)
class DenseWeights:
    """Positive edges as an (n, m) matrix that the caller holds already."""

    weights: Tensor


@dataclass(frozen=True)
class SoftWeights:
    """Positive edges as an (n, m) matrix that is computed block by block: exp(rows·columns − log_sum)."""

    rows: Tensor  # (n, p), divided by the temperature
    columns: Tensor  # (m, p) of all processes
    log_sum: Tensor  # (n,)

    def __getitem__(self, block: tuple[slice, slice]) -> Tensor:
        ours, theirs = block
        return (self.rows[ours] @ self.columns[theirs].T - self.log_sum[ours, None]).exp()


Positives = Edges | EqualIds | DenseWeights | SoftWeights
