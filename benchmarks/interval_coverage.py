"""How often a 95 % interval of NMI and ARI holds the truth, and its own value: the bootstrap, and what is used instead.

    python benchmarks/interval_coverage.py                 # about four minutes
    python benchmarks/interval_coverage.py --trials 40     # does it run

Items have one of K labels; their cluster is the label with probability ``agreement``, otherwise any. The truth is the
expected score at that number of items, the mean over 4,000 other draws. Drawing a share of the items without repetition
is tried with nine tenths, which ``subsample_interval`` does, and with half of them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from bars import Bar, finish

from eigenview.evaluation.scores import bootstrap_interval, subsample_interval
from eigenview.evaluation.similarity import normalised_mutual_information
from eigenview.graph.clustering import adjusted_rand_index

Numbers = npt.NDArray[np.int64]
Statistic = Callable[[Numbers], float]
Interval = tuple[float, float]

SETTINGS = [(60, 10, 0.3), (60, 10, 0.6), (60, 10, 0.9), (300, 10, 0.6), (300, 20, 0.6), (2000, 10, 0.6), (60, 3, 0.6)]
MEASURES = {"NMI": normalised_mutual_information, "ARI": adjusted_rand_index}
DRAWS, TRUTH = 200, 4000


def halves(statistic: Statistic, count: int, *, draws: int, seed: int) -> Interval:
    """Half of the items without repetition: the deviation over such draws is that over samples of all of them."""
    random, value = np.random.default_rng(seed), statistic(np.arange(count))
    drawn = [statistic(random.permutation(count)[: count // 2]) for _ in range(draws)]
    reach = 1.96 * float(np.std(drawn, ddof=1)) * math.sqrt((count // 2) / (count - count // 2))
    return value - reach, value + reach


WAYS: dict[str, Callable[..., Interval]] = {
    "bootstrap": bootstrap_interval,
    "nine tenths": subsample_interval,
    "halves": halves,
}


def drawn_table(random: np.random.Generator, count: int, classes: int, agreement: float) -> tuple[Numbers, Numbers]:
    labels = random.integers(classes, size=count)
    return np.where(random.random(count) < agreement, labels, random.integers(classes, size=count)), labels


def statistic_of(groups: Numbers, labels: Numbers, classes: int, measure: str) -> Statistic:
    both = groups * classes + labels

    def statistic(index: Numbers) -> float:
        table = np.bincount(both[index], minlength=classes**2).reshape(classes, classes).astype(np.float64)
        return MEASURES[measure](table)

    return statistic


def coverage(setting: tuple[int, int, float], measure: str, trials: int) -> dict[str, tuple[float, float, float]]:
    """For each way: the share of intervals that hold the truth, that hold their own value, and their mean width."""
    count, classes, _ = setting
    random, everything = np.random.default_rng(0), np.arange(count)
    others = [statistic_of(*drawn_table(random, *setting), classes, measure)(everything) for _ in range(TRUTH)]
    truth = float(np.mean(others))
    rows: dict[str, list[tuple[bool, bool, float]]] = {name: [] for name in WAYS}
    for trial in range(trials):
        statistic = statistic_of(*drawn_table(random, *setting), classes, measure)
        value = statistic(everything)
        for name, way in WAYS.items():
            low, high = way(statistic, count, draws=DRAWS, seed=trial)
            rows[name].append((low <= truth <= high, low <= value <= high, high - low))
    return {name: tuple(np.mean(np.array(row, dtype=float), axis=0).tolist()) for name, row in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--trials", type=int, default=400)
    options = parser.parse_args()
    measured, worst = {}, 1.0
    print("items, groups, agreement: in % the truth held, own value held; mean width")
    for setting in SETTINGS:
        for measure in MEASURES:
            shares = coverage(setting, measure, options.trials)
            cells = ", ".join(f"{name} {100 * a:.1f} {100 * b:.0f} {c:.3f}" for name, (a, b, c) in shares.items())
            print(f"  {setting} {measure}: {cells}", flush=True)
            measured[f"{setting} {measure}"] = shares
            worst = min(worst, shares["nine tenths"][0], shares["nine tenths"][1])
    finish([Bar("worst-coverage-of-subsamples", worst, 0.9, at_most=False)], measured, options.json)


if __name__ == "__main__":
    main()
