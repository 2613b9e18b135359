"""Labels that disagree with the pictures: what neighbours and a head that never saw a row's own label say about it.

For each row two answers are pooled into p(class | picture): the vote of its neighbours by the graph's weights, and
that of a linear head fitted to the other folds. How labels go wrong is estimated from all rows, T = P(given | true): at
first by counting rows that look as a class usually does (confident learning's joint, Northcutt et al. 2021), then by
expectation and maximisation. What a row truly is follows by Bayes, P(true = j | picture, given) ∝ p_j·T_(j → given). So
a label is doubted more where its class looks impossible, and where others often went wrong in the same way.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.evaluation.features import check_labels, check_several_classes
from eigenview.evaluation.lbfgs import minimise
from eigenview.evaluation.linear import stratified_folds
from eigenview.evaluation.logistic import LogisticProblems
from eigenview.labels.graph import ImageGraph
from eigenview.labels.spreading import targets

# Chosen on CIFAR-10, confirmed on STL-10:
HEAD_DIRECTIONS = 512  # columns that the head sees, where there are as many
PENALTY, WHOLE_PENALTY = 0.3, 1200  # of the mean loss, for rows of numbers about 1; and at most so much of the sum
NEIGHBOURS_SHARE, HEAD_SHARE = 0.4, 1.2  # of the pool
ALIKE = 0.1  # share of errors that is taken to be spread over all pairs of classes,
ANYWHERE = 0.005  # and share of all labels that goes wrong in any case
ROUNDS = 3  # of expectation and maximisation
FOLDS = 5  # fewer where a class has fewer labels
TOLERANCE, ITERATIONS = 1e-2, 100  # of the heads' fit: the optimum would move no answer by more than 0.03
LEAST = 1e-3  # what a probability of zero counts as


@dataclass(frozen=True)
class Suspicions:
    """What an audit says about every label."""

    probabilities: Tensor  # (n, K) of what each row truly is, given its picture and its label
    score: Tensor  # (n,) how doubtful the label is: the logarithm of the odds that it is wrong
    probable: Tensor  # (n,) the given class, or where it is flagged the likeliest other
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
    Flagged is what the first estimate of T finds more likely wrong than right; later ones rank better, but are less
    sure of themselves.
    A class with a single label is refused: nothing could be said about it without that label.
    """
    count = check_labels(labels, len(graph), "labels", classes=classes)
    check_several_classes(labels, "labels")
    others = _others_say(graph.rows if rows is None else rows, labels, count, seed)
    answers = _pooled(_neighbours_say(graph, labels, count), others)
    joint = _confident_joint(answers, labels)
    first = truth = _truths(answers, labels, joint)
    for _ in range(ROUNDS):
        truth = _truths(answers, labels, torch.zeros_like(joint).index_add_(0, labels, truth))
    each = torch.arange(len(labels))
    right = truth[each, labels].clamp(1e-9, 1 - 1e-9)
    score = torch.log1p(-right) - right.log()
    is_flagged = first[each, labels] < 0.5
    rest = first.clone()
    rest[each, labels] = -1
    return Suspicions(first, score, torch.where(is_flagged, rest.argmax(dim=1), labels), is_flagged)


def _confident_joint(answers: Tensor, labels: Tensor) -> Tensor:
    """(K, K) given × true: rows by the class, of those that they look like as much as its own usually do, that is best.

    Scaled to the numbers of given labels.
    """
    classes = answers.shape[1]
    own = answers.gather(1, labels[:, None])[:, 0]
    sizes = torch.bincount(labels, minlength=classes).float()
    usual = torch.zeros(classes).index_add_(0, labels, own) / sizes
    is_like = answers >= usual.nan_to_num(torch.inf)
    rows = is_like.any(dim=1).nonzero().flatten()
    likest = answers.masked_fill(~is_like, -1).argmax(dim=1)
    joint = torch.zeros(classes, classes)
    joint.index_put_((labels[rows], likest[rows]), torch.ones(len(rows)), accumulate=True)
    return joint * (sizes / joint.sum(dim=1).clamp_min(1))[:, None]


def _truths(answers: Tensor, labels: Tensor, joint: Tensor) -> Tensor:
    """(n, K) P(true | picture, given) under the errors that a joint (given × true) tells of."""
    classes = len(joint)
    errors = joint - joint.diag().diag()
    even = (ALIKE * errors.sum() + ANYWHERE * len(labels)) / (classes * (classes - 1))
    smooth = (1 - ALIKE) * errors + even * (1 - torch.eye(classes)) + joint.diag().diag()
    given_true = smooth / smooth.sum(dim=0).clamp_min(LEAST)
    truths = answers * given_true[labels] + 1e-12 * answers
    return truths / truths.sum(dim=1, keepdim=True)


def _neighbours_say(graph: ImageGraph, labels: Tensor, classes: int) -> Tensor:
    """Σ_j w_ij·y_j, rows summing to 1; no row has an edge to itself."""
    votes = torch.from_numpy(graph.weights @ targets(labels, classes))
    return (votes + LEAST) / (votes + LEAST).sum(dim=1, keepdim=True)


def _others_say(unit: Tensor, labels: Tensor, classes: int, seed: int) -> Tensor:
    """Of a head that was fitted without the row's fold; all folds go through the rows together."""
    seen, numbers = torch.unique(labels, return_inverse=True)
    folds = max(2, min(FOLDS, int(torch.bincount(numbers).min())))
    fold = stratified_folds(numbers, folds, seed=seed)
    rows = unit.float() * unit.shape[1] ** 0.5
    heads = LogisticProblems(rows, numbers, fold, folds, len(seen), without_all=True)
    heads.penalise(1 / min(PENALTY * len(rows) * (folds - 1) / folds, WHOLE_PENALTY))
    with torch.no_grad():
        fitted = minimise(heads, heads.start(), tolerance=TOLERANCE, iterations=ITERATIONS, curvature=heads.curvature)
    weights, biases = heads.solutions(fitted.parameters)
    answers = torch.full((len(labels), classes), LEAST)
    for number in range(folds):
        inside = (fold == number).nonzero()
        logits = torch.addmm(biases[number], rows[inside[:, 0]], weights[number].T)
        answers[inside, seen] = logits.softmax(dim=1)
    return answers


def _pooled(neighbours: Tensor, head: Tensor) -> Tensor:
    logs = NEIGHBOURS_SHARE * neighbours.clamp_min(LEAST).log() + HEAD_SHARE * head.clamp_min(LEAST).log()
    pooled: Tensor = logs.softmax(dim=1)
    return pooled
