"""How far a few labels go: n of each class, drawn many times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import TrainTest, some
from eigenview.evaluation.drawn_fits import draws_together, fit_draws
from eigenview.evaluation.knn import knn_predict
from eigenview.evaluation.lbfgs import Advance
from eigenview.evaluation.scores import mean_interval

Classifier = Literal["logistic", "nearest"]


@dataclass(frozen=True)
class FewLabels:
    """Accuracy from ``per_class`` labels of each class: mean over draws with its 95 % interval."""

    per_class: int
    accuracy: float
    interval: tuple[float, float]
    draws: tuple[float, ...]
    items: Tensor  # (n,) how often each test item was right, over draws
    unfinished: int = 0  # draws whose fit ended by its number of iterations


@dataclass(frozen=True)
class LabelDraws:
    """Labels to learn from: ``per_class`` of each class, drawn ``draws`` times by ``seed``."""

    per_class: int
    draws: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draws < 1 or self.per_class < 1:
            got = f"{self.draws} and {self.per_class}"
            raise SettingError(f"few labels need at least one draw and one label a class; got {got}")

    def of(self, labels: Tensor) -> Tensor:
        """(draws, rows) the rows of each draw, in ascending order."""
        seeds = range(self.seed, self.seed + self.draws)
        return torch.stack([draw_labels(labels, self.per_class, seed=seed) for seed in seeds])


def few_label_accuracy(
    rows: TrainTest,
    drawn: LabelDraws,
    *,
    classifier: Classifier = "logistic",
    inverse_penalty: float = 1.0,
    advance: Advance | None = None,
) -> FewLabels:
    """Logistic regression (or the nearest row by cosine) on the training rows that are ``drawn``.

    The penalty is fixed, because with so few labels there are none to choose it by. The interval is over draws.
    ``advance`` hears of every draw that is done.
    """
    if classifier not in ("logistic", "nearest"):
        raise SettingError(f"the classifier of few labels is logistic or nearest; got {classifier!r}")
    chosen, unfinished = drawn.of(rows.train_labels), 0
    if classifier == "nearest":
        predicted = list(_nearest(rows, chosen, advance))
    else:
        predicted, given = [], (rows.train, rows.train_labels)
        for some_draws in torch.split(chosen, draws_together(chosen.shape[1], rows.train.shape[1])):
            fitted = fit_draws(*given, some_draws, inverse_penalty=inverse_penalty, advance=advance)
            predicted.append(fitted.predict(rows.test))
            unfinished += int((~fitted.is_converged).sum())
    right = (torch.cat(predicted) == rows.test_labels).double()
    accuracies = right.mean(dim=1).numpy()
    mean, low, high = mean_interval(np.asarray(accuracies))
    return FewLabels(drawn.per_class, mean, (low, high), tuple(accuracies.tolist()), right.mean(dim=0), unfinished)


def _nearest(rows: TrainTest, chosen: Tensor, advance: Advance | None) -> Iterator[Tensor]:
    """(1, n) the class of the nearest row of each draw."""
    for draw in chosen:
        yield knn_predict(rows.train[draw], rows.train_labels[draw], rows.test, k=[1])[1][None]
        if advance is not None:
            advance(1)


def draw_labels(labels: Tensor, per_class: int, *, seed: int) -> Tensor:
    """Rows with ``per_class`` of every class, without replacement, in ascending order."""
    present, counts = torch.unique(labels, return_counts=True)
    short = present[counts < per_class]
    if len(short):
        raise DataError(f"{per_class} labels a class were asked for; class {some(short)} has fewer")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    return torch.cat([order[labels[order] == number][:per_class] for number in present]).sort().values
