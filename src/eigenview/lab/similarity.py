"""How far two representations of the same items agree, whatever their widths, rotations and scales: do they share
directions, clusters, neighbours?"""

from __future__ import annotations

import numpy as np
import torch
from scipy import linalg
from torch import Tensor

from eigenview.diagnostics.neighbours import shared_indices
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.evaluation.similarity import contingency
from eigenview.graph.clustering import adjusted_rand_index, best_clustering
from eigenview.graph.nearest import nearest


def centred_rows(rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """√w_i (x_i − Σ_j w_j x_j), w summing to 1: inner products of its columns are covariances. Float64.

    ``rows`` (n, d); ``weights`` (n,) positive, equal where not given.
    """
    if rows.ndim != 2 or (weights is not None and weights.shape != rows.shape[:1]):
        given = None if weights is None else tuple(weights.shape)
        raise ShapeError(f"rows must be (n, d) with weights (n,) or none; got {tuple(rows.shape)} and {given}")
    rows = rows.double()
    share = torch.full_like(rows[:, 0], 1 / len(rows)) if weights is None else weights.double() / weights.double().sum()
    return (rows - share @ rows) * share.sqrt()[:, None]


def linear_cka(first: Tensor, second: Tensor, *, weights: Tensor | None = None) -> float:
    """‖XᵀY‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F) of the centred rows (Kornblith et al. 2019): 1 for a rotation and scale, else less.

    ``first`` (n, d), ``second`` (n, e); ``weights`` (n,) count items unequally.
    """
    x, y = _pair(first, second, weights)
    scale = torch.linalg.matrix_norm(x.T @ x) * torch.linalg.matrix_norm(y.T @ y)
    if not scale > 0:
        raise DataError("CKA needs rows that differ; one of the two representations is constant")
    return float((x.T @ y).square().sum() / scale)


def captured(columns: Tensor, rows: Tensor, *, weights: Tensor | None = None) -> Tensor:
    """The share of each column's variance that a linear map of ``rows`` explains, its R²: (e,) between 0 and 1."""
    y, x = _pair(columns, rows, weights)
    left, values, _ = torch.linalg.svd(x, full_matrices=False)
    basis = left[:, values > 1e-7 * values.max().clamp_min(torch.finfo(x.dtype).tiny)]  # spans the columns of x
    inside = (basis.T @ y).square().sum(dim=0)
    explained: Tensor = inside / y.square().sum(dim=0).clamp_min(torch.finfo(y.dtype).tiny)
    return explained.clamp_max(1)


def shared_neighbours(first: Tensor, second: Tensor, *, neighbours: int = 10) -> float:
    """The share of an item's nearest by cosine in one representation that are among its nearest in the other.

    Unrelated representations share about neighbours/(n − 1).
    """
    if len(first) != len(second) or not 1 <= neighbours < len(first):
        raise SettingError(
            f"shared neighbours need the same n items and 1 to n − 1 neighbours; got {len(first)}, {len(second)} items "
            f"and {neighbours}"
        )
    near = (nearest(rows, rows, k=neighbours, excludes_self=True).index for rows in (first, second))
    return float(shared_indices(*near).mean())


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


def _pair(first: Tensor, second: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    if len(first) != len(second):
        raise ShapeError(f"two representations must be of the same items; got {len(first)} and {len(second)} rows")
    return centred_rows(first, weights), centred_rows(second, weights)
