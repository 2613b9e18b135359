"""Do embeddings and eigenvectors span the same space, and how sure is a mean over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import linalg
from torch import Tensor

from eigenview.diagnostics.estimates import mean_of_sets
from eigenview.errors import SettingError
from eigenview.evaluation.clustering import contingency
from eigenview.graph.clustering import adjusted_rand_index, best_clustering

Interval = dict[str, float]  # mean, low, high


def principal_angles(first: Tensor, second: Tensor) -> Tensor:
    """The angles between two column spaces (n, d) and (n, e), in radians, the widest first.

    Right to rounding for small angles too, which the arccosine of a cosine is not.
    """
    columns = (np.asarray(space.detach().double()) for space in (first, second))
    return torch.from_numpy(np.ascontiguousarray(linalg.subspace_angles(*columns)))


def leading_directions(embeddings: Tensor, count: int) -> Tensor:
    """The first ``count`` left singular vectors of the centred ``embeddings`` (n, d): where they vary most."""
    rows = embeddings.detach().double()
    left, _, _ = torch.linalg.svd(rows - rows.mean(dim=0), full_matrices=False)
    return torch.narrow(left, 1, 0, count)


def angle_to(embeddings: Tensor, vectors: Tensor) -> float:
    """The widest angle between ``vectors`` (n, k) and as many leading directions of ``embeddings``, in degrees."""
    return float(principal_angles(leading_directions(embeddings, vectors.shape[1]), vectors).max().rad2deg())


def rotation_to(rows: Tensor, wanted: Tensor) -> Tensor:
    """R (d, d), orthogonal, of the least ‖rows·R − wanted‖ (Procrustes), for ``rows`` and ``wanted`` (n, d)."""
    left, _, right = torch.linalg.svd(rows.T @ wanted)
    rotation: Tensor = left @ right
    return rotation


def clusters_of(embeddings: Tensor, clusters: int, *, seed: int = 0) -> Tensor:
    """(n,) the best of ten starts of spherical k-means."""
    return best_clustering(embeddings, clusters, seed=seed).assignment


def rand_index(first: Tensor, second: Tensor) -> float:
    """Adjusted Rand index of two assignments (n,)."""
    return adjusted_rand_index(contingency(first, second))


def written(interval: Interval, digits: int = 3, *, sign: str = "") -> str:
    """mean [low, high]; ``sign="+"`` writes that of positive numbers too."""
    mean, low, high = (f"{interval[key]:{sign}.{digits}f}" for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def interval(values: Sequence[float], *, within: tuple[float, float] = (-math.inf, math.inf)) -> Interval:
    """The mean over seeds (or other independent repeats, at least two) with Student's 95% interval.

    ``within`` cuts the interval to the values that the figure can have.
    """
    if len(values) < 2:
        raise SettingError(f"an interval needs at least two repeats; got {len(values)}")
    mean = mean_of_sets(list(values), 1, within=within)
    return {"mean": mean.value, "low": mean.low, "high": mean.high}


@dataclass(frozen=True)
class Measure:
    """What an experiment measures in every run: its name in a figure, and the values it can have."""

    title: str
    low: float = -math.inf
    high: float = math.inf


def intervals(samples: Sequence[Mapping[str, float]], measures: Mapping[str, Measure]) -> dict[str, Interval]:
    """The interval of each measure over samples that each have them all."""
    ends = {key: (measure.low, measure.high) for key, measure in measures.items()}
    return {key: interval([sample[key] for sample in samples], within=within) for key, within in ends.items()}
