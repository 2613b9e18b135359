"""Do clusters of the features meet the classes: k-means and spectral clustering, and three ways to say how well."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.errors import SettingError
from eigenview.evaluation.checks import check_features, check_labels
from eigenview.graph.clustering import best_clustering
from eigenview.graph.laplacian import neighbour_graph, spectral_clustering
from eigenview.graph.nearest import nearest

Counts = npt.NDArray[np.float64]

STARTS, ITERATIONS = 5, 100


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


def matched_classes(table: Counts) -> npt.NDArray[np.int64]:
    """The class of each cluster, −1 for none, in the one-to-one matching with the most rows right (Hungarian)."""
    from scipy import optimize  # a tenth of a second, which few commands need

    clusters, classes = optimize.linear_sum_assignment(-table)
    matched = np.full(len(table), -1, dtype=np.int64)
    matched[clusters] = classes
    return matched


def cluster_hits(assignment: Tensor, labels: Tensor) -> Tensor:
    """(n,) 1 where a row's cluster is matched with its class, otherwise 0: their mean is the Hungarian accuracy."""
    matched = torch.from_numpy(matched_classes(contingency(assignment, labels)))
    return (matched[assignment.cpu()] == labels.cpu()).double()


def _entropy(shares: Counts) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())
