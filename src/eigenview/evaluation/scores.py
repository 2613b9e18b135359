"""The statistics of scores: means, intervals over test items, seeds and folds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.files import JSON
from eigenview.runs import Score

Values = npt.NDArray[np.float64]

DRAWS = 2000  # of the bootstrap
LEVEL = 0.95


@dataclass(frozen=True)
class Origin:
    """What all scores of a measurement share: whose they are, and what they were measured on."""

    subject: str
    data: Mapping[str, JSON]
    encoder: str = ""  # hash of the weights
    seed: int = 0


def mean_score(items: Tensor, origin: Origin, *, name: str, metric: str, protocol: Mapping[str, JSON]) -> Score:
    """The mean over test items, with a bootstrap interval over them; accuracy is the mean of 0 and 1."""
    values = items.detach().cpu().double().numpy()
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise DataError(f"a score needs one finite number a test item; got {values.shape} with NaN or none")
    return Score(
        name=name,
        metric=metric,
        value=float(values.mean()),
        interval=bootstrap_interval(lambda index: float(values[index].mean()), len(values), seed=origin.seed),
        protocol=dict(protocol),
        items=tuple(values.round(6).tolist()),
        **{**vars(origin), "data": dict(origin.data)},
    )


def bootstrap_interval(
    statistic: Callable[[npt.NDArray[np.int64]], float], count: int, *, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float]:
    """The middle 95 % of ``statistic(index)`` over draws of ``count`` items with replacement (Efron's percentiles)."""
    random = np.random.default_rng(seed)
    drawn = [statistic(random.integers(count, size=count)) for _ in range(draws)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def subsample_interval(
    statistic: Callable[[npt.NDArray[np.int64]], float],
    count: int,
    *,
    limits: tuple[float, float] = (-math.inf, math.inf),
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[float, float]:
    """95 % interval of a score that is no mean over items, such as NMI or ARI, around its value on all of them.

    The bootstrap repeats items, and two copies of one item always agree, so it finds more agreement than there is. Here
    nine tenths of the items (all but one of fewer than ten) are drawn without repetition, the delete-d jackknife: the
    score's deviation over such draws, times √(m/(n − m)) for m of n items, is that over samples of n. The interval ends
    at ``limits``, beyond which no score lies. docs/evaluation.md has its coverage.
    """
    from scipy import stats

    value = statistic(np.arange(count))
    if count < 3:
        return limits if math.isfinite(sum(limits)) else (value, value)
    random, size = np.random.default_rng(seed), min(9 * count // 10, count - 1)
    drawn = [statistic(random.permutation(count)[:size]) for _ in range(draws)]
    deviation = float(np.std(drawn, ddof=1)) * math.sqrt(size / (count - size))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * deviation
    return max(value - reach, min(limits[0], value)), min(value + reach, max(limits[1], value))


def mean_interval(values: Values) -> tuple[float, float, float]:
    """Mean and its 95 % interval by Student's t, over seeds, folds or draws; (m, m, m) for a single one."""
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, mean, mean
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, mean - half, mean + half


def over_repeats(scores: Sequence[Score], *, over: Literal["folds", "seeds"], subject: str | None = None) -> Score:
    """One score of several of the same protocol: their mean with Student's 95 % interval over folds or seeds.

    Its ``items`` are the repeats' own values: a comparison pairs them in their order. Over seeds the data must be the
    same; folds are parts of the same data.
    """
    first = scores[0] if scores else None
    if first is None or len(scores) < 2:
        raise SettingError(f"a mean over {over} needs at least two scores; got {len(scores)}")
    for other in scores[1:]:
        if other.protocol_hash != first.protocol_hash or other.data_hash != first.data_hash:
            raise SettingError(f"only scores of one protocol and data have a mean over {over}; {other} differs")
    values = [score.value for score in scores]
    mean, low, high = mean_interval(np.array(values))
    return replace(
        first,
        value=mean,
        interval=(low, high),
        protocol={**first.protocol, "mean over": f"{len(values)} {over}"},
        subject=first.subject if subject is None else subject,
        encoder=first.encoder if over == "folds" else "",
        items=tuple(values),
    )
