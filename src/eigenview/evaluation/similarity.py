"""Classes by what is alike: a vote of the nearest, a ranking of all, clusters and how well they meet the classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import check_features, check_labels, check_no_class_is_new
from eigenview.graph.clustering import best_clustering
from eigenview.graph.laplacian import neighbour_graph, spectral_clustering
from eigenview.graph.nearest import Metric, nearest, similarities

RANKED_ELEMENTS = 1 << 22  # similarities ranked at a time: sorting needs several copies
Counts = npt.NDArray[np.float64]

STARTS, ITERATIONS = 5, 100


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
    near = nearest(bank, queries, k=max(k), metric=metric, excludes_self=excludes_self)
    chosen, weight = labels.long().to(near.similarity.device)[near.index], torch.ones_like(near.similarity)
    if temperature is not None:
        weight = ((near.similarity - near.similarity[:, :1]) / temperature).exp()  # the nearest weighs 1: no overflow
    totals = weight.new_zeros(len(chosen), count)
    winners: dict[int, Tensor] = {}
    counted = 0
    for upto in sorted(set(k)):
        totals.scatter_add_(1, chosen[:, counted:upto], weight[:, counted:upto])
        winners[upto], counted = totals.argmax(dim=1), upto
    return winners


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
    if not k or min(k) < 1:
        raise SettingError(f"k is a list of numbers from 1 on, such as (1, 5, 10); got {k!r}")
    if max(k) > len(gallery) - is_own:
        raise DataError(f"k = {max(k)} were asked for, but the gallery has {len(gallery) - is_own} rows to find")
    if is_own and int(torch.unique(gallery_labels, return_counts=True)[1].min()) < 2:
        raise DataError("a class with a single row has nothing to retrieve; leave it out")
    recall: dict[int, list[Tensor]] = {number: [] for number in sorted(set(k))}
    precision: list[Tensor] = []
    for where, scores in similarities(gallery, asked, excludes_self=is_own, elements=RANKED_ELEMENTS):
        # a query's own row is last in the ranking, and cut off there
        order = scores.argsort(dim=1, descending=True, stable=True)[:, : len(gallery) - is_own]
        relevant = gallery_labels[order] == wanted[where, None]
        for number, answered in recall.items():
            answered.append(relevant[:, :number].any(dim=1))
        hits, ranks = relevant.cumsum(dim=1), torch.arange(1, relevant.shape[1] + 1, device=relevant.device)
        precision.append((hits / ranks * relevant).sum(dim=1, dtype=torch.float64) / hits[:, -1])
    return Retrieval({number: torch.cat(hits).double() for number, hits in recall.items()}, torch.cat(precision))


def cluster(
    features: Tensor,
    clusters: int,
    *,
    method: Literal["kmeans", "spectral"] = "kmeans",
    neighbours: int = 20,
    seed: int = 0,
) -> Tensor:
    """The cluster of each row (n,), without any labels.

    ``kmeans``: spherical k-means, the best of five starts. ``spectral``: on the graph of each row's ``neighbours``
    nearest by cosine, made symmetric, with the normalised Laplacian.
    """
    check_features(features, "features")
    if method == "kmeans":
        return best_clustering(features, clusters, starts=STARTS, iterations=ITERATIONS, seed=seed).assignment
    if method != "spectral":
        raise SettingError(f"clustering is by kmeans or spectral; got {method!r}")
    if neighbours == len(features) - 1:
        raise DataError(f"{neighbours} neighbours join each of {neighbours + 1} rows to all others, alike: use fewer")
    near = nearest(features, features, k=neighbours, excludes_self=True).index.cpu().numpy()
    return spectral_clustering(neighbour_graph(near), clusters, seed=seed)


def contingency(assignment: Tensor, labels: Tensor) -> Counts:
    """(clusters, classes): how many rows of each class each cluster holds."""
    clusters = check_labels(assignment, len(labels), "cluster numbers")
    classes = check_labels(labels, len(labels), "labels")
    both = assignment.cpu().long() * classes + labels.cpu().long()
    return torch.bincount(both, minlength=clusters * classes).view(clusters, classes).double().numpy()


def normalised_mutual_information(table: Counts) -> float:
    """I(cluster; class) over the mean of both entropies: 1 where one tells the other, 0 where it tells nothing."""
    joint = table / table.sum()
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    entropy = (_entropy(rows) + _entropy(columns)) / 2
    information = _entropy(rows) + _entropy(columns) - _entropy(joint.ravel())
    return float(information / entropy) if entropy > 0 else 1.0


def cluster_hits(assignment: Tensor, labels: Tensor) -> Tensor:
    """(n,) 1 where a row's cluster is matched with its class, otherwise 0: their mean is the Hungarian accuracy.

    The matching is the one-to-one with the most rows right; a cluster beyond the classes has none.
    """
    from scipy import optimize  # a tenth of a second, which few commands need

    table = contingency(assignment, labels)
    matched = torch.full((len(table),), -1)
    clusters, classes = map(torch.from_numpy, optimize.linear_sum_assignment(-table))
    matched[clusters] = classes
    return (matched[assignment.cpu()] == labels.cpu()).double()


def _entropy(shares: Counts) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())
