"""Labels that disagree with the pictures: what neighbours and a head that never saw a row's own label say about it.

For each row two answers are pooled: the vote of its neighbours by the graph's weights, and that of a linear head fitted
to the other folds. A label is suspicious as far as another class is likelier; it is flagged where that class is as
likely as it usually is among its own or more (confident learning's threshold, Northcutt et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.evaluation.checks import check_labels, check_several_classes
from eigenview.evaluation.linear import fit_logistic, stratified_folds
from eigenview.labels.graph import ImageGraph
from eigenview.labels.spreading import targets

HEAD_DIRECTIONS = 512  # columns that the head sees, where there are as many: chosen with the penalty on CIFAR-10
FOLDS = 5  # fewer where a class has fewer labels
PENALTY = 0.3  # of the mean loss, for rows of numbers about 1
LEAST = 1e-3  # what a probability of zero counts as


@dataclass(frozen=True)
class Suspicions:
    """What an audit says about every label."""

    probabilities: Tensor  # (n, K) of the classes, found without the row's own label
    score: Tensor  # (n,) likelier class less the given, −1 … 1: above 0 the label is doubted
    probable: Tensor  # (n,) the likeliest class
    is_flagged: Tensor  # (n,) whether it is probably wrong

    @property
    def ranked(self) -> Tensor:
        """Rows that are flagged, the most suspicious first."""
        rows = self.is_flagged.nonzero().flatten()
        return rows[self.score[rows].argsort(descending=True)]


def audit_labels(
    graph: ImageGraph, labels: Tensor, *, rows: Tensor | None = None, classes: int | None = None, seed: int = 0
) -> Suspicions:
    """Which of the ``labels`` (n,), one a row, are probably wrong, and what they probably are.

    ``rows`` (n, p) of length 1 are what the head sees, those of the graph unless given: more columns tell more.
    A class with a single label is refused: nothing could be said about it without that label.
    """
    count = check_labels(labels, len(graph), "labels", classes=classes)
    check_several_classes(labels, "labels")
    answers = _pooled(
        _neighbours_say(graph, labels, count), _others_say(graph.rows if rows is None else rows, labels, count, seed)
    )
    each = torch.arange(len(labels))
    given = answers[each, labels]
    rest = answers.clone()
    rest[each, labels] = -1
    rival = rest.argmax(dim=1)
    score = rest[each, rival] - given
    usual = torch.stack([answers[labels == number, number].mean() for number in range(count)]).nan_to_num(1.0)
    is_flagged = (score > 0) & (rest[each, rival] >= usual[rival])
    return Suspicions(answers, score, torch.where(score > 0, rival, labels), is_flagged)


def _neighbours_say(graph: ImageGraph, labels: Tensor, classes: int) -> Tensor:
    """Σ_j w_ij·y_j, rows summing to 1; no row has an edge to itself."""
    votes = torch.from_numpy(graph.weights @ targets(labels, classes))
    return (votes + LEAST) / (votes + LEAST).sum(dim=1, keepdim=True)


def _others_say(unit: Tensor, labels: Tensor, classes: int, seed: int) -> Tensor:
    """Of a head that was fitted without the row's fold."""
    rarest = int(torch.bincount(labels)[torch.unique(labels)].min())
    folds = max(2, min(FOLDS, rarest))
    fold = stratified_folds(labels, folds, seed=seed)
    rows = unit.float() * unit.shape[1] ** 0.5
    answers = torch.empty(len(labels), classes)
    for number in range(folds):
        inside = fold == number
        seen, numbers = torch.unique(labels[~inside], return_inverse=True)
        head = fit_logistic(rows[~inside], numbers, inverse_penalty=1 / (PENALTY * len(numbers)))
        answers[inside] = LEAST
        answers[inside.nonzero(), seen] = head.logits(rows[inside]).softmax(dim=1)
    return answers


def _pooled(first: Tensor, second: Tensor) -> Tensor:
    pooled: Tensor = ((first.clamp_min(LEAST).log() + second.clamp_min(LEAST).log()) / 2).softmax(dim=1)
    return pooled
