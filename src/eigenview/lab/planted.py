"""Graphs with clusters put there on purpose, and the eigenvectors that should find them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.errors import SettingError
from eigenview.graph.laplacian import spectral_embedding


@dataclass(frozen=True)
class PlantedGraph:
    weights: Tensor  # (n, n) symmetric, 0 or 1, no self-edges, float64
    labels: Tensor  # (n,) the block of each node


def planted_graph(*, blocks: int, size: int, degree: float, mixing: float, seed: int) -> PlantedGraph:
    """A stochastic block model: ``blocks`` × ``size`` nodes of ``degree`` neighbours each on average.

    ``mixing`` is the expected share of a node's edges that leave its block: 0 gives separate blocks, 1 − 1/blocks no
    structure at all. A node that drew no edge gets one within its block.
    """
    if blocks < 2 or size < 2 or not 0 <= mixing <= 1:
        raise SettingError(
            f"a planted graph needs 2 blocks of 2 nodes and mixing in [0, 1]; got {blocks}, {size}, {mixing}"
        )
    inside = degree * (1 - mixing) / (size - 1)
    outside = degree * mixing / ((blocks - 1) * size)
    if max(inside, outside) > 1:
        raise SettingError(f"{degree} neighbours do not fit into blocks of {size}; use a smaller degree or larger size")
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(blocks).repeat_interleave(size)
    probability = torch.where(labels[:, None] == labels, inside, outside).double()
    drawn = torch.rand(len(labels), len(labels), generator=generator, dtype=torch.float64) < probability
    weights = drawn.double().triu(1)
    weights = weights + weights.T
    for node in torch.nonzero(weights.sum(dim=1) == 0).flatten().tolist():
        other = (node // size) * size + (node + 1) % size
        weights[node, other] = weights[other, node] = 1
    return PlantedGraph(weights, labels)


def detectable_mixing(*, blocks: int, degree: float) -> float:
    """The mixing from which no fast algorithm is believed to find the blocks of a large sparse graph.

    Kesten & Stigum's bound: (1 − mixing·K/(K−1))²·degree = 1.
    """
    return (1 - 1 / math.sqrt(degree)) * (blocks - 1) / blocks


def row_normalised(weights: Tensor) -> Tensor:
    """P: each row of a graph divided by its sum, self-edges left out."""
    others = weights - torch.diag(weights.diagonal())
    return others / others.sum(dim=1, keepdim=True)


def eigenvectors(weights: Tensor, count: int) -> Tensor:
    """(n, count) the bottom eigenvectors, but the constant one, of the Laplacian of (P + Pᵀ)/2: of L inside H."""
    walk = row_normalised(weights)
    return spectral_embedding((walk + walk.T) / 2, count, normalization="unnormalized")
