"""Alignment and uniformity: each is a loss and a measure (Wang & Isola, 2020); and SimSiam, which only aligns."""

import math
from itertools import combinations

import torch
from torch import Tensor

from eigenview.distributed import Group, row_counts
from eigenview.errors import SettingError
from eigenview.graph.coupling import log_partition
from eigenview.graph.kernels import GaussianKernel, Kernel
from eigenview.graph.pointwise import distance_power
from eigenview.losses.contrastive import info_nce
from eigenview.losses.objective import Objective, mean_over_items, prepare_views


def alignment(
    *views: Tensor, alpha: float = 2.0, normalize: bool = True, check_values: bool = True, group: Group = None
) -> Tensor:
    """How close positives are: mean_i ‖x_i − y_i‖₂^alpha, averaged over the pairs of views.

    ``views``: two or more (n, d). In [0, 2^alpha] on the sphere; 0 when collapsed.
    """
    if not alpha > 0:
        raise SettingError(f"alpha must be positive; got {alpha}")
    rows, items = prepare_views(views, normalize=normalize, check_values=check_values, group=group)
    powers = [distance_power((x - y).square().sum(dim=1), alpha) for x, y in combinations(rows, 2)]
    return mean_over_items(torch.stack(powers).mean(dim=0), group, count=items)


def uniformity(
    embeddings: Tensor,
    *,
    t: float = 2.0,
    kernel: Kernel | None = None,
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """How evenly one view covers the sphere: log mean_{i<j} exp(−t‖x_i − x_j‖²), over distinct pairs of one view.

    ``embeddings`` (n, d), n ≥ 2 over all processes. ``kernel`` replaces the Gaussian potential, e.g.
    ``CauchyKernel(1.0)``. 0 when collapsed; the floor for the dimension is :func:`eigenview.uniformity_floor`.
    """
    if not t > 0:
        raise SettingError(f"t must be positive; got {t}")
    potential = GaussianKernel(1 / (2 * t)) if kernel is None else kernel
    total = log_partition(embeddings, potential, normalize=normalize, check_values=check_values, group=group)
    n = sum(row_counts(embeddings, group))
    return total - math.log(n) - math.log(n - 1)


def align_uniform_loss(
    *views: Tensor,
    align_weight: float = 1.0,
    uniform_weight: float = 1.0,
    alpha: float = 2.0,
    t: float = 2.0,
    contrastive_weight: float = 0.0,
    temperature: float = 0.5,
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """w_a·alignment + w_u·(mean uniformity of the views) [+ w_c·InfoNCE(τ)].

    ``views``: two or more (n, d). The published best on STL-10: 0.98·align(2) + 0.96·unif(2); with InfoNCE(0.5) +
    unif(2) close by. Chance (constant embeddings): 0 + w_c·ln(V·n − 1): collapse is no minimum as long as w_u or w_c
    is positive.
    """
    if min(align_weight, uniform_weight, contrastive_weight) < 0:
        raise SettingError(
            f"weights must not be negative; got align {align_weight}, uniform {uniform_weight}, "
            f"contrastive {contrastive_weight}"
        )
    rows, _ = prepare_views(views, normalize=normalize, check_values=check_values, group=group)
    total = align_weight * alignment(*rows, alpha=alpha, normalize=False, check_values=False, group=group)
    if uniform_weight:
        spread = [uniformity(row, t=t, normalize=normalize, check_values=False, group=group) for row in rows]
        total = total + uniform_weight * torch.stack(spread).mean()
    if contrastive_weight:
        total = total + contrastive_weight * info_nce(
            *rows, temperature=temperature, normalize=normalize, check_values=False, group=group
        )
    return total


def simsiam_loss(
    prediction_a: Tensor,
    prediction_b: Tensor,
    projection_a: Tensor,
    projection_b: Tensor,
    *,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """−½·[ mean cos(p_a, sg z_b) + mean cos(p_b, sg z_a) ], in [−1, 1].

    SimSiam (Chen & He, 2021): positives alone, kept from collapse by a predictor and a stop-gradient. Predictions p
    and projections z (n, d) of two views; no gradient reaches the projections. Collapse is its minimum,
    −1, so watch the rank (or the spread of z/‖z‖ against 1/√d), not the loss.
    """
    given = (prediction_a, prediction_b, projection_a.detach(), projection_b.detach())
    (p_a, p_b, z_a, z_b), items = prepare_views(given, normalize=True, check_values=check_values, group=group)
    return -mean_over_items(((p_a * z_b).sum(dim=1) + (p_b * z_a).sum(dim=1)) / 2, group, count=items)


class AlignUniformLoss(Objective, of=align_uniform_loss):
    """:func:`align_uniform_loss` as a module."""

    align_weight: float = 1.0
    uniform_weight: float = 1.0
    alpha: float = 2.0
    t: float = 2.0
    contrastive_weight: float = 0.0
    temperature: float = 0.5
    normalize: bool = True

    def chance_level(self, items: int, *, views: int = 2) -> float:
        return self.contrastive_weight * math.log(views * items - 1)


class SimSiamLoss(Objective, of=simsiam_loss):
    """:func:`simsiam_loss` as a module."""

    def chance_level(self) -> float:
        """Constant embeddings reach the minimum: a loss of −1 says nothing about success."""
        return -1.0
