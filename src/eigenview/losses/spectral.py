"""Objectives in closed form: low-rank factorisation and Laplacian eigenmaps. Both need only d × d matrices."""

from itertools import combinations

import torch
from torch import Tensor

from eigenview.distributed import Group, gather_rows, sum_over_processes
from eigenview.errors import SettingError, ShapeError
from eigenview.losses.objective import Objective, mean_over_items, prepare_views


def spectral_contrastive(
    *views: Tensor, mu: float = 1.0, ball: bool = True, check_values: bool = True, group: Group = None
) -> Tensor:
    """(1/μ)·[ −(2/n) Σ_i f_i·f_i⁺ + (1/(n(n−1))) Σ_{i≠j} (f_i·f_j⁺)² ], averaged over the pairs of views.

    ``views``: two or more (n, d), n ≥ 2. Not put on the sphere: rows longer than √μ are drawn back to the ball of that
    radius, the others left as they are, so μ weights the repulsion. Without the ``ball`` none is, and μ only divides.
    Pairs of different items come from different views. Its minimiser factorises the normalised adjacency matrix. Chance
    (constant embeddings at the ball's edge): μ − 2. HaoChen et al., 2021.
    """
    if not mu > 0:
        raise SettingError(f"mu must be positive; got {mu}")
    rows, items = prepare_views(views, normalize=False, check_values=check_values, group=group)
    if items < 2:
        raise ShapeError(f"a contrast needs at least 2 items; got {items}")
    if ball:
        rows = [into_ball(row, mu**0.5) for row in rows]
    losses = []  # −2⟨P, K⟩ + ‖K‖² over different items, without μ
    with torch.autocast(rows[0].device.type, enabled=False):
        for x, y in combinations(rows, 2):
            own = (x * y).sum(dim=1)
            if items > x.shape[1]:  # Σ_ij (x_i·y_j)² = ⟨XᵀX, YᵀY⟩
                everything = (sum_over_processes(x.T @ x, group) * sum_over_processes(y.T @ y, group)).sum()
            else:  # fewer items than dimensions: the Gram matrix is smaller than the embeddings
                everything = sum_over_processes((x @ gather_rows(y, group).T).square().sum(), group)
            different = everything - sum_over_processes(own.square().sum(), group)
            losses.append(-2 * mean_over_items(own, group, count=items) + different / (items * (items - 1)))
    return torch.stack(losses).mean() / mu


def into_ball(rows: Tensor, radius: float) -> Tensor:
    """Rows longer than ``radius`` shortened to it; the gradient is finite at zero."""
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return torch.where(length >= radius, rows * (radius / length.clamp_min(radius)), rows)


def laplacian_eigenmaps_loss(
    *views: Tensor, decorrelation_weight: float = 1.0, check_values: bool = True, group: Group = None
) -> Tensor:
    """mean_i ‖x_i − y_i‖² + w·‖C − I‖²_F / d, C the covariance of all views: eigenmaps with a soft constraint.

    ``views``: two or more (n, d), not put on the sphere. The distance is the Laplacian's trace on the graph of
    positives; C = I stands for the eigenmaps' ZᵀZ = I, orthogonal to the constant. **A reconstruction**: Chen & Lee
    (2022, *Unsupervised few-shot learning via deep Laplacian eigenmaps*) published no code, and are described only as a
    Euclidean distance between positives with a decorrelation term. Chance (constant embeddings): w.
    """
    if not decorrelation_weight >= 0:
        raise SettingError(f"decorrelation_weight must not be negative; got {decorrelation_weight}")
    rows, items = prepare_views(views, normalize=False, check_values=check_values, group=group)
    pull = torch.stack([(x - y).square().sum(dim=1) for x, y in combinations(rows, 2)]).mean(dim=0)
    everyone, total = torch.cat(rows), items * len(rows)
    mean = sum_over_processes(everyone.detach().sum(dim=0), group) / total
    centred = everyone - mean  # the covariance is stationary in the mean: no gradient is lost
    with torch.autocast(centred.device.type, enabled=False):
        covariance = sum_over_processes(centred.T @ centred, group) / total
    excess = covariance - torch.eye(covariance.shape[0], dtype=covariance.dtype, device=covariance.device)
    apart = excess.square().sum() / covariance.shape[0]
    return mean_over_items(pull, group, count=items) + decorrelation_weight * apart


class SpectralContrastive(Objective, of=spectral_contrastive):
    """:func:`spectral_contrastive` as a module."""

    mu: float = 1.0
    ball: bool = True

    def chance_level(self) -> float | None:
        """None without the ball: constant rows can have any length."""
        return self.mu - 2 if self.ball else None


class LaplacianEigenmapsLoss(Objective, of=laplacian_eigenmaps_loss):
    """:func:`laplacian_eigenmaps_loss` as a module."""

    decorrelation_weight: float = 1.0

    def chance_level(self) -> float:
        return self.decorrelation_weight
