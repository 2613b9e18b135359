"""What the objectives over several views share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenview.distributed import Group, refusing_together, row_counts, row_offset, sum_over_processes
from eigenview.errors import ShapeError
from eigenview.graph.checks import check_embeddings, check_enough, check_same_shape, checked
from eigenview.graph.coupling import Coupling
from eigenview.graph.targets import crops

CPU = torch.device("cpu")


def named(views: Sequence[Tensor]) -> dict[str, Tensor]:
    """Views with the names that error messages use."""
    if len(views) < 2:
        raise ShapeError(f"a contrast needs at least two views of (n, d) each; got {len(views)}")
    return {f"view {number}": view for number, view in enumerate(views)}


def couple_views(coupling: Coupling, views: Sequence[Tensor], group: Group, *, as_indicators: bool = False) -> Tensor:
    """A coupling over all views of a batch, their own candidates; the other views of an item are its positives."""
    with refusing_together(group, views[0].device if views else CPU):
        check_same_shape(named(views))
        check_embeddings(named(views), normalize=False, check_values=False)
    counts = row_counts(views[0], group)
    check_enough(sum(counts), "items")
    offset = row_offset(counts, group)
    target = crops(len(views[0]), len(views), offset=offset, as_indicators=as_indicators, device=views[0].device)
    return coupling(torch.cat(list(views)), target=target, group=group)


def own_ids(rows: Tensor, group: Group) -> Tensor:
    """(n,) the numbers of this process's rows, counted through all processes."""
    offset = row_offset(row_counts(rows, group), group)
    return torch.arange(offset, offset + len(rows), device=rows.device)


def prepare_views(
    views: Sequence[Tensor], *, normalize: bool, check_values: bool, group: Group
) -> tuple[list[Tensor], int]:
    """Checked views, on the sphere if asked, and the number of items over all processes."""
    with refusing_together(group, views[0].device if views else CPU):
        check_same_shape(named(views))
        rows = checked(named(views), normalize=normalize, check_values=check_values)
    return list(rows.values()), sum(row_counts(views[0], group))


def mean_over_items(rows: Tensor, group: Group, *, count: int | None = None) -> Tensor:
    """The mean of per-item values over all processes."""
    total = sum(row_counts(rows, group)) if count is None else count
    return sum_over_processes(rows.sum(), group) / total
