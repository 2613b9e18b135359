"""Labels as they come in, and what they say about the rest: spread along the graph, learned by a head, smoothed again.

Spreading alone ends at what neighbours know. A linear head on the rows, fitted to the labels that were spread (each
weighed by how clear it is), sees all rows of a class at once and corrects some; a short walk along the graph then
corrects the head where the classes do not lie linearly. It is also what labels pictures that come later.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from eigenview.errors import DataError
from eigenview.evaluation.lbfgs import minimise
from eigenview.labels.graph import ImageGraph
from eigenview.labels.spreading import NO_LABEL, check_few_labels, diffused, resized, shares_of, targets, with_labels

PENALTY = 1e-3  # of the mean loss, for rows of numbers about 1
ITERATIONS, TOLERANCE = 25, 1e-4  # of the head's fit
SMOOTHING, SMOOTHING_STEPS = 0.5, 10  # of the head's answers along the graph
WARM = 12  # iterations where the head only follows one more label


@dataclass(frozen=True)
class Head:
    """Probabilities of the classes for rows of length 1, such as a graph's :class:`Projection` makes."""

    weight: Tensor  # (K, p)
    bias: Tensor  # (K,)

    def probabilities(self, rows: Tensor) -> Tensor:
        """(n, K), rows summing to 1."""
        return torch.addmm(self.bias, rows.to(self.weight.dtype), self.weight.T).softmax(dim=1)


def graph_and_head(graph: ImageGraph, labels: Tensor, *, classes: int, sizes: Tensor | None = None) -> Tensor:
    """Our own best: label spreading, a head fitted to it, and its answers smoothed along the graph.

    ``sizes`` (K,) are the shares of the classes, where they are known.
    """
    return LiveLabels(graph, labels, classes=classes, sizes=sizes).probabilities()


class LiveLabels:
    """The labels so far (n,), −1 for none, and the probabilities of the rest; one more label costs little.

    Spreading is linear in the labels: a label adds one diffused column, and the head goes on from where it was.
    """

    def __init__(self, graph: ImageGraph, labels: Tensor, *, classes: int, sizes: Tensor | None = None) -> None:
        check_few_labels(graph, labels, classes, sizes)
        self.graph, self.classes, self.sizes = graph, classes, sizes
        self.labels = labels.clone()
        self._rows = graph.rows.float() * graph.rows.shape[1] ** 0.5
        self._flow = diffused(graph, targets(labels, classes))
        self._parameters: Tensor | None = None

    def put(self, row: int, label: int) -> None:
        """Label a row, or take its label away by −1."""
        if not (0 <= row < len(self.graph) and NO_LABEL <= label < self.classes):
            raise DataError(f"no row {row} or class {label}: {len(self.graph)} rows, {self.classes} classes")
        before = int(self.labels[row])
        if before == label:
            return
        self.labels[row] = label
        source = targets(torch.full((len(self.graph),), NO_LABEL).index_fill_(0, torch.tensor([row]), 0), 1)
        column = diffused(self.graph, source)[:, 0]
        if before != NO_LABEL:
            self._flow[:, before] = (self._flow[:, before] - column).clip(0)
        if label != NO_LABEL:
            self._flow[:, label] += column

    def probabilities(self) -> Tensor:
        """(n, K), rows summing to 1; labelled rows are certain."""
        check_few_labels(self.graph, self.labels, self.classes, self.sizes)
        answers = with_labels(self.head().probabilities(self.graph.rows), self.labels)
        smooth = diffused(self.graph, answers.numpy(), alpha=SMOOTHING, steps=SMOOTHING_STEPS)
        shares = torch.from_numpy(smooth / smooth.sum(axis=1, keepdims=True))
        return with_labels(shares if self.sizes is None else resized(shares, self.sizes), self.labels)

    def head(self) -> Head:
        """The head of the labels so far."""
        spread = with_labels(shares_of(self._flow, self.sizes), self.labels)
        best = spread.topk(2, dim=1).values
        clear = best[:, 0] - best[:, 1]
        start = self._parameters
        iterations = WARM if start is not None else ITERATIONS
        self._parameters = _fitted(self._rows, spread.argmax(dim=1), clear, self.classes, start, iterations)
        weight, bias = self._parameters[0, : -self.classes], self._parameters[0, -self.classes :]
        return Head(weight.view(self.classes, -1) * self._rows.shape[1] ** 0.5, bias)


@torch.no_grad()
def _fitted(rows: Tensor, labels: Tensor, weights: Tensor, classes: int, start: Tensor | None, most: int) -> Tensor:
    """(1, K·p + K): weights and biases of the logistic regression Σᵢ wᵢ·cross_entropy/Σᵢ wᵢ + penalty/2·‖W‖²."""
    wanted = one_hot(labels, classes).to(rows.dtype)
    share = (weights / weights.sum().clamp_min(torch.finfo(weights.dtype).tiny)).to(rows.dtype)[:, None]

    def objective(_: Tensor, flat: Tensor) -> tuple[Tensor, Tensor]:
        weight, bias = flat[0, :-classes].view(classes, -1), flat[0, -classes:]
        logs = torch.addmm(bias, rows, weight.T).log_softmax(dim=1)
        loss = -(share * wanted * logs).sum(dtype=torch.float64) + PENALTY / 2 * weight.square().sum()
        change = (logs.exp_() - wanted) * share
        slope = torch.cat([(change.T @ rows + PENALTY * weight).flatten(), change.sum(dim=0)])
        return loss[None], slope[None]

    if start is None:
        start = rows.new_zeros(1, classes * (rows.shape[1] + 1))
    return minimise(objective, start, tolerance=TOLERANCE, iterations=most).parameters
