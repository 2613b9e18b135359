"""A figure and how sure it is: exact over all rows, or from sampled anchors with a 95% confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """``value`` with its 95% interval [``low``, ``high``]; ``anchors`` says how many were sampled, None: all, exact."""

    value: float
    low: float
    high: float
    anchors: int | None = None

    @classmethod
    def exact(cls, value: float) -> Estimate:
        return cls(value, value, value)

    def __str__(self) -> str:
        if self.anchors is None:
            return f"{self.value:.4g}"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    @property
    def in_percent(self) -> str:
        """Of a share: ``4.6 %``, or ``4.6 % [4.1, 5.2]``."""
        hundred = f"{100 * self.value:.3g} %"
        return hundred if self.anchors is None else f"{hundred} [{100 * self.low:.3g}, {100 * self.high:.3g}]"


def mean_of_sample(values: Tensor, population: int) -> Estimate:
    """The mean of ``population`` values from (m,) drawn without replacement: Student's t, finite-population corrected.

    Exact when all are there; without an interval (−inf to inf) when only one was drawn.
    """
    values = values.double()
    count, mean = len(values), float(values.mean())
    if count >= population:
        return Estimate.exact(mean)
    if count < 2:
        return Estimate(mean, -math.inf, math.inf, count)
    error = float(values.std()) * math.sqrt((1 - count / population) / count)
    reach = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    return Estimate(mean, mean - reach, mean + reach, count)


def log_mean_of_sample(log_values: Tensor, population: int) -> Estimate:
    """log of the mean of exp(``log_values``), its interval by the delta method: ± t·(standard error)/mean."""
    log_values = log_values.double()
    shift = log_values.max()
    mean = mean_of_sample((log_values - shift).exp(), population)
    value = float(shift) + math.log(mean.value)
    if mean.anchors is None:
        return Estimate.exact(value)
    reach = (mean.high - mean.value) / mean.value
    return Estimate(value, value - reach, value + reach, mean.anchors)


def share_of_sample(hits: Tensor, population: int) -> Estimate:
    """The share of true ``hits`` (m,) in a population: Wilson's interval, finite-population corrected.

    Unlike the mean's, it stays within [0, 1] and has a width where none or all of the sample are hits.
    """
    count, share = len(hits), float(hits.double().mean())
    if count >= population:
        return Estimate.exact(share)
    square = float(ndtri((1 + CONFIDENCE) / 2)) ** 2 * (1 - count / population) / count
    middle = (share + square / 2) / (1 + square)
    reach = math.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    low = 0.0 if share == 0 else middle - reach  # Wilson's ends exactly there, but for rounding
    return Estimate(share, low, 1.0 if share == 1 else middle + reach, count)


def mean_of_sets(values: list[float], rows: int, *, within: tuple[float, float] = (-math.inf, math.inf)) -> Estimate:
    """The mean of a figure over disjoint sets of ``rows`` rows each, with Student's interval across the sets.

    ``within`` cuts the interval to the values that the figure can have.
    """
    mean = mean_of_sample(torch.tensor(values, dtype=torch.float64), population=1 << 62)
    return Estimate(mean.value, max(mean.low, within[0]), min(mean.high, within[1]), rows * len(values))
