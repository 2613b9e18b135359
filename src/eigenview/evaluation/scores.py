"""Scores with their intervals, protocol and data, kept as JSON in a run."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.identity import settings_identity
from eigenview.files import atomic_path

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"
Values = npt.NDArray[np.float64]

DRAWS = 2000  # of the bootstrap
LEVEL = 0.95
FOLDER = "evaluation"  # in a run


@dataclass(frozen=True)
class Score:
    """One figure and all that it depends on. ``interval`` is at 95 %."""

    name: str  # what was measured, such as "knn k=20"
    metric: str  # accuracy, map, nmi, mse, …
    value: float
    interval: tuple[float, float]
    protocol: dict[str, JSON]  # everything that decides how it is measured; not the encoder, not the data
    data: dict[str, JSON]  # identity of what it was fitted to and measured on
    subject: str  # whose features: a run's name, "raw pixels", "untrained"
    encoder: str = ""  # hash of the weights
    seed: int = 0
    higher_is_better: bool = True
    items: tuple[float, ...] = ()  # one a test item, in order; empty where the figure is no mean over items

    @property
    def protocol_hash(self) -> str:
        return settings_identity({"name": self.name, "metric": self.metric, **self.protocol})

    @property
    def data_hash(self) -> str:
        return settings_identity(self.data)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.subject}: {self.name} {self.metric} {self.value:.4f} [{low:.4f}, {high:.4f}]"


def mean_score(
    items: Tensor,
    *,
    name: str,
    metric: str,
    protocol: Mapping[str, JSON],
    data: Mapping[str, JSON],
    subject: str,
    encoder: str = "",
    seed: int = 0,
    higher_is_better: bool = True,
) -> Score:
    """The mean over test items, with a bootstrap interval over them; accuracy is the mean of 0 and 1."""
    values = items.detach().cpu().double().numpy()
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise DataError(f"a score needs one finite number a test item; got {values.shape} with NaN or none")
    return Score(
        name=name,
        metric=metric,
        value=float(values.mean()),
        interval=bootstrap_interval(lambda index: float(values[index].mean()), len(values), seed=seed),
        protocol=dict(protocol),
        data=dict(data),
        subject=subject,
        encoder=encoder,
        seed=seed,
        higher_is_better=higher_is_better,
        items=tuple(values.round(6).tolist()),
    )


def bootstrap_interval(
    statistic: Callable[[npt.NDArray[np.int64]], float], count: int, *, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float]:
    """The middle 95 % of ``statistic(index)`` over draws of ``count`` items with replacement (Efron's percentiles)."""
    random = np.random.default_rng(seed)
    drawn = [statistic(random.integers(count, size=count)) for _ in range(draws)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


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


def save_score(score: Score, run: str | Path) -> Path:
    """Write ``run/evaluation/SUBJECT-NAME-METRIC-HASH.json``, whole or not at all, over one of the same measurement."""
    folder = Path(run) / FOLDER
    words = re.sub(r"[^a-z0-9.=]+", "-", f"{score.subject} {score.name} {score.metric}".lower()).strip("-")
    file = folder / f"{words}-{settings_identity({'protocol': score.protocol_hash, 'data': score.data_hash})[:8]}.json"
    content = {**asdict(score), "protocol_hash": score.protocol_hash, "data_hash": score.data_hash}
    with atomic_path(file) as beside:
        beside.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def load_scores(run: str | Path) -> list[Score]:
    """All scores of a run, in the order of their file names. A file whose hash does not fit its content is refused."""
    return [_read(file) for file in sorted((Path(run) / FOLDER).glob("*.json"))]


def _read(file: Path) -> Score:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        hashes = content.pop("protocol_hash"), content.pop("data_hash")
        content["interval"], content["items"] = tuple(content["interval"]), tuple(content["items"])
        score = Score(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} is not a score: {error}; delete it and evaluate again") from None
    if (score.protocol_hash, score.data_hash) != hashes:
        raise DataError(f"{file} was changed by hand: its hashes do not fit; delete it and evaluate again")
    return score
