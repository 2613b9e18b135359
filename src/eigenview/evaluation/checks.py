"""What every protocol asks of features and labels, and how it says no."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.errors import DataError, ShapeError

SHOWN = 5  # rows or classes named in a message


def check_features(features: Tensor, name: str) -> None:
    """Refuse anything but finite floating rows (n, d) with n, d >= 1; rows that are not finite are named."""
    if features.ndim != 2 or 0 in features.shape or not features.is_floating_point():
        raise ShapeError(f"{name} must be floating rows (n, d); got {tuple(features.shape)}, {features.dtype}")
    if torch.isfinite(features.sum(dtype=torch.float64)):  # one pass in the usual case; inf and NaN do not cancel
        return
    rows = (~torch.isfinite(features).all(dim=1)).nonzero().flatten()
    if len(rows):
        raise DataError(f"{name} must be finite; {len(rows)} of {len(features)} rows are not: rows {some(rows)}")


def check_labels(labels: Tensor, rows: int, name: str, *, classes: int | None = None) -> int:
    """The number of classes: ``classes`` if given, otherwise the largest label + 1.

    Labels are whole numbers 0 … classes − 1, one a row. −1 (no label) is refused: a protocol measures on labelled data.
    """
    if labels.shape != (rows,) or labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ShapeError(f"{name} must be {rows} whole numbers, one a row; got {tuple(labels.shape)}, {labels.dtype}")
    low, high = int(labels.min()), int(labels.max())
    if low == -1:
        without = int((labels == -1).sum())
        raise DataError(f"{without} of {rows} {name} are -1, which means unlabelled; leave those items out")
    if low < 0 or (classes is not None and high >= classes):
        wanted = f"0 … {classes - 1}" if classes is not None else "0 or more"
        raise DataError(f"{name} must lie in {wanted}; they run from {low} to {high}")
    return classes if classes is not None else high + 1


def check_several_classes(labels: Tensor, name: str) -> None:
    if int(labels.min()) == int(labels.max()):
        raise DataError(f"{name} hold one class only, {int(labels[0])}; a classifier needs at least two")


def check_same_width(a: Tensor, b: Tensor, names: tuple[str, str]) -> None:
    if a.shape[1] != b.shape[1]:
        raise ShapeError(f"{names[0]} and {names[1]} need rows of one width; got {a.shape[1]} and {b.shape[1]}")


def check_no_class_is_new(train: Tensor, test: Tensor) -> None:
    """Refuse test labels that never occur in training: no classifier could get them right."""
    new = torch.unique(test)[~torch.isin(torch.unique(test), torch.unique(train))]
    if len(new):
        what = "classes" if len(new) > 1 else "class"
        raise DataError(f"{what} {some(new)} of the test labels never occur in training; is it the same label order?")


def column_statistics(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of each column and its deviation, infinite where it is constant: standardised, such a column is 0."""
    deviation = rows.std(dim=0)
    return rows.mean(dim=0), torch.where(deviation > 0, deviation, torch.inf)


@dataclass(frozen=True)
class TrainTest:
    """Rows to learn from, of several classes, and others to be tested on, of no new class."""

    train: Tensor  # (n, d)
    train_labels: Tensor  # (n,)
    test: Tensor  # (m, d)
    test_labels: Tensor  # (m,)

    def __post_init__(self) -> None:
        check_features(self.train, "training features")
        check_features(self.test, "test features")
        check_same_width(self.train, self.test, ("training features", "test features"))
        check_labels(self.train_labels, len(self.train), "training labels")
        check_labels(self.test_labels, len(self.test), "test labels")
        check_several_classes(self.train_labels, "training labels")
        check_no_class_is_new(self.train_labels, self.test_labels)

    def standardised(self) -> TrainTest:
        """Both parts with the training columns' mean 0 and deviation 1; constant columns become 0."""
        mean, scale = column_statistics(self.train)
        train, test = ((rows - mean) / scale for rows in (self.train, self.test))
        return TrainTest(train, self.train_labels, test, self.test_labels)


def some(numbers: Tensor) -> str:
    """The first few of some whole numbers, for a message."""
    return ", ".join(str(int(number)) for number in numbers[:SHOWN]) + (", …" if len(numbers) > SHOWN else "")


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """float64 if any of them is, otherwise float32: half precision is for storing."""
    return torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
