"""Labels as they come in, and what they say about the rest: spread along the graph, learned by a head, smoothed again.

Spreading alone ends at what neighbours know. A linear head on the rows, fitted to the labels that were spread (each
weighed by how clear it is), sees all rows of a class at once and corrects some; a short walk along the graph then
corrects the head where the classes do not lie linearly. It is also what labels pictures that come later.

How sure to be: the head is too sure where classes overlap, spreading is never sure. Probabilities are their pool,
∝ (head^0.5 · spread^s)^(1/T) with T = 1 + classes/labels and s = 19·n^(−1/5): among more rows a label lies more steps
away, which makes what was spread steeper, but no truer. The numbers were chosen on CIFAR-10 (up to 10,000 rows) and
digits, with features that know the classes.

How sure the pool is on average follows from the given labels alone. Where the head answers as spreading does, it is as
sure as it was made to be. Where the two part, the features know little of the classes, and the pool is far too sure.
Then it is made as sure as spreading alone, which never is sure, until labels tell more: of each that has a fellow in
its class, what the others would have said is held against what it is. More labels find more rows to part on, so less
agreement will do. The numbers were chosen on STL-10, the pixels of CIFAR-10, and all 50,000 of its images by
EfficientNet-lite0 and by a short run of our own.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from eigenview.errors import DataError
from eigenview.evaluation.lbfgs import minimise
from eigenview.labels.graph import ImageGraph
from eigenview.labels.spreading import NO_LABEL, check_few_labels, diffused, resized, shares_of, targets, with_labels

LEAST_AGREEMENT, FOR_FEW, MOST_FEW = 0.8, 0.2, 0.45  # of the rows, for many labels; more by classes/labels, up to 0.45
EITHER_SIDE = 0.01  # of that agreement: within it the pool is believed in part
CAUTION = 30.0  # labels that the sureness of spreading counts for
JUDGED = 100  # labels held against the others, at most
COLDEST, HOTTEST = 0.05, 20.0  # temperatures that are looked for
PENALTY = 1e-3  # of the mean loss, for rows of numbers about 1
FITTED = 10_000  # rows, evenly taken from more, that the head is fitted to
ITERATIONS, TOLERANCE = 25, 1e-4  # of the head's fit
SMOOTHING, SMOOTHING_STEPS = 0.5, 10  # of the head's answers along the graph
HEAD_SHARE, SPREAD_SHARE, FLATTENING, DOUBT = 0.5, 19.0, 0.2, 1.0  # of the pool, see above
IMPOSSIBLE = 1e-9  # what a probability of zero counts as in the pool
WARM = 12  # iterations where the head only follows one more label
AT_ONCE = 20  # labels whose columns are diffused together

Array = NDArray[np.float32]


def belief(agreement: float, classes: int, labels: int) -> float:
    """0 to 1: how far the pool is believed where head and spreading say the same of this share of rows."""
    middle = LEAST_AGREEMENT + FOR_FEW * min(MOST_FEW, classes / labels)
    return min(1.0, max(0.0, (agreement - middle + EITHER_SIDE) / (2 * EITHER_SIDE)))


def cautious_sureness(spread: float, hits: int, judged: int) -> float:
    """The mean probability of what is said, by that of spreading and by the ``hits`` of ``judged`` labels."""
    return (CAUTION * spread + hits) / (CAUTION + judged)


def foretold(flow: Array, total: Array, numbers: Array, echo: Array, mass: Array) -> tuple[int, int]:
    """(labels that spreading from the others says right, labels asked about): those with a fellow in their class.

    Of m labels: ``flow`` (m, K) is what all labels spread to them, ``numbers`` (m,) their classes, ``echo`` (m,) what
    each spread to itself, ``mass`` (m,) what it spread to all rows; ``total`` (K,) is that of all labels of a class.
    """
    places = np.arange(len(numbers))
    others, sums = flow.copy(), np.repeat(total[None], len(numbers), axis=0)
    others[places, numbers] -= echo
    sums[places, numbers] -= mass
    has_fellow = sums[places, numbers] > 1e-3 * mass
    said = np.where(sums > 0, others / np.where(sums > 0, sums, 1), 0)
    is_hit = (said.argmax(axis=1) == numbers) & (said.max(axis=1) > 0) & has_fellow
    return int(is_hit.sum()), int(has_fellow.sum())


def temperature(logits: Tensor, wanted: float) -> float:
    """That at which the largest probability of the rows of ``logits`` (n, K) is ``wanted`` on average."""
    low, high = COLDEST, HOTTEST
    while high / low > 1.01:  # the hotter, the less sure
        middle = (low * high) ** 0.5
        is_too_sure = float((logits / middle).softmax(dim=1).amax(dim=1).mean()) > wanted
        low, high = (middle, high) if is_too_sure else (low, middle)
    return high


def asked_about(rows: Tensor, images: int) -> list[int]:
    """At most :data:`JUDGED` of the labelled ``rows``, by an order of all ``images`` that labels do not change."""
    place = torch.randperm(images, generator=torch.Generator().manual_seed(0))
    return rows[place[rows].argsort()[:JUDGED]].sort().values.tolist()


@dataclass(frozen=True)
class Head:
    """Probabilities of the classes for rows of length 1, such as a graph's :class:`Projection` makes."""

    weight: Tensor  # (K, p)
    bias: Tensor  # (K,)

    def logits(self, rows: Tensor) -> Tensor:
        """(n, K)"""
        return torch.addmm(self.bias, rows.to(self.weight.dtype), self.weight.T)

    def probabilities(self, rows: Tensor) -> Tensor:
        """(n, K), rows summing to 1."""
        return self.logits(rows).softmax(dim=1)


