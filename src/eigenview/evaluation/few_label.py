"""How far a few labels go: n of each class, drawn many times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import check_split, some
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


def few_label_accuracy(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    *,
    per_class: int,
    classifier: Classifier = "logistic",
    draws: int = 20,
    inverse_penalty: float = 1.0,
    seed: int = 0,
    advance: Advance | None = None,
) -> FewLabels:
    """Logistic regression (or the nearest row by cosine) on ``per_class`` rows of each class, drawn by ``seed``.

    The penalty is fixed, because with so few labels there are none to choose it by. The interval is over draws.
    ``advance`` hears of every draw that is done.
    """
    check_split(train, train_labels, test, test_labels)
    if draws < 1 or per_class < 1:
        raise SettingError(f"few labels need at least one draw and one label a class; got {draws} and {per_class}")
    if classifier not in ("logistic", "nearest"):
        raise SettingError(f"the classifier of few labels is logistic or nearest; got {classifier!r}")
    chosen = torch.stack([draw_labels(train_labels, per_class, seed=seed + draw) for draw in range(draws)])
    if classifier == "nearest":
        predicted = list(_nearest(train, train_labels, test, chosen, advance))
        unfinished = 0
    else:
        predicted, unfinished = [], 0
        for some_draws in torch.split(chosen, draws_together(chosen.shape[1], train.shape[1])):
            fitted = fit_draws(train, train_labels, some_draws, inverse_penalty=inverse_penalty, advance=advance)
            predicted.append(fitted.predict(test))
            unfinished += int((~fitted.is_converged).sum())
    right = (torch.cat(predicted) == test_labels).double()
    accuracies = right.mean(dim=1).numpy()
    mean, low, high = mean_interval(np.asarray(accuracies))
    return FewLabels(per_class, mean, (low, high), tuple(accuracies.tolist()), right.mean(dim=0), unfinished)


def _nearest(train: Tensor, labels: Tensor, test: Tensor, chosen: Tensor, advance: Advance | None) -> Iterator[Tensor]:
    """(1, n) the class of the nearest row of each draw."""
    for draw in chosen:
        yield knn_predict(train[draw], labels[draw], test, k=[1])[1][None]
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
