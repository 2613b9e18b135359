"""Why a temperature: InfoNCE as the dual of a maximum-entropy problem (Tan et al., 2023, problem P1).

(P1): maximise the entropy H(α) over the simplex, subject to ψ₁ ≤ Σ_i α_i ψ_i, where ψ holds a query's similarities,
its positive first. With multiplier 1/τ the dual is g(τ) = −log softmax₁(ψ/τ), InfoNCE at temperature τ: an upper bound
of (P1) for every τ > 0, and equal to it at the best one.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError, ShapeError


class MaximumEntropy(NamedTuple):
    """The solution of (P1) for each query: its value (n,), the distribution α* (n, m), the temperature τ* (n,)."""

    value: Tensor
    assignment: Tensor
    temperature: Tensor


def entropy_dual(similarities: Tensor, temperature: float | Tensor) -> Tensor:
    """g(τ) = log Σ_i exp((ψ_i − ψ₁)/τ), (n,): InfoNCE of each query at its temperature.

    ``similarities`` (n, m), the positive in column 0; ``temperature`` a number or (n,).
    """
    _check(similarities)
    per_query = torch.as_tensor(temperature, dtype=similarities.dtype, device=similarities.device)
    if not bool((per_query > 0).all()):
        raise SettingError(f"temperature must be positive; got {per_query.min().item():g}")
    gap = similarities - similarities[:, :1]
    return (gap / per_query.reshape(-1, 1)).logsumexp(dim=1)


def maximum_entropy(similarities: Tensor, *, iterations: int = 200) -> MaximumEntropy:
    """(P1) solved for each query by bisection on 1/τ, in float64: α* = softmax(ψ/τ*).

    ``similarities`` (n, m), the positive in column 0. Two borders: a positive that ranks first leaves no freedom,
    τ* = 0 and α* is shared by those that tie with it; one at or below the mean constrains nothing, τ* = ∞ and α* is
    uniform. Carries no gradient.
    """
    _check(similarities)
    psi = similarities.detach().double()
    gap = psi - psi[:, :1]
    is_first = (gap <= 0).all(dim=1)
    is_free = gap.mean(dim=1) >= 0
    low, high = torch.zeros_like(gap[:, 0]), torch.ones_like(gap[:, 0])  # of 1/τ

    def shortfall(inverse: Tensor) -> Tensor:  # Σ αψ − ψ₁ at α = softmax(ψ/τ): grows with 1/τ
        return ((gap * inverse[:, None]).softmax(dim=1) * gap).sum(dim=1)

    between = ~is_first & ~is_free
    for _ in range(1100):  # doubling covers all of float64
        too_low = between & (shortfall(high) < 0)
        if not bool(too_low.any()):
            break
        high = torch.where(too_low, high * 2, high)
    for _ in range(iterations):
        middle = (low + high) / 2
        below = shortfall(middle) < 0
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    inverse = torch.where(is_free, torch.zeros_like(high), (low + high) / 2)
    assignment = (gap * inverse[:, None]).softmax(dim=1)
    top = (gap == gap.amax(dim=1, keepdim=True)).double()
    assignment = torch.where((is_first & ~is_free)[:, None], top / top.sum(dim=1, keepdim=True), assignment)
    temperature = torch.where(is_first & ~is_free, torch.zeros_like(inverse), 1 / inverse)
    value = -torch.special.xlogy(assignment, assignment).sum(dim=1)
    return MaximumEntropy(value, assignment, temperature)


def _check(similarities: Tensor) -> None:
    if similarities.ndim != 2 or similarities.shape[1] < 2 or not similarities.dtype.is_floating_point:
        raise ShapeError(
            f"similarities must be floating point (queries, positive + negatives); got {tuple(similarities.shape)}"
        )
    if not bool(similarities.isfinite().all()):
        raise DataError("similarities must be finite; got NaN or Inf")
