"""Alignment and uniformity: each is a loss and a measure (Wang & Isola, 2020)."""

from __future__ import annotations

import math
from itertools import combinations

import torch
from torch import Tensor

from eigenview.distributed import Group, row_counts
from eigenview.errors import SettingError
from eigenview.graph.coupling import log_partition
from eigenview.graph.geometry import distance_power
from eigenview.graph.kernels import GaussianKernel, Kernel
from eigenview.graph.sphere import uniformity_floor
from eigenview.losses.contrastive import info_nce
from eigenview.losses.module import Objective
from eigenview.losses.views import mean_over_items, prepare_views

__all__ = ["AlignUniformLoss", "align_uniform_loss", "alignment", "uniformity", "uniformity_floor"]


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
    ``CauchyKernel(1.0)``. 0 when collapsed; the floor for the dimension is :func:`uniformity_floor`.
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


class AlignUniformLoss(Objective, of=align_uniform_loss):
    """:func:`align_uniform_loss` as a module."""

    align_weight: float = 1.0
    uniform_weight: float = 1.0
    alpha: float = 2.0
    t: float = 2.0
    contrastive_weight: float = 0.0
    temperature: float = 0.5
    normalize: bool = True
    group: Group = None

    def chance_level(self, items: int, *, views: int = 2) -> float:
        return self.contrastive_weight * math.log(views * items - 1)
