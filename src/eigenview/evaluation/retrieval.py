"""Retrieval: does a query find the images of its class first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import check_labels, check_no_class_is_new
from eigenview.graph.nearest import similarities

RANKED_ELEMENTS = 1 << 22  # similarities ranked at a time: sorting needs several copies


@dataclass(frozen=True)
class Retrieval:
    """One value a query; means are recall@k and mAP."""

    recall: dict[int, Tensor]  # (q,) 1 where at least one of the k nearest has the query's class
    average_precision: Tensor  # (q,)


@torch.no_grad()
def retrieve(
    gallery: Tensor,
    gallery_labels: Tensor,
    queries: Tensor | None = None,
    query_labels: Tensor | None = None,
    *,
    k: Sequence[int] = (1, 5, 10),
) -> Retrieval:
    """Rank the gallery by cosine for each query: recall@k, and average precision over the whole ranking.

    AP = (1/R) Σ over the R relevant rows of (relevant rows up to it) / (its rank). Without queries, each row of the
    gallery asks for the others. A query without any relevant row is refused: its AP is not defined.
    """
    check_labels(gallery_labels, len(gallery), "labels of the gallery")
    is_own = queries is None
    asked, wanted = (gallery, gallery_labels) if queries is None or query_labels is None else (queries, query_labels)
    if (queries is None) != (query_labels is None):
        raise SettingError("queries and their labels go together; got one without the other")
    check_labels(wanted, len(asked), "labels of the queries")
    check_no_class_is_new(gallery_labels, wanted)
    _check(gallery_labels, k, is_own)
    recall: dict[int, list[Tensor]] = {number: [] for number in sorted(set(k))}
    precision: list[Tensor] = []
    for where, scores in similarities(gallery, asked, excludes_self=is_own, elements=RANKED_ELEMENTS):
        # a query's own row is last in the ranking, and cut off there
        order = scores.argsort(dim=1, descending=True, stable=True)[:, : len(gallery) - is_own]
        relevant = gallery_labels[order] == wanted[where, None]
        for number, hits in recall.items():
            hits.append(relevant[:, :number].any(dim=1))
        precision.append(_average_precision(relevant))
    return Retrieval({number: torch.cat(hits).double() for number, hits in recall.items()}, torch.cat(precision))


def _average_precision(relevant: Tensor) -> Tensor:
    """(q,) from ranked relevance (q, n)."""
    hits = relevant.cumsum(dim=1)
    ranks = torch.arange(1, relevant.shape[1] + 1, device=relevant.device)
    return (hits / ranks * relevant).sum(dim=1, dtype=torch.float64) / hits[:, -1]


def _check(labels: Tensor, k: Sequence[int], is_own: bool) -> None:
    if not k or min(k) < 1:
        raise SettingError(f"k is a list of numbers from 1 on, such as (1, 5, 10); got {k!r}")
    if max(k) > len(labels) - is_own:
        raise DataError(f"k = {max(k)} were asked for, but the gallery has {len(labels) - is_own} rows to find")
    if is_own and int(torch.unique(labels, return_counts=True)[1].min()) < 2:
        raise DataError("a class with a single row has nothing to retrieve; leave it out")
