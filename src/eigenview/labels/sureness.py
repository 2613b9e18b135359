"""How sure answers are on average, from the given labels alone: do two ways of answering agree, and do labels foretell
each other?

Where the head answers as spreading does, their pool is as sure as it was made to be. Where the two part, the features
know little of the classes, and the pool is far too sure. Then it is made as sure as spreading alone, which never is
sure, until labels tell more: of each that has a fellow in its class, what the others would have said is held against
what it is. More labels find more rows to part on, so less agreement will do. The numbers were chosen on STL-10, the
pixels of CIFAR-10, and all 50,000 of its images by EfficientNet-lite0 and by a short run of our own.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LEAST_AGREEMENT, FOR_FEW, MOST_FEW = 0.8, 0.2, 0.45  # of the rows, for many labels; more by classes/labels, up to 0.45
EITHER_SIDE = 0.01  # of that agreement: within it the pool is believed in part
CAUTION = 30.0  # labels that the sureness of spreading counts for
JUDGED = 100  # labels held against the others, at most
COLDEST, HOTTEST = 0.05, 20.0  # temperatures that are looked for

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
