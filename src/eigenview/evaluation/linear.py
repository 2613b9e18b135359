"""Multinomial logistic regression on features: full batch, all folds at once, along a path of penalties."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import (
    check_features,
    check_labels,
    check_same_width,
    check_several_classes,
    some,
)
from eigenview.evaluation.lbfgs import Advance, Minimum, minimise
from eigenview.evaluation.logistic import LogisticProblems

INVERSE_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
# √(gᵀ·H⁻¹·g): half its square is about the excess over the minimum. Folds only choose, the last fit is kept.
PATH_TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-6}
TOLERANCES = {torch.float32: 3e-4, torch.float64: 1e-6}
ITERATIONS = {torch.float32: 300, torch.float64: 1000}  # of one penalty; where they run out, the classifier says so
WIDE_ITERATIONS = 100  # in float32 where the Hessian is only sampled: each takes seconds, and weak penalties hundreds


@dataclass(frozen=True)
class LinearClassifier:
    """Logits W·x + b."""

    weight: Tensor  # (K, d)
    bias: Tensor  # (K,)
    is_converged: bool = True  # False: the fit ended by its number of iterations, short of the optimum

    def logits(self, features: Tensor) -> Tensor:
        check_features(features, "features")
        check_same_width(features, self.weight, ("features", "the classifier"))
        return features.to(self.weight.dtype) @ self.weight.T + self.bias

    def predict(self, features: Tensor) -> Tensor:
        """The class of each row (n,)."""
        return self.logits(features).argmax(dim=1)


@dataclass(frozen=True)
class Selection:
    """The classifier of the penalty that cross-validation chose."""

    classifier: LinearClassifier  # fitted to all training rows
    inverse_penalty: float
    inverse_penalties: tuple[float, ...]
    fold_accuracy: Tensor  # (penalties, folds), each on the rows the fold held out
    iterations: int
    unfinished: int = 0  # fits of the path that ended by their number of iterations


def fit_logistic(
    features: Tensor,
    labels: Tensor,
    *,
    inverse_penalty: float = 1.0,
    classes: int | None = None,
    advance: Advance | None = None,
) -> LinearClassifier:
    """argmin_{W,b} Σᵢ cross_entropy(W·xᵢ + b, yᵢ) + ‖W‖²/(2·C) with C = ``inverse_penalty``: scikit-learn's optimum.

    The bias is free. With two classes the penalty is ‖W‖²/C, because scikit-learn then has one weight vector, the
    difference of ours. ``features`` (n, d) as they are: centre or scale them before, if the protocol says so.
    ``advance`` is called with 1 when it is done.
    """
    fold = torch.zeros(len(labels), dtype=torch.long)
    problems = _problems(features, labels, fold, 0, (inverse_penalty,), classes)
    minimum = _minimum(problems, inverse_penalty, problems.start(), TOLERANCES, advance)
    return _classifier(problems, minimum)


def select_logistic(
    features: Tensor,
    labels: Tensor,
    *,
    inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
    folds: int | Tensor = 5,
    seed: int = 0,
    classes: int | None = None,
    advance: Advance | None = None,
) -> Selection:
    """The penalty with the highest mean accuracy on held-out folds (the stronger of equals), fitted to all rows.

    Folds are stratified and drawn by ``seed``, or given: ``folds`` (n,) says which fold holds each row out. All folds
    and the fit to all rows go through the data together, from the strongest penalty to the weakest, each starting
    where the last one ended. ``advance`` hears of every fit that is done: penalties × (folds + 1) in all.
    """
    check_labels(labels, len(features), "labels", classes=classes)
    given = folds if isinstance(folds, Tensor) else stratified_folds(labels, folds, seed=seed)
    count = int(given.max()) + 1
    if given.shape != labels.shape or int(given.min()) < 0 or count < 2:
        raise SettingError("folds must say for each row which of at least two folds holds it out")
    if not inverse_penalties:
        raise SettingError("inverse_penalties must hold at least one value; got none")
    ordered = tuple(sorted(set(inverse_penalties)))
    problems = _problems(features, labels, given, count, ordered, classes)
    path: list[Minimum] = []
    for c in ordered:
        start = path[-1].parameters if path else problems.start()
        path.append(_minimum(problems, c, start, PATH_TOLERANCES, advance))
    held_out = []  # each fold's rows by the classifiers that were fitted without them
    for number in range(count):
        weights, biases = problems.solutions(torch.stack([minimum.parameters[number] for minimum in path]))
        rows, wanted = features[given == number].to(weights.dtype), labels[given == number]
        logits = (rows @ weights.flatten(0, 1).T).view(len(rows), len(path), -1) + biases
        held_out.append((logits.argmax(dim=2) == wanted[:, None]).double().mean(dim=0))
    accuracy = torch.stack(held_out, dim=1)  # (penalties, folds)
    best = int(accuracy.mean(dim=1).argmax())  # the first of equals: the strongest penalty
    last = problems.all_rows()
    chosen = _minimum(last, ordered[best], path[best].parameters[-1:], TOLERANCES, None)
    iterations = sum(minimum.iterations for minimum in (*path, chosen))
    unfinished = sum(int((~minimum.is_converged).sum()) for minimum in path)
    return Selection(_classifier(last, chosen), ordered[best], ordered, accuracy, iterations, unfinished)


def stratified_folds(labels: Tensor, folds: int, *, seed: int = 0) -> Tensor:
    """(n,) fold numbers: each class is dealt out evenly, in an order drawn by ``seed``."""
    if folds < 2:
        raise SettingError(f"cross-validation needs at least 2 folds; got {folds}")
    smallest = labels.bincount()
    rare = ((smallest > 0) & (smallest < folds)).nonzero().flatten()
    if len(rare):
        raise DataError(
            f"{folds} folds need {folds} rows of every class; class {some(rare)} has fewer: use fewer folds"
        )
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(labels.device)
    by_class = order[labels[order].argsort(stable=True)]
    fold = torch.empty_like(labels, dtype=torch.long)
    fold[by_class] = torch.arange(len(labels), device=labels.device) % folds
    return fold


@dataclass(frozen=True)
class EncoderChoice:
    """The encoder with the highest mean accuracy on held-out training rows, as Wang & Isola (2020) choose it."""

    name: str
    accuracy: dict[str, float]  # of each encoder, the mean over folds at its best penalty


def choose_encoder(
    features: Mapping[str, Tensor],
    labels: Tensor,
    *,
    folds: int = 5,
    inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
    seed: int = 0,
) -> EncoderChoice:
    """The best of several encoders by their *training* features (n, d each), all on the same folds.

    The first of equals wins. An encoder's figure is optimistic, being the best of its penalties: it is for choosing;
    what is reported is the test score of the chosen one.
    """
    if not features:
        raise SettingError("there is no encoder to choose from; give features by encoder's name")
    fold = stratified_folds(labels, folds, seed=seed)
    accuracy = {}
    for name, rows in features.items():
        selection = select_logistic(rows, labels, inverse_penalties=inverse_penalties, folds=fold)
        accuracy[name] = float(selection.fold_accuracy.mean(dim=1).max())
    return EncoderChoice(max(accuracy, key=lambda name: accuracy[name]), accuracy)


def _problems(
    features: Tensor, labels: Tensor, fold: Tensor, folds: int, inverse_penalties: Sequence[float], classes: int | None
) -> LogisticProblems:
    check_features(features, "features")
    count = check_labels(labels, len(features), "labels", classes=classes)
    check_several_classes(labels, "labels")
    for c in inverse_penalties:
        if not 0 < c < math.inf:
            raise SettingError(f"an inverse penalty must be positive and finite; got {c}")
    return LogisticProblems(features, labels, fold, folds, count)


@torch.no_grad()
def _minimum(
    problems: LogisticProblems,
    c: float,
    start: Tensor,
    tolerances: dict[torch.dtype, float],
    advance: Advance | None,
) -> Minimum:
    problems.penalise(c)
    is_long = problems.is_wide and start.dtype == torch.float32
    return minimise(
        problems,
        start,
        tolerance=tolerances[start.dtype],
        iterations=WIDE_ITERATIONS if is_long else ITERATIONS[start.dtype],
        curvature=problems.curvature,
        advance=advance,
    )


def _classifier(problems: LogisticProblems, minimum: Minimum) -> LinearClassifier:
    """Of the last problem, that of all rows."""
    weights, biases = problems.solutions(minimum.parameters[-1:])
    return LinearClassifier(weights[0], biases[0], bool(minimum.is_converged[-1]))
