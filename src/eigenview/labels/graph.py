"""The image graph: every image joined to those most like it, near ones strongly.

Rows are centred, put on the sphere, reduced to their principal directions, joined to their k nearest there by the one
exact search, and weighed by w_ij = exp(−4·d²_ij/(σ_i·σ_j)), σ_i the distance to the k-th neighbour (Zelnik-Manor
& Perona 2004), so that dense and thin regions hang together alike. An edge counts in
both directions if it counts in one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from eigenview.errors import SettingError
from eigenview.evaluation.checks import check_features, working_dtype
from eigenview.graph.communities import SHARPNESS, distances, self_tuned_weights
from eigenview.graph.nearest import Neighbours, nearest

NEIGHBOURS = 15
KNOWN = 20  # neighbours of each row that are kept, for TypiClust's density
DIRECTIONS = 128  # more columns than these are reduced: a tenth of the time, and as good a graph
SAMPLE = 20_000  # rows that the directions are found by
BLOCK_ROWS = 2048  # projected at a time: what lies between stays small
ROUNDING = 1e-5  # a row this much shorter than the others, once centred, has no direction but rounding's

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Projection:
    """From embeddings as they come to the unit rows that the graph knows: those of the same set, or later ones."""

    mean: Tensor  # (d,) of the embeddings
    least: float  # the length below which a centred row is nothing but rounding, and has no direction
    centre: Tensor | None = None  # (d,) of the unit rows
    directions: Tensor | None = None  # (d, p), orthonormal: the principal ones; None where there are few columns

    def __call__(self, embeddings: Tensor) -> Tensor:
        """(n, p) rows of length 1, or 0 where there is no direction."""
        starts = range(0, len(embeddings), BLOCK_ROWS) or (0,)
        return torch.cat([self.at_once(embeddings[start : start + BLOCK_ROWS].detach()) for start in starts])

    def at_once(self, embeddings: Tensor) -> Tensor:
        """The same without blocks, as exported."""
        rows = _unit(embeddings.to(self.mean.dtype) - self.mean, self.least)
        if self.centre is None or self.directions is None:
            return rows
        return _unit((rows - self.centre) @ self.directions, ROUNDING)


@dataclass(frozen=True)
class ImageGraph:
    """n images, their nearest, and the weights between them."""

    rows: Tensor  # (n, p) of length 1: what distances are taken between
    neighbours: Neighbours  # of each row among the others, nearest first; cosines
    joined: int  # how many of them each row is joined to
    weights: sparse.csr_array  # (n, n) float32 in [0, 1], symmetric, without self-edges

    def __len__(self) -> int:
        return int(self.weights.shape[0])

    @cached_property
    def normalized(self) -> sparse.csr_array:
        """S = D^-½ W D^-½; a node without edges has a row of zeros."""
        degree = np.asarray(self.weights.sum(axis=1)).ravel()
        scale = sparse.dia_array((np.where(degree > 0, degree, 1.0)[None] ** -0.5, [0]), shape=self.weights.shape)
        return sparse.csr_array(scale @ self.weights @ scale).astype(np.float32)

    @cached_property
    def density(self) -> Tensor:
        """TypiClust's typicality (n,): 1 / mean distance to the neighbours that are kept, at most 20."""
        return 1 / distances(self.neighbours).mean(dim=1).clamp_min(1e-6)


def image_graph(embeddings: Tensor, *, neighbours: int = NEIGHBOURS, sharpness: float = SHARPNESS) -> ImageGraph:
    """The graph of ``embeddings`` (n, d): each row joined to its ``neighbours`` nearest, or to all if there are fewer.

    Rows that coincide are neighbours like any others. A row that is the mean of all has no direction: it is equally
    far from every other.
    """
    check_features(embeddings, "embeddings")
    known = check_wish(len(embeddings), neighbours)
    rows = projection(embeddings)(embeddings)
    return graph_of_neighbours(rows, nearest(rows, rows, k=known, excludes_self=True), neighbours, sharpness)


def check_wish(images: int, neighbours: int) -> int:
    """How many neighbours of each image to find, so that ``neighbours`` can be joined."""
    if images < 2:
        raise SettingError(f"a graph needs at least two images; got {images}")
    if isinstance(neighbours, bool) or neighbours < 1:
        raise SettingError(f"neighbours must be at least 1; got {neighbours}")
    return min(max(neighbours, KNOWN), images - 1)


def graph_of_neighbours(
    rows: Tensor, known: Neighbours, neighbours: int = NEIGHBOURS, sharpness: float = SHARPNESS
) -> ImageGraph:
    """The graph in which each row is joined to the first ``neighbours`` of those known."""
    joined = min(neighbours, known.index.shape[1])
    return ImageGraph(rows, known, joined, self_tuned_weights(known, joined, sharpness))


def projection(embeddings: Tensor, *, directions: int = DIRECTIONS) -> Projection:
    """Centred, on the sphere, and of more columns than ``directions`` so many principal directions."""
    rows = embeddings.detach().to(working_dtype(embeddings))
    least = ROUNDING * float(torch.linalg.vector_norm(rows, dim=1).amax())
    centred = Projection(rows.mean(dim=0), max(least, torch.finfo(rows.dtype).tiny))
    if rows.shape[1] <= directions:
        return centred
    unit = centred(rows[:: -(-len(rows) // SAMPLE)])
    centre = unit.mean(dim=0)
    covariance = ((unit - centre).T @ (unit - centre)).double()
    principal = torch.linalg.eigh(covariance).eigenvectors[:, -directions:].flip(1)
    return replace(centred, centre=centre, directions=principal.to(rows.dtype))


def two_projections(embeddings: Tensor, *, directions: int) -> tuple[Tensor, tuple[Projection, Tensor]]:
    """(rows of so many principal directions, (the graph's projection, its rows)), as two calls of :func:`projection`.

    Principal directions are found once where both are reduced to them: those of the graph are the first.
    """
    wide = projection(embeddings, directions=directions)
    rows = wide(embeddings)
    if wide.directions is None or directions < DIRECTIONS:
        narrow = projection(embeddings)
        return rows, (narrow, narrow(embeddings))
    narrow = replace(wide, directions=wide.directions[:, :DIRECTIONS].contiguous())
    return rows, (narrow, _unit(rows[:, :DIRECTIONS], ROUNDING))


def _unit(rows: Tensor, least: float) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return torch.where(length > least, rows / length.clamp_min(least), 0)