def graph_and_head(graph: ImageGraph, labels: Tensor, *, classes: int, sizes: Tensor | None = None) -> Tensor:
    """Our own best: label spreading, a head fitted to it and smoothed along the graph, and their pool.

    ``sizes`` (K,) are the shares of the classes, where they are known: both the spreading and the pool are scaled until
    they have them. Without, only columns of the spreading are normalised, once: equal sizes are not the same as none.
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
        self._fitted_to = torch.arange(0, len(graph), -(-len(graph) // FITTED))
        self._rows = graph.rows[self._fitted_to].float() * graph.rows.shape[1] ** 0.5
        self._flow = diffused(graph, targets(labels, classes))
        self._parameters: Tensor | None = None
        self._echoes: dict[int, tuple[float, float]] = {}  # of a label: what it spreads to its own row, and to all

    def put(self, row: int, label: int) -> None:
        """Label a row, or take its label away by −1."""
        if not (0 <= row < len(self.graph) and NO_LABEL <= label < self.classes):
            raise DataError(f"no row {row} or class {label}: {len(self.graph)} rows, {self.classes} classes")
        before = int(self.labels[row])
        if before == label:
            return
        self.labels[row] = label
        source = np.zeros(len(self.graph), dtype=np.float32)
        source[row] = 1
        column = diffused(self.graph, source)
        self._echoes[row] = float(column[row]), float(column.sum())
        if before != NO_LABEL:
            self._flow[:, before] = (self._flow[:, before] - column).clip(0)
        if label != NO_LABEL:
            self._flow[:, label] += column

    def probabilities(self) -> Tensor:
        """(n, K), rows summing to 1; labelled rows are certain."""
        return self._answers()[0]

    def head(self) -> Head:
        """What labels pictures that come later: on the rows at hand, as sure on average as :meth:`probabilities`."""
        answers, head = self._answers()
        hot = temperature(head.logits(self.graph.rows), float(answers.amax(dim=1).mean()))
        return Head(head.weight / hot, head.bias / hot)

    def _answers(self) -> tuple[Tensor, Head]:
        """The probabilities, and the head behind them as it was fitted."""
        check_few_labels(self.graph, self.labels, self.classes, self.sizes)
        spread = with_labels(shares_of(self._flow, self.sizes), self.labels)
        head = self._fitted_head(spread)
        answers = with_labels(head.probabilities(self.graph.rows), self.labels)
        smooth = diffused(self.graph, answers.numpy(), alpha=SMOOTHING, steps=SMOOTHING_STEPS)
        shares = torch.from_numpy(smooth / smooth.sum(axis=1, keepdims=True))
        steepness = SPREAD_SHARE * len(self.graph) ** -FLATTENING
        pool = HEAD_SHARE * shares.clamp_min(IMPOSSIBLE).log() + steepness * spread.clamp_min(IMPOSSIBLE).log()
        known = self.labels[self.labels != NO_LABEL]
        seen = torch.unique(known)
        logits = torch.full_like(pool, -torch.inf)  # a class without a label is never answered, however unsure
        logits[:, seen] = pool[:, seen] / (1 + DOUBT * len(seen) / len(known))
        pooled = (logits / self._doubt(logits, shares, spread)).softmax(dim=1)
        return with_labels(pooled if self.sizes is None else resized(pooled, self.sizes), self.labels), head

    def _doubt(self, logits: Tensor, shares: Tensor, spread: Tensor) -> float:
        """The temperature that makes the pool as sure as it may be: 1 where head and spreading say the same."""
        rows = self._fitted_to[self.labels[self._fitted_to] == NO_LABEL]
        agreement = float((shares[rows].argmax(dim=1) == spread[rows].argmax(dim=1)).double().mean())
        known = self.labels[self.labels != NO_LABEL]
        share = belief(agreement, len(torch.unique(known)), len(known))
        if share == 1 or len(rows) == 0:
            return 1.0
        pooled, plain = (float(said.amax(dim=1).mean()) for said in (logits[rows].softmax(dim=1), spread[rows]))
        cautious = cautious_sureness(plain, *self._foretold())
        return temperature(logits[rows], share * pooled + (1 - share) * cautious)

    def _foretold(self) -> tuple[int, int]:
        rows = asked_about((self.labels != NO_LABEL).nonzero().flatten(), len(self.graph))
        unheard = [row for row in rows if row not in self._echoes]
        for start in range(0, len(unheard), AT_ONCE):
            some = unheard[start : start + AT_ONCE]
            sources = np.zeros((len(self.graph), len(some)), dtype=np.float32)
            sources[some, np.arange(len(some))] = 1
            columns = diffused(self.graph, sources)
            self._echoes |= {row: (float(columns[row, at]), float(columns[:, at].sum())) for at, row in enumerate(some)}
        echo, mass = np.array([self._echoes[row] for row in rows], dtype=np.float32).T
        return foretold(self._flow[rows], self._flow.sum(axis=0), self.labels[rows].numpy(), echo, mass)

    def _fitted_head(self, spread: Tensor) -> Head:
        """Fitted to the class that was spread to each row, by how clear it is: the best less the second best."""
        sample = spread[self._fitted_to]
        best = sample.topk(2, dim=1).values
        clear = best[:, 0] - best[:, 1]
        start = self._parameters
        iterations = WARM if start is not None else ITERATIONS
        self._parameters = _fitted(self._rows, sample.argmax(dim=1), clear, self.classes, start, iterations)
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
