"""The random graphs behind the objectives: P(W; π) ∝ Ω(W) ∏ π_ij^W_ij over graphs W with edges 0 or 1, no self-edges.

Three priors Ω. ``out_degree``: every node has exactly one outgoing edge; then rows are independent and
P(W; π) = ∏_i P_{i, w(i)} with P the row-normalised π. ``edges``: the graph has exactly one edge, drawn from π / Σπ
(with more than one edge that form holds for multigraphs, where an edge may be drawn twice). ``bernoulli``: Ω = 1, every
edge by itself with probability π/(1+π). Side by side, they couple the same graph and kernel as rows, as one whole, and
edge by edge.
"""

from dataclasses import dataclass
from functools import reduce

import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.graph import Coupling, GaussianKernel, from_graph
from eigenview.graph.coupling import Prior
from eigenview.lab.descent import minimised
from eigenview.lab.planted import planted_graph, row_normalised
from eigenview.lab.similarity import clusters_of, rand_index

PRIORS: tuple[Prior, ...] = ("out_degree", "edges", "bernoulli")
KERNEL = GaussianKernel(0.1)


def edge_probabilities(weights: Tensor, prior: Prior) -> Tensor:
    """E[W] (n, n) in closed form: rows summing to 1, the whole summing to 1, or π/(1+π). Self-edges 0."""
    others = weights - torch.diag(weights.diagonal())
    if prior == "out_degree":
        return row_normalised(weights)
    return others / others.sum() if prior == "edges" else others / (1 + others)


def closed_form(weights: Tensor) -> Tensor:
    """(nⁿ,) the ``out_degree`` probability of every choice of neighbours, in the order of :func:`graph_number`."""
    joint: Tensor = reduce(torch.kron, row_normalised(weights))
    return joint


def graph_number(neighbours: Tensor) -> Tensor:
    """(m,) a number for each of ``neighbours`` (m, n), the node that each node points to: base n, first node first."""
    nodes = neighbours.shape[1]
    powers = nodes ** torch.arange(nodes - 1, -1, -1)
    return (neighbours * powers).sum(dim=1)


def sampled_by_rejection(weights: Tensor, proposals: int, *, generator: torch.Generator) -> Tensor:
    """Graphs of the ``out_degree`` field straight from its definition: (m, n) neighbours of the m accepted ones.

    Each of ``proposals`` graphs draws every edge by itself with probability π/(1+π), the field without Ω, and is kept
    where every node has exactly one edge. What is kept has the field's distribution exactly, and no use was made of
    the closed form.
    """
    probability = edge_probabilities(weights, "bernoulli")
    kept = []
    for count in [1 << 18] * (proposals >> 18) + [proposals % (1 << 18)]:
        drawn = torch.rand(count, *weights.shape, generator=generator) < probability
        accepted = (drawn.sum(dim=2) == 1).all(dim=1)
        kept.append(drawn[accepted].int().argmax(dim=2))
    return torch.cat(kept)


def acceptance_rate(weights: Tensor) -> float:
    """∏_i Σ_j π_ij / ∏_l (1 + π_il): how often a proposal of :func:`sampled_by_rejection` is kept."""
    others = weights - torch.diag(weights.diagonal())
    return float((others.sum(dim=1) / (1 + others).prod(dim=1)).prod())


def total_variation(counts: Tensor, probabilities: Tensor) -> float:
    """½ Σ |counts/N − p|."""
    return float((counts / counts.sum() - probabilities).abs().sum() / 2)


def expected_total_variation(probabilities: Tensor, count: int) -> float:
    """What sampling noise alone gives: ½ Σ √(2 p(1−p) / (π N)), each cell as a Gaussian; for N p well above 1."""
    return float((2 * probabilities * (1 - probabilities) / (torch.pi * count)).sqrt().sum() / 2)


@dataclass(frozen=True)
class FieldSample:
    """Graphs of the ``out_degree`` field drawn by rejection, against its closed form."""

    proposals: int
    accepted: int
    acceptance_foretold: float
    samples: list[int]  # growing numbers of them, with their distance to the closed form
    total_variation: list[float]
    noise_alone: list[float]
    p_value: float  # of χ² over all graphs that are possible
    expected: list[float]
    sampled: list[float]


def field_sample(weights: Tensor, graphs: Tensor, *, proposals: int) -> FieldSample:
    """Compare ``graphs`` (m, n), accepted among ``proposals``, with ∏ P."""
    expected, number = closed_form(weights), graph_number(graphs)
    possible = expected > 0
    sizes = sorted({min(len(graphs), factor * 10**power) for power in range(2, 7) for factor in (1, 3)})
    seen = [torch.bincount(number[:size], minlength=len(expected)).double() for size in sizes]
    test = stats.chisquare(seen[-1][possible].numpy(), (expected[possible] * seen[-1].sum()).numpy())
    return FieldSample(
        proposals,
        len(graphs),
        acceptance_rate(weights),
        sizes,
        [total_variation(counts, expected) for counts in seen],
        [expected_total_variation(expected, size) for size in sizes],
        float(test.pvalue),
        expected[possible].tolist(),
        (seen[-1] / seen[-1].sum())[possible].tolist(),
    )


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
    value = torch.special.entr(probabilities).sum()
    return float(value + torch.special.entr(1 - probabilities).sum() if prior == "bernoulli" else value)
