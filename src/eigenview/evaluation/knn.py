"""Nearest neighbours, exactly: blocks of similarities by one matrix product, the best k of each row, votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import check_features, check_labels, check_same_width, working_dtype

Metric = Literal["cosine", "euclidean"]
Weights = Literal["uniform", "exponential"]

BLOCK_ELEMENTS = 1 << 23  # similarities held at a time: 32 MB in float32
GROUPS_PER_NEIGHBOUR = 12  # columns are grouped until about this many groups are left for each neighbour wanted


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of a bank for each query, nearest first."""

    similarity: Tensor  # (q, k): cosine, or −½ × squared Euclidean distance
    index: Tensor  # (q, k): rows of the bank


@torch.no_grad()
def nearest(
    bank: Tensor, queries: Tensor, *, k: int, metric: Metric = "cosine", excludes_self: bool = False
) -> Neighbours:
    """The ``k`` rows of ``bank`` (n, d) nearest to each row of ``queries`` (q, d), exactly.

    Similarities are cosines, or −½‖x − y‖²: on unit rows the two differ by 1. ``excludes_self`` is for queries that
    are the bank itself: row i is then no neighbour of query i (its duplicates are). Among equals the order is free.
    Memory beside the inputs: a copy of both, and a block of 32 MB.
    """
    _check(bank, queries, k, metric, excludes_self)
    rows, points, bias = _prepared(bank, queries, metric)
    found = Neighbours(
        similarity=points.new_empty(len(points), k),
        index=torch.empty(len(points), k, dtype=torch.long, device=points.device),
    )
    step = min(len(points), max(1, BLOCK_ELEMENTS // len(rows)))
    space = points.new_empty(step, len(rows))  # one for all blocks: fresh memory costs more than the product's writes
    for start in range(0, len(points), step):
        block = points[start : start + step]
        scores = space[: len(block)]
        if bias is None:
            torch.mm(block, rows.T, out=scores)
        else:
            torch.addmm(bias, block, rows.T, out=scores)
        if excludes_self:
            own = torch.arange(len(block), device=scores.device)
            scores[own, own + start] = -torch.inf
        found.similarity[start : start + step], found.index[start : start + step] = _largest(scores, k)
    if metric == "euclidean":
        half = points.square().sum(dim=1, keepdim=True) / 2
        found.similarity.sub_(half).clamp_max_(0)
    return found


def knn_predict(
    bank: Tensor,
    labels: Tensor,
    queries: Tensor,
    *,
    k: Sequence[int] = (1, 5, 20, 200),
    metric: Metric = "cosine",
    weights: Weights = "uniform",
    temperature: float = 0.1,
    classes: int | None = None,
    excludes_self: bool = False,
) -> dict[int, Tensor]:
    """The class of each query (q,) by a vote of its k nearest rows of ``bank``, for every k in one pass.

    ``labels`` (n,) belong to the bank's rows. A vote counts 1 (``uniform``), or exp(s / temperature) with s the cosine
    or −½ × squared distance (``exponential``; Wu et al. 2018 with k = 200, temperature 0.1). The class with the most
    votes wins, the lowest number among equals.
    """
    if isinstance(k, int) or not k:
        raise SettingError(f"k is a list of numbers of neighbours, such as (1, 5, 20); got {k!r}")
    if weights not in ("uniform", "exponential"):
        raise SettingError(f"weights must be uniform or exponential; got {weights!r}")
    if not temperature > 0:
        raise SettingError(f"temperature must be positive; got {temperature}")
    _check(bank, queries, min(k), metric, excludes_self)
    count = check_labels(labels, len(bank), "labels of the bank", classes=classes)
    found = nearest(bank, queries, k=max(k), metric=metric, excludes_self=excludes_self)
    return _votes(found, labels.long(), sorted(set(k)), count, temperature if weights == "exponential" else None)


def _votes(
    found: Neighbours, labels: Tensor, wanted: Sequence[int], classes: int, temperature: float | None
) -> dict[int, Tensor]:
    chosen = labels.to(found.index.device)[found.index]
    weight = torch.ones_like(found.similarity)
    if temperature is not None:
        weight = ((found.similarity - found.similarity[:, :1]) / temperature).exp()  # the nearest weighs 1: no overflow
    totals = weight.new_zeros(len(chosen), classes)
    winners: dict[int, Tensor] = {}
    counted = 0
    for upto in wanted:
        totals.scatter_add_(1, chosen[:, counted:upto], weight[:, counted:upto])
        winners[upto], counted = totals.argmax(dim=1), upto
    return winners


def _prepared(bank: Tensor, queries: Tensor, metric: Metric) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows and points whose inner products, plus a bias a row, order the neighbours."""
    dtype = working_dtype(bank, queries)
    rows, points = bank.detach().to(dtype), queries.detach().to(bank.device, dtype)
    if metric == "cosine":
        return normalize(rows, dim=1), normalize(points, dim=1), None
    centre = rows.mean(dim=0)  # distances do not change, and rounding is relative to smaller numbers
    rows, points = rows - centre, points - centre
    return rows, points, rows.square().sum(dim=1).div_(-2)


def _largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """``scores.topk(k)``, sooner: where columns are many, only the k groups of columns with the largest maxima matter.

    Every one of the k largest lies in such a group, or equals one that does. Column c belongs to group c mod G.
    """
    columns = scores.shape[1]
    members = columns // (GROUPS_PER_NEIGHBOUR * k)  # columns in a group
    if members < 2:
        return _topk(scores, k)
    groups = columns // members
    grouped = scores[:, : groups * members].reshape(len(scores), members, groups)
    best = grouped.amax(dim=1).topk(k, dim=1, sorted=False).indices
    offsets = torch.arange(members, device=scores.device) * groups
    candidates = (best[:, :, None] + offsets).flatten(1)
    if groups * members < columns:  # the last few columns stand for themselves
        rest = torch.arange(groups * members, columns, device=scores.device)
        candidates = torch.cat([candidates, rest.expand(len(scores), -1)], dim=1)
    values, place = _topk(scores.gather(1, candidates), k)
    return values, candidates.gather(1, place)


def _topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, index = scores.topk(k, dim=1)
    return values, index


def _check(bank: Tensor, queries: Tensor, k: int, metric: str, excludes_self: bool) -> None:
    check_features(bank, "the bank")
    check_features(queries, "queries")
    check_same_width(bank, queries, ("the bank", "queries"))
    if metric not in ("cosine", "euclidean"):
        raise SettingError(f"metric must be cosine or euclidean; got {metric!r}")
    if excludes_self and len(queries) != len(bank):
        raise SettingError(
            f"excludes_self is for queries that are the bank; got {len(queries)} queries, {len(bank)} rows"
        )
    if k < 1:
        raise SettingError(f"k must be at least 1; got {k}")
    if k > len(bank) - excludes_self:
        raise DataError(f"k = {k} neighbours were asked for, but the bank has {len(bank) - excludes_self} rows to find")
