"""The three priors side by side: the same graph and kernel, coupled as rows, as one whole, and edge by edge."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.graph import Coupling, GaussianKernel, from_graph
from eigenview.graph.coupling import Prior
from eigenview.lab.agreement import clusters_of, rand_index
from eigenview.lab.descent import minimised
from eigenview.lab.planted import planted_graph
from eigenview.lab.random_graphs import edge_probabilities

PRIORS: tuple[Prior, ...] = ("out_degree", "edges", "bernoulli")
KERNEL = GaussianKernel(0.1)


@dataclass(frozen=True)
class Reached:
    """What free embeddings reach under one prior."""

    prior: Prior
    target: list[list[float]]  # E[W_X]
    reached: list[list[float]]  # E[W_Z], the Q of the embeddings
    start: float  # the loss of the random start
    loss: float
    floor: float  # the entropy of the target: no kernel graph gets below
    lowest_row_sum: float  # of Q
    highest_row_sum: float
    total: float
    rand_index: float  # of its clusters with the planted blocks


def side_by_side(size: int, *, seed: int) -> list[Reached]:
    """Three blocks of ``size`` nodes whose weights differ up to tenfold, so that degrees tell the priors apart."""
    graph = planted_graph(blocks=3, size=size, degree=min(6.0, size - 2.0), mixing=0.1, seed=seed)
    strength = torch.linspace(0.3, 1.0, size, dtype=torch.float64).repeat(3)
    weights = graph.weights * strength[:, None] * strength
    generator = torch.Generator().manual_seed(seed)
    start = normalize(torch.randn(len(weights), 3, generator=generator, dtype=torch.float64), dim=1)
    return [_reached(prior, weights, graph.labels, start) for prior in PRIORS]


def _reached(prior: Prior, weights: Tensor, labels: Tensor, start: Tensor) -> Reached:
    target = edge_probabilities(weights, prior)
    coupling = Coupling(KERNEL, prior=prior, reduction="sum")

    def objective(rows: Tensor) -> Tensor:
        return coupling(rows, target=from_graph(target, as_indicators=True))

    rows = normalize(minimised(objective, start, steps=200), dim=1)
    reached = edge_probabilities(KERNEL(rows, rows).exp(), prior)
    row_sums = reached.sum(dim=1)
    return Reached(
        prior,
        target.tolist(),
        reached.tolist(),
        float(objective(start)),
        float(objective(rows)),
        entropy(target, prior),
        float(row_sums.min()),
        float(row_sums.max()),
        float(reached.sum()),
        rand_index(clusters_of(rows, 3), labels),
    )


def entropy(probabilities: Tensor, prior: Prior) -> float:
    """The least a cross-entropy with this target can be: −Σ p log p, and −Σ (1−p) log(1−p) too where edges are free."""
    value = -torch.special.xlogy(probabilities, probabilities).sum()
    if prior == "bernoulli":
        absent = 1 - probabilities
        value = value - torch.special.xlogy(absent, absent).sum()
    return float(value)
