"""Positives and partition sets over the candidates of all processes."""

from __future__ import annotations

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
    EqualIds,
    PartitionSet,
    Positives,
    SimilarItems,
    SoftWeights,
    Target,
    WeightedGraph,
    positive_edges,
)


def positives_over(
    target: Target, self_column: Tensor | None, counts: list[int], group: Group, dtype: torch.dtype
) -> Positives:
    """The positives of this process's anchors among the candidates of all processes; ``self_column`` (n,) where each
    anchor stands among them, None if it does not."""
    if isinstance(target, Crops) and len(counts) == 1:
        return target.edges(dtype)
    if isinstance(target, SimilarItems):
        rows = target.vectors.to(dtype) / target.temperature
        columns = gather_rows(target.candidate_vectors.to(dtype), group, counts=counts)
        return SoftWeights(rows, columns, reduce_rows(rows, columns, BARE))
    column_ids = None
    if not isinstance(target, WeightedGraph):
        mine = target.ids if target.candidate_ids is None else target.candidate_ids
        column_ids = gather_rows(mine, group, counts=counts)
    return positive_edges(target, column_ids, self_column, dtype)


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
        views = target.view_numbers
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
