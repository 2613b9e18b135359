"""Scores: means with intervals over items, seeds and folds; and side by side, only where it is fair."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.files import JSON
from eigenview.names import printable
from eigenview.runs import RunDirectory, Score

Values = npt.NDArray[np.float64]

DRAWS = 2000  # of the bootstrap
LEVEL = 0.95
START, UNTRAINED, RAW_PIXELS, COLOURS, SUPERVISED = (
    "starting point",
    "untrained",
    "raw pixels",
    "colour statistics",
    "supervised",
)
TRAINING_MEAN = "training mean"  # in the place of depth
COMPARED_WITH = (SUPERVISED, START, UNTRAINED, RAW_PIXELS, COLOURS, TRAINING_MEAN)  # these come last in a table


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


@dataclass(frozen=True)
class Compared:
    """One row of a comparison: a score, and how it differs from the first one on the same items."""

    score: Score
    difference: float
    interval: tuple[float, float] | None  # of the difference; None where there are no items to pair
    p_value: float | None  # two-sided: no difference

    @property
    def chance(self) -> str:
        """``p = 0.012``; empty where nothing was paired."""
        if self.p_value is None:
            return ""
        return "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"


def compare(*scores: Score) -> list[Compared]:
    """Scores of one protocol on the same data, the first one as reference.

    Significance is paired, item by item: McNemar's exact test where items are right or wrong, otherwise a paired
    t-test; the interval of the difference is a bootstrap over items. Different protocols or data are refused.
    """
    if len(scores) < 2:
        raise SettingError(f"a comparison needs at least two scores; got {len(scores)}")
    first = scores[0]
    for other in scores[1:]:
        if other.protocol_hash != first.protocol_hash:
            raise SettingError(
                f"scores of different protocols cannot be compared: {_difference(first, other)}; "
                f"{first.subject} has {first.name} {first.metric}, {other.subject} {other.name} {other.metric}"
            )
        if other.data_hash != first.data_hash or len(other.items) != len(first.items):
            raise SettingError(
                f"scores on different data cannot be compared: {first.subject} and {other.subject} were measured on "
                f"{first.data} and {other.data}"
            )
    return [Compared(first, 0.0, None, None), *(_compared(first, other) for other in scores[1:])]


def _difference(a: Score, b: Score) -> str:
    names = sorted(name for name in {*a.protocol, *b.protocol} if a.protocol.get(name) != b.protocol.get(name))
    said = [f"{name} is {a.protocol.get(name)} and {b.protocol.get(name)}" for name in names]
    return ", ".join(said) or "they measure different things"


def _compared(first: Score, other: Score) -> Compared:
    if not first.items:
        return Compared(other, other.value - first.value, None, None)
    gain = np.array(other.items) - np.array(first.items)
    interval = bootstrap_interval(lambda index: float(gain[index].mean()), len(gain))
    return Compared(other, float(gain.mean()), interval, paired_p_value(np.array(first.items), np.array(other.items)))


def paired_p_value(a: Values, b: Values) -> float:
    """Of no difference between two columns of one value an item: exact for 0/1 (McNemar), otherwise Student's t."""
    from scipy import stats

    if np.array_equal(a, b):
        return 1.0
    if np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all():
        wins, losses = int((b > a).sum()), int((b < a).sum())
        return float(stats.binomtest(wins, wins + losses).pvalue)
    return float(stats.ttest_rel(a, b).pvalue)


def compare_runs(
    runs: Sequence[str | Path], *, supervised: str | Path | None = None, protocols: Sequence[str] | None = None
) -> dict[str, list[Compared]]:
    """Every measurement that at least two subjects share, by title: the first run is the reference.

    Reads ``RUN/evaluation`` of each run, and with it the baselines measured there (untrained, raw pixels, a supervised
    run); of a baseline that several runs have, the first one's counts. ``supervised`` is a run trained on labels: its
    own scores join as the subject "supervised". ``protocols`` keeps only scores whose name begins with one of them.
    Scores of different protocols or data never share a row.
    """
    if not runs:
        raise SettingError("there is no run to compare; give at least one run directory")
    told_apart(runs)
    scores = [score for folder in runs for score in _own(Path(folder))]
    if supervised is not None:
        name = Path(supervised).resolve().name
        own = [score for score in _own(Path(supervised)) if score.subject == name]
        scores += [replace(score, subject=SUPERVISED) for score in own]
    rows: dict[tuple[str, str], dict[str, Score]] = {}
    for score in scores:
        if protocols is None or score.name.startswith(tuple(protocols)):
            rows.setdefault((score.protocol_hash, score.data_hash), {}).setdefault(score.subject, score)
    shared = [sorted(row.values(), key=lambda score: _place(score.subject)) for row in rows.values() if len(row) > 1]
    if not shared:
        raise DataError("no measurement is shared by two of these; evaluate the runs by one protocol on one data set")
    return dict(zip(titles([row[0] for row in shared]), (compare(*row) for row in shared), strict=True))


