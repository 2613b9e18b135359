"""Multinomial logistic regression on features: full batch, all folds at once, along a path of penalties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import (
    check_features,
    check_labels,
    check_same_width,
    check_several_classes,
    some,
    working_dtype,
)
from eigenview.evaluation.lbfgs import minimise

INVERSE_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
ROWS = 2048  # at a time: their logits and gradients stay in cache
TOLERANCES = {torch.float32: 3e-4, torch.float64: 1e-6}  # norm of the whitened gradient: half its square is the excess
PER_WHITENING, WHITENINGS = 25, 40  # iterations between whitenings, and at most so many of those


@dataclass(frozen=True)
class LinearClassifier:
    """Logits W·x + b."""

    weight: Tensor  # (K, d)
    bias: Tensor  # (K,)

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


def fit_logistic(
    features: Tensor, labels: Tensor, *, inverse_penalty: float = 1.0, classes: int | None = None
) -> LinearClassifier:
    """argmin_{W,b} Σᵢ cross_entropy(W·xᵢ + b, yᵢ) + ‖W‖²/(2·C) with C = ``inverse_penalty``: scikit-learn's optimum.

    The bias is free. With two classes the penalty is ‖W‖²/C, because scikit-learn then has one weight vector, the
    difference of ours. ``features`` (n, d) as they are: centre or scale them before, if the protocol says so.
    """
    path = _path(features, labels, torch.zeros(len(labels), dtype=torch.long), 0, (inverse_penalty,), classes)
    return path.classifiers[0][-1]


def select_logistic(
    features: Tensor,
    labels: Tensor,
    *,
    inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
    folds: int = 5,
    seed: int = 0,
    fold: Tensor | None = None,
    classes: int | None = None,
) -> Selection:
    """The penalty with the highest mean accuracy on held-out folds (the stronger of equals), fitted to all rows.

    Folds are stratified and drawn by ``seed``, or given: ``fold`` (n,) says which fold holds each row out. All folds
    and the fit to all rows go through the data together, from the strongest penalty to the weakest, each starting
    where the last one ended.
    """
    check_labels(labels, len(features), "labels", classes=classes)
    given = stratified_folds(labels, folds, seed=seed) if fold is None else fold
    count = int(given.max()) + 1
    if given.shape != labels.shape or int(given.min()) < 0 or count < 2:
        raise SettingError("fold must say for each row which of at least two folds holds it out")
    if not inverse_penalties:
        raise SettingError("inverse_penalties must hold at least one value; got none")
    ordered = tuple(sorted(set(inverse_penalties)))
    path = _path(features, labels, given, count, ordered, classes)
    accuracy = torch.stack(
        [
            torch.stack([_held_out_accuracy(found[k], features, labels, given == k) for k in range(count)])
            for found in path.classifiers
        ]
    )
    best = int(accuracy.mean(dim=1).argmax())  # the first of equals: the strongest penalty
    return Selection(path.classifiers[best][-1], ordered[best], ordered, accuracy, path.iterations)


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
class _Path:
    classifiers: list[list[LinearClassifier]]  # by penalty, then by fold, the fit to all rows last
    iterations: int


@torch.no_grad()
def _path(
    features: Tensor, labels: Tensor, fold: Tensor, folds: int, inverse_penalties: Sequence[float], classes: int | None
) -> _Path:
    check_features(features, "features")
    count = check_labels(labels, len(features), "labels", classes=classes)
    check_several_classes(labels, "labels")
    for c in inverse_penalties:
        if not 0 < c < math.inf:
            raise SettingError(f"an inverse penalty must be positive and finite; got {c}")
    problems = _Problems(features, labels, fold, folds, count)
    flat = problems.rows.new_zeros(folds + 1, (problems.rows.shape[1] + 1) * count)
    found, done = [], 0
    for c in inverse_penalties:
        flat, took = _solved(problems, flat, c)
        done += took
        found.append(problems.classifiers(flat))
    return _Path(found, done)


def _solved(problems: _Problems, flat: Tensor, c: float) -> tuple[Tensor, int]:
    """The optimum at C = ``c`` from ``flat``, whitened anew every few iterations, as the Hessian changes."""
    tolerance, done = TOLERANCES[flat.dtype], 0
    for _ in range(WHITENINGS):
        problems.penalise(c, flat)
        minimum = minimise(problems, problems.whiten(flat), tolerance=tolerance, iterations=PER_WHITENING)
        flat, done = problems.unwhiten(minimum.parameters), done + minimum.iterations
        if minimum.iterations < PER_WHITENING:
            break
    return flat, done


class _Problems:
    """One logistic regression for each fold (without its rows) and one for all rows, in whitened coordinates.

    The Hessian of the mean loss has K × K blocks; the mean of its diagonal ones is H = Σᵢ wᵢ xᵢxᵢᵀ/n + λ with
    wᵢ = (1 − Σₖ pᵢₖ²)/K. With H = L·Lᵀ, in the coordinates Lᵀ·W it is about the identity, and the optimum is the same.
    Parameters are (d + 1, K), the bias last, which is that of centred rows. With fewer rows than columns, W lies in the
    rows' span, and is sought there.
    """

    def __init__(self, features: Tensor, labels: Tensor, fold: Tensor, folds: int, classes: int) -> None:
        dtype = working_dtype(features)
        given = features.detach().to(dtype)
        self.classes, self.labels = classes, labels.long()
        self.mean = given.mean(dim=0)
        self.rows = given - self.mean
        self.basis: Tensor | None = None
        if len(given) < given.shape[1]:
            self.basis = torch.linalg.qr(self.rows.T).Q  # (d, n)
            self.rows = self.rows @ self.basis
        own = torch.arange(folds + 1, device=fold.device)
        part = (fold[:, None].to(own) != own).to(dtype)
        part[:, -1] = 1
        self.sizes = part.sum(dim=0).to(features.device)
        self.share = part.to(features.device) / self.sizes  # (n, P), what each row's loss counts in each problem
        self._check_folds(fold, folds)

    def penalise(self, c: float, flat: Tensor) -> None:
        """Set the penalty, and whiten by the Hessian that all rows have at ``flat``."""
        factor = 2.0 if self.classes == 2 else 1.0
        self.penalty = factor / (c * self.sizes)  # of the mean loss: penalty/2·‖W‖²
        solution = flat[-1].view(-1, self.classes)
        hessian = torch.zeros(solution.shape[0] - 1, solution.shape[0] - 1, dtype=flat.dtype, device=flat.device)
        total = flat.new_zeros(())
        for start in range(0, len(self.rows), ROWS):
            rows = self.rows[start : start + ROWS]
            chance = torch.addmm(solution[-1], rows, solution[:-1]).softmax(dim=1)
            weight = (1 - chance.square().sum(dim=1)) / self.classes
            hessian.addmm_(rows.T, rows * weight[:, None])
            total += weight.sum()
        whole = (hessian / len(self.rows)).double()
        rounding = 10 * torch.finfo(flat.dtype).eps * float(whole.trace())  # keeps what is singular positive
        whole.diagonal().add_(float(self.penalty[-1]) + rounding)
        root = torch.linalg.cholesky(whole)
        identity = torch.eye(len(root), dtype=root.dtype, device=root.device)
        self.root = root.to(flat.dtype)
        self.inverse_root = torch.linalg.solve_triangular(root, identity, upper=False).to(flat.dtype)
        self.bias_root = (total / len(self.rows)).clamp_min(1e-6).sqrt()

    def whiten(self, flat: Tensor) -> Tensor:
        return self._turned(flat, self.root.T, self.bias_root)

    def unwhiten(self, flat: Tensor) -> Tensor:
        return self._turned(flat, self.inverse_root.T, 1 / self.bias_root)

    def _turned(self, flat: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
        solution = flat.view(len(flat), -1, self.classes)
        return torch.cat([matrix @ solution[:, :-1], bias * solution[:, -1:]], dim=1).view(len(flat), -1)

    def __call__(self, problems: Tensor, whitened: Tensor) -> tuple[Tensor, Tensor]:
        """Mean losses with penalty (p,), and their gradients in whitened coordinates."""
        solution = self.unwhiten(whitened).view(len(problems), -1, self.classes)
        weight = solution[:, :-1].mT.reshape(-1, self.rows.shape[1])  # (p·K, d)
        bias = solution[:, -1].reshape(-1, 1)
        slope, bias_slope = torch.zeros_like(weight), torch.zeros_like(bias[:, 0])
        loss = whitened.new_zeros(len(problems), dtype=torch.float64)
        shares = self.share[:, problems].T
        for start in range(0, len(self.rows), ROWS):
            rows, share = self.rows[start : start + ROWS], shares[:, None, start : start + ROWS]
            own = self.labels[start : start + ROWS].expand(len(problems), 1, -1)
            # (p, K, rows): sums over classes run along rows that lie side by side in memory
            logits = torch.addmm(bias, weight, rows.T).view(len(problems), self.classes, -1)
            logits -= logits.amax(dim=1, keepdim=True)
            picked = logits.gather(1, own)
            total = logits.exp_().sum(dim=1, keepdim=True)
            loss += ((total.log() - picked) * share).sum(dim=(1, 2), dtype=torch.float64)
            change = logits.mul_(share / total).scatter_add_(1, own, -share).view(len(weight), -1)
            slope.addmm_(change, rows)
            bias_slope += change.sum(dim=1)
        penalty = self.penalty[problems]
        loss += penalty / 2 * solution[:, :-1].square().sum(dim=(1, 2))
        slopes = torch.empty_like(solution)
        slopes[:, :-1] = slope.view(len(problems), self.classes, -1).mT + penalty[:, None, None] * solution[:, :-1]
        slopes[:, -1] = bias_slope.view(len(problems), self.classes)
        return loss, self._turned(slopes.view(len(problems), -1), self.inverse_root, 1 / self.bias_root)

    def classifiers(self, flat: Tensor) -> list[LinearClassifier]:
        found = []
        for solution in flat.view(len(flat), -1, self.classes):
            inside = solution[:-1] if self.basis is None else self.basis @ solution[:-1]
            weight = inside.T.contiguous()
            found.append(LinearClassifier(weight, solution[-1] - weight @ self.mean))
        return found

    def _check_folds(self, fold: Tensor, folds: int) -> None:
        """Every class must occur in every problem: without rows, its bias would run to minus infinity."""
        for number in (-1, *range(folds)):
            counts = self.labels[(fold != number).to(self.labels.device)].bincount(minlength=self.classes)
            gone = (counts == 0).nonzero().flatten()
            if len(gone):
                where = f"training without fold {number}; use stratified folds" if number >= 0 else "training"
                raise DataError(f"class {some(gone)} is missing in {where}")


def _held_out_accuracy(classifier: LinearClassifier, features: Tensor, labels: Tensor, held_out: Tensor) -> Tensor:
    return (classifier.predict(features[held_out]) == labels[held_out]).double().mean()
