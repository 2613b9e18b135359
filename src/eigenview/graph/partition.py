"""Positives and partition sets over the candidates of all processes."""

import torch
from torch import Tensor

from eigenview.distributed import Group, gather_rows
from eigenview.errors import SettingError
from eigenview.graph.blocks import Mask
from eigenview.graph.kernels import BARE
from eigenview.graph.streaming import reduce_rows
from eigenview.graph.targets import (
    Crops,
    DenseWeights,
    Edges,
    EqualIds,
    PartitionSet,
    Positives,
    SimilarItems,
    SoftWeights,
    Target,
    WeightedGraph,
)

EDGES_PER_ANCHOR = 64  # listed up to here on average; beyond, positives are found block by block


def positives_over(
    target: Target, self_column: Tensor | None, counts: list[int], group: Group, dtype: torch.dtype
) -> Positives:
    """The positives of this process's anchors among the candidates of all processes; ``self_column`` (n,) where each
    anchor stands among them, None if it does not."""
    if isinstance(target, Crops) and self_column is not None and len(counts) == 1:
        return target.edges(self_column, dtype)
    if isinstance(target, SimilarItems):
        rows = target.vectors.to(dtype) / target.temperature
        columns = gather_rows(target.candidate_vectors.to(dtype), group, counts=counts)
        return SoftWeights(rows, columns, reduce_rows(rows, columns, BARE))
    if isinstance(target, WeightedGraph):
        return _graph_edges(target, self_column, dtype)
    mine = target.ids if target.candidate_ids is None else target.candidate_ids
    column_ids = gather_rows(mine, group, counts=counts)
    ordered, order = torch.sort(column_ids, stable=True)
    start = torch.searchsorted(ordered, target.ids)
    stop = torch.searchsorted(ordered, target.ids, right=True)
    count = stop - start - (0 if self_column is None else 1)
    weight = torch.ones_like(count, dtype=dtype) if target.as_indicators else 1 / count.clamp_min(1).to(dtype)
    if int(count.sum()) > EDGES_PER_ANCHOR * len(count):
        return EqualIds(target.ids, column_ids, count, weight, self_column)
    row = torch.repeat_interleave(stop - start)
    within = torch.arange(len(row), device=row.device) - torch.repeat_interleave(
        (stop - start).cumsum(0) - (stop - start), stop - start
    )
    column = order[start[row] + within]
    if self_column is not None:
        keep = column != self_column[row]
        row, column = row[keep], column[keep]
    return Edges(row, column, weight[row])


def _graph_edges(target: WeightedGraph, self_column: Tensor | None, dtype: torch.dtype) -> Edges | DenseWeights:
    weights = target.weights.to(dtype)
    if weights.layout == torch.strided:
        if self_column is not None:
            weights = weights.scatter(1, self_column[:, None], 0)
        total = weights.sum(dim=1, keepdim=True)
        return DenseWeights(weights if target.as_indicators else weights / total.where(total > 0, 1))
    (row, column), value = weights.indices(), weights.values()
    if self_column is not None:
        value = value * (column != self_column[row])
    if not target.as_indicators:
        total = value.new_zeros(weights.shape[0]).index_add_(0, row, value)
        value = value / total.where(total > 0, 1)[row]
    keep = value > 0
    return Edges(row[keep], column[keep], value[keep])


def partition_mask(
    partition: PartitionSet,
    target: Target,
    positives: Positives,
    self_column: Tensor | None,
    counts: list[int],
    group: Group,
    *,
    are_apart: bool,
) -> Mask:
    """Which candidates normalise each anchor. ``are_apart``: listed positives are added from the list."""
    own = None
    if self_column is not None and partition != "all":
        is_alone = len(counts) == 1
        rows = self_column if is_alone else torch.arange(len(self_column), device=self_column.device)
        own = (rows, self_column)
    if partition == "same_view":
        if not isinstance(target, Crops) or self_column is None:
            raise SettingError("partition same_view needs a target that knows its views: two_views(...) or crops(...)")
        views = torch.arange(target.views, device=target.device).repeat_interleave(target.items)
        return Mask(excluded=own, same=(views, gather_rows(views, group, counts=counts)))
    if isinstance(positives, DenseWeights | SoftWeights):
        if partition == "negatives":
            raise SettingError("partition negatives needs listed positives: give the graph as a sparse tensor")
        return Mask(excluded=own)
    if isinstance(positives, EqualIds):
        ids = (positives.row_ids, positives.column_ids)
        return Mask(excluded=own, different=ids if partition == "negatives" else None)
    if not are_apart and partition != "negatives":
        return Mask(excluded=own)
    row, column = positives.row, positives.column
    if own is not None:
        row, column = torch.cat([own[0], row]), torch.cat([own[1], column])
    return Mask(excluded=(row, column), is_symmetric=not isinstance(target, WeightedGraph))