def told_apart(places: Sequence[str | Path]) -> list[str]:
    """What runs, encoders and files of vectors are called: by their last word, files without its ending.

    Two files of one name go by their paths; two runs of one name are refused.
    """
    paths = [Path(place) for place in places]
    short = [path.stem if path.is_file() else path.resolve().name for path in paths]
    is_shared = [path.is_file() and short.count(name) > 1 for path, name in zip(paths, short, strict=True)]
    names = [printable(path) if is_file else name for path, name, is_file in zip(paths, short, is_shared, strict=True)]
    if len(set(names)) < len(names):
        raise SettingError(f"runs are told apart by their folders' names; got {', '.join(names)}: rename one")
    return names


def _own(folder: Path) -> list[Score]:
    scores = RunDirectory.existing(folder).scores()
    if not scores:
        raise DataError(f"{folder} has no scores; evaluate it first")
    return scores


def comparison_table(rows: Mapping[str, Sequence[Compared]]) -> str:
    """Markdown: one line a subject of every measurement: value, 95 % interval, difference to the first, p-value."""
    lines = ["| measurement | subject | value | difference | p |", "|---|---|---|---|---|"]
    for label, row in rows.items():
        for entry in row:
            between = "" if entry.interval is None else f" [{entry.interval[0]:+.4f}, {entry.interval[1]:+.4f}]"
            chance = "" if entry.p_value is None else f"{entry.p_value:.2g}"
            gain = "| |" if entry is row[0] else f"{entry.difference:+.4f}{between} | {chance} |"
            lines.append(f"| {label} | {entry.score.subject} | {_cell(entry.score)} | {gain}")
    return "\n".join(lines)


def table(scores: Sequence[Score]) -> str:
    """Markdown: a row for each protocol and layer, a column for each subject, values with their 95 % intervals.

    Scores of one row share protocol and data; a subject without one has a dash. Baselines come last.
    """
    subjects, rows = grid(scores)
    lines = [f"| protocol | {' | '.join(subjects)} |", f"|---|{'---|' * len(subjects)}"]
    labels = titles([next(score for score in row if score is not None) for row in rows])
    for label, row in zip(labels, rows, strict=True):
        lines.append(f"| {label} | {' | '.join('–' if score is None else _cell(score) for score in row)} |")
    return "\n".join(lines)


def grid(scores: Sequence[Score]) -> tuple[list[str], list[list[Score | None]]]:
    """The subjects, baselines last, and for each protocol and data a row of their scores, None for those without."""
    subjects = sorted(dict.fromkeys(score.subject for score in scores), key=_place)
    rows = dict.fromkeys((score.protocol_hash, score.data_hash) for score in scores)
    cells = {(score.protocol_hash, score.data_hash, score.subject): score for score in scores}
    return subjects, [[cells.get((*row, subject)) for subject in subjects] for row in rows]


def _place(subject: str) -> int:
    """Where a subject stands in a row: runs first, in the order given (sorting is stable), then the baselines."""
    return COMPARED_WITH.index(subject) if subject in COMPARED_WITH else -1


def titles(scores: Sequence[Score]) -> list[str]:
    """What the rows of a table are called, one a score, no two the same.

    The data set is named where there are several; where that does not tell two rows apart, their hashes do.
    """
    has_several = len({score.data_name for score in scores}) > 1
    labels = [
        f"{score.data_name}: {title(score)}" if has_several and score.data_name else title(score) for score in scores
    ]
    return [
        label if labels.count(label) == 1 else f"{label} [{score.protocol_hash[:4]}, {score.data_hash[:4]}]"
        for label, score in zip(labels, scores, strict=True)
    ]


def title(score: Score) -> str:
    layer = score.protocol.get("layer")
    return f"{score.name}, {score.metric}" + (f" ({layer})" if layer else "")


def _cell(score: Score) -> str:
    low, high = score.interval
    return f"{score.value:.4f} [{low:.4f}, {high:.4f}]"
