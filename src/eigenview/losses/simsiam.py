"""SimSiam: positives alone, kept from collapse by a predictor and a stop-gradient (Chen & He, 2021)."""

from __future__ import annotations

from torch import Tensor

from eigenview.distributed import Group
from eigenview.losses.module import Objective
from eigenview.losses.views import mean_over_items, prepare_views


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

    Predictions p and projections z (n, d) of two views; no gradient reaches the projections. Collapse is its minimum,
    −1, so watch the rank (or the spread of z/‖z‖ against 1/√d), not the loss.
    """
    given = (prediction_a, prediction_b, projection_a.detach(), projection_b.detach())
    (p_a, p_b, z_a, z_b), items = prepare_views(given, normalize=True, check_values=check_values, group=group)
    return -mean_over_items(((p_a * z_b).sum(dim=1) + (p_b * z_a).sum(dim=1)) / 2, group, count=items)


class SimSiamLoss(Objective, of=simsiam_loss):
    """:func:`simsiam_loss` as a module."""

    group: Group = None

    def chance_level(self) -> float:
        """Constant embeddings reach the minimum: a loss of −1 says nothing about success."""
        return -1.0
