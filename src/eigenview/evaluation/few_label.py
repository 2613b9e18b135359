"""How far a few labels go: n of each class, drawn many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import check_features, check_labels, check_no_class_is_new, check_same_width, some
from eigenview.evaluation.knn import knn_predict
from eigenview.evaluation.linear import fit_logistic
from eigenview.evaluation.scores import mean_interval


@dataclass(frozen=True)
class FewLabels:
    """Accuracy from ``per_class`` labels of each class: mean over draws with its 95 % interval."""

    per_class: int
    accuracy: float
    interval: tuple[float, float]
    draws: tuple[float, ...]
    items: Tensor  # (n,) how often each test item was right, over draws


def few_label_accuracy(
    train: Tensor,
    train_labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    *,
    per_class: int,
    classifier: Literal["logistic", "nearest"] = "logistic",
    draws: int = 20,
    inverse_penalty: float = 1.0,
    seed: int = 0,
) -> FewLabels:
    """Logistic regression (or the nearest row by cosine) on ``per_class`` rows of each class, drawn by ``seed``.

    The penalty is fixed, because with so few labels there are none to choose it by. The interval is over draws.
    """
    check_features(train, "training features")
    check_features(test, "test features")
    check_same_width(train, test, ("training features", "test features"))
    classes = check_labels(train_labels, len(train), "training labels")
    check_labels(test_labels, len(test), "test labels")
    check_no_class_is_new(train_labels, test_labels)
    if draws < 1 or per_class < 1:
        raise SettingError(f"few labels need at least one draw and one label a class; got {draws} and {per_class}")
    if classifier not in ("logistic", "nearest"):
        raise SettingError(f"the classifier of few labels is logistic or nearest; got {classifier!r}")

    def predicted(chosen: Tensor) -> Tensor:
        rows, labels = train[chosen], train_labels[chosen]
        if classifier == "nearest":
            return knn_predict(rows, labels, test, k=[1])[1]
        return fit_logistic(rows, labels, inverse_penalty=inverse_penalty, classes=classes).predict(test)

    drawn = (draw_labels(train_labels, per_class, seed=seed + draw) for draw in range(draws))
    right = torch.stack([predicted(chosen) == test_labels for chosen in drawn]).double()
    accuracies = right.mean(dim=1).numpy()
    mean, low, high = mean_interval(np.asarray(accuracies))
    return FewLabels(per_class, mean, (low, high), tuple(accuracies.tolist()), right.mean(dim=0))


def draw_labels(labels: Tensor, per_class: int, *, seed: int) -> Tensor:
    """Rows with ``per_class`` of every class, without replacement, in ascending order."""
    present, counts = torch.unique(labels, return_counts=True)
    short = present[counts < per_class]
    if len(short):
        raise DataError(f"{per_class} labels a class were asked for; class {some(short)} has fewer")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    return torch.cat([order[labels[order] == number][:per_class] for number in present]).sort().values
