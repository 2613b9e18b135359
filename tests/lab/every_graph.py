"""The random graphs of the laboratory by brute force: the oracle of their closed forms."""

from __future__ import annotations

import itertools

from torch import Tensor

from eigenview.graph.coupling import Prior


def enumerated(weights: Tensor, prior: Prior) -> dict[tuple[int, ...], float]:
    """Every graph with its probability, by brute force over all 2^(n(n−1)) of them: for n up to 4.

    A graph is the tuple of its edges, each numbered i·n + j. Those that Ω forbids are left out.
    """
    nodes = len(weights)
    places = [i * nodes + j for i in range(nodes) for j in range(nodes) if i != j]
    flat = weights.flatten().tolist()
    scores: dict[tuple[int, ...], float] = {}
    for present in itertools.product((False, True), repeat=len(places)):
        edges = tuple(itertools.compress(places, present))
        if _is_allowed(edges, nodes, prior):
            score = 1.0
            for edge in edges:
                score *= flat[edge]
            scores[edges] = score
    total = sum(scores.values())
    return {edges: score / total for edges, score in scores.items()}


def _is_allowed(edges: tuple[int, ...], nodes: int, prior: Prior) -> bool:
    if prior == "bernoulli":
        return True
    if prior == "edges":
        return len(edges) == 1
    return [edge // nodes for edge in edges] == list(range(nodes))
