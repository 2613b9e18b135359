"""How far a few labels go: n of each class, drawn many times."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import TrainTest, some, working_dtype
from eigenview.evaluation.lbfgs import Advance, minimise
from eigenview.evaluation.linear import ITERATIONS, TOLERANCES
from eigenview.evaluation.scores import mean_interval
from eigenview.evaluation.similarity import knn_predict

SMALL = 1 << 20  # numbers in a draw's rows, up to which double precision costs next to nothing
TOGETHER = 1 << 22  # numbers in the rows of the draws that are fitted together
Classifier = Literal["logistic", "nearest"]


@dataclass(frozen=True)
class DrawnClassifiers:
    """Logits W·x + b of D draws."""

    weight: Tensor  # (D, K, d)
    bias: Tensor  # (D, K)
    classes: Tensor  # (K,) the labels that occur, in ascending order
    is_converged: Tensor  # (D,)

    def predict(self, features: Tensor) -> Tensor:
        """The class of each row by each draw (D, n)."""
        logits = features.to(self.weight.dtype) @ self.weight.flatten(0, 1).T
        best = (logits.view(len(features), len(self.bias), -1) + self.bias).argmax(dim=2)
        return self.classes[best].T


@torch.no_grad()
def fit_draws(
    features: Tensor, labels: Tensor, chosen: Tensor, *, inverse_penalty: float = 1.0, advance: Advance | None = None
) -> DrawnClassifiers:
    """``fit_logistic`` for each draw ``chosen`` (D, N) of rows, in which every class of ``labels`` occurs.

    A draw's rows are turned to the eigenvectors of the smaller of their Gram matrices, so a fit costs N·min(N, d) a
    step however wide the features are, and its Hessian is about diagonal. ``advance`` hears of every draw that is done.
    """
    classes, numbers = torch.unique(labels, return_inverse=True)
    problems = _Draws(features[chosen], numbers[chosen], len(classes), inverse_penalty)
    minimum = minimise(
        problems,
        problems.start(),
        tolerance=TOLERANCES[problems.rows.dtype],
        iterations=ITERATIONS[problems.rows.dtype],
        curvature=problems,
        advance=advance,
    )
    weight, bias = problems.solutions(minimum.parameters)
    return DrawnClassifiers(weight, bias, classes, minimum.is_converged)


class _Draws:
    """The objective of each draw, and its curvature; parameters are K·r weights of the turned rows, then K biases."""

    def __init__(self, given: Tensor, labels: Tensor, classes: int, c: float) -> None:
        count, width = given.shape[1:]
        self.is_tall = count > width
        dtype = torch.float64 if count * min(count, width) <= SMALL else working_dtype(given)
        self.mean = given.mean(dim=1, keepdim=True)
        self.centred, self.given_dtype = given - self.mean, working_dtype(given)
        self.rows, self.turn, self.variance = _turned_rows(self.centred.double(), dtype)
        self.own = torch.nn.functional.one_hot(labels, classes).to(dtype)  # (D, N, K)
        self.classes = classes
        self.penalty = (2.0 if classes == 2 else 1.0) / (c * count)
        self.weight = self.rows.new_full((len(given), 1), (1 - 1 / classes) / classes)

    def start(self) -> Tensor:
        return self.rows.new_zeros(len(self.rows), (self.rows.shape[2] + 1) * self.classes)

    def split(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (p, r, K) and biases (p, 1, K)."""
        weights, biases = flat[:, : -self.classes], flat[:, None, -self.classes :]
        return weights.reshape(len(flat), -1, self.classes), biases

    def __call__(self, problems: Tensor, flat: Tensor) -> tuple[Tensor, Tensor]:
        weights, biases = self.split(flat)
        rows, own = self.rows[problems], self.own[problems]
        chances = torch.baddbmm(biases, rows, weights).log_softmax(dim=2)
        loss = -(chances * own).sum(dim=(1, 2)).double() / rows.shape[1]
        change = (chances.exp() - own) / rows.shape[1]
        slope = rows.mT @ change + self.penalty * weights
        return loss + self.penalty / 2 * weights.square().sum(dim=(1, 2)), self._flat(slope, change.sum(dim=1))

    def renew(self, points: Tensor) -> None:
        """H₀ = w·s² + λ on the turned rows with variances s², w the mean of p·(1 − p) over rows and classes."""
        weights, biases = self.split(points)
        chances = torch.baddbmm(biases, self.rows, weights).softmax(dim=2)
        self.weight = ((1 - chances.square().sum(dim=2)).mean(dim=1, keepdim=True) / self.classes).clamp_min(1e-12)

    def solve(self, problems: Tensor, slopes: Tensor) -> Tensor:
        weights, biases = self.split(slopes)
        weight = self.weight[problems]
        return self._flat(
            weights / (weight * self.variance[problems] + self.penalty)[:, :, None], biases[:, 0] / weight
        )

    def solutions(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (D, K, d) and biases (D, K) for rows as they were given."""
        weights, biases = self.split(flat)
        inner = (self.turn @ weights.double()).to(self.given_dtype)
        given = inner if self.is_tall else self.centred.mT @ inner
        return given.mT, biases[:, 0].to(given) - (self.mean @ given)[:, 0]

    @staticmethod
    def _flat(weights: Tensor, biases: Tensor) -> Tensor:
        return torch.cat([weights.flatten(1), biases], dim=1)


def _turned_rows(centred: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (D, N, r) in their own axes, what turns weights back, and the variance of each axis (D, r), r = min(N, d).

    With N ≤ d the axes are those of the kernel X·Xᵀ = U·S²·Uᵀ: rows U·S, and weights Xᵀ·U·S⁻¹·w, of which U·S⁻¹ is
    given; otherwise those of Xᵀ·X = V·S²·Vᵀ: rows X·V, and V is given.
    """
    count, width = centred.shape[1:]
    if count > width:
        values, axes = torch.linalg.eigh(centred.mT @ centred)
        return (centred @ axes).to(dtype), axes, (values.clamp_min(0) / count).to(dtype)
    values, axes = torch.linalg.eigh(centred @ centred.mT)
    is_real = values > 1e-14 * values[:, -1:]  # the square of what rounding leaves of an axis
    size = torch.where(is_real, values, 0.0).sqrt()[:, None]
    back = axes * torch.where(is_real, values, torch.inf).rsqrt()[:, None]
    return (axes * size).to(dtype), back, (size[:, 0].square() / count).to(dtype)


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
    predicted, given = [], (rows.train, rows.train_labels)
    if classifier == "nearest":
        for draw in chosen:
            predicted.append(knn_predict(rows.train[draw], rows.train_labels[draw], rows.test, k=[1])[1][None])
            if advance is not None:
                advance(1)
    else:
        count = chosen.shape[1]
        for some_draws in torch.split(chosen, max(1, TOGETHER // (count * min(count, rows.train.shape[1])))):
            fitted = fit_draws(*given, some_draws, inverse_penalty=inverse_penalty, advance=advance)
            predicted.append(fitted.predict(rows.test))
            unfinished += int((~fitted.is_converged).sum())
    right = (torch.cat(predicted) == rows.test_labels).double()
    accuracies = right.mean(dim=1).numpy()
    mean, low, high = mean_interval(np.asarray(accuracies))
    return FewLabels(drawn.per_class, mean, (low, high), tuple(accuracies.tolist()), right.mean(dim=0), unfinished)


def draw_labels(labels: Tensor, per_class: int, *, seed: int) -> Tensor:
    """Rows with ``per_class`` of every class, without replacement, in ascending order."""
    present, counts = torch.unique(labels, return_counts=True)
    short = present[counts < per_class]
    if len(short):
        raise DataError(f"{per_class} labels a class were asked for; class {some(short)} has fewer")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    return torch.cat([order[labels[order] == number][:per_class] for number in present]).sort().values
