"""Classes by a vote of the nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenview.errors import SettingError
from eigenview.evaluation.checks import check_labels
from eigenview.graph.nearest import Metric, Neighbours, nearest


def knn_predict(
    bank: Tensor,
    labels: Tensor,
    queries: Tensor,
    *,
    k: Sequence[int] = (1, 5, 20, 200),
    metric: Metric = "cosine",
    temperature: float | None = None,
    classes: int | None = None,
    excludes_self: bool = False,
) -> dict[int, Tensor]:
    """The class of each query (q,) by a vote of its k nearest rows of ``bank``, for every k in one pass.

    ``labels`` (n,) belong to the bank's rows. A vote counts 1, or with a ``temperature`` exp(s / temperature), s the
    cosine or −½ × squared distance (Wu et al. 2018 with k = 200, temperature 0.1). The class with the most votes wins,
    the lowest number among equals.
    """
    if isinstance(k, int) or not k or min(k) < 1:
        raise SettingError(f"k is a list of numbers of neighbours, such as (1, 5, 20); got {k!r}")
    if temperature is not None and not temperature > 0:
        raise SettingError(f"temperature must be positive; got {temperature}")
    count = check_labels(labels, len(bank), "labels of the bank", classes=classes)
    neighbours = nearest(bank, queries, k=max(k), metric=metric, excludes_self=excludes_self)
    return _votes(neighbours, labels.long(), sorted(set(k)), count, temperature)


def _votes(
    neighbours: Neighbours, labels: Tensor, wanted: Sequence[int], classes: int, temperature: float | None
) -> dict[int, Tensor]:
    similarity = neighbours.similarity
    chosen = labels.to(similarity.device)[neighbours.index]
    weight = torch.ones_like(similarity)
    if temperature is not None:
        weight = ((similarity - similarity[:, :1]) / temperature).exp()  # the nearest weighs 1: no overflow
    totals = weight.new_zeros(len(chosen), classes)
    winners: dict[int, Tensor] = {}
    counted = 0
    for upto in wanted:
        totals.scatter_add_(1, chosen[:, counted:upto], weight[:, counted:upto])
        winners[upto], counted = totals.argmax(dim=1), upto
    return winners
