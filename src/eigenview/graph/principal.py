"""Rows around their mean, on the sphere, in their principal directions: what graphs of neighbours are made of."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eigenview.graph.geometry import at_least_float32

DIRECTIONS = 128  # more columns than these are reduced: a tenth of the time, and as good a graph; noise hides clusters
SAMPLE = 20_000  # rows that the directions are found by
BLOCK_ROWS = 2048  # projected at a time: what lies between stays small
ROUNDING = 1e-5  # a row this much shorter than the others, once centred, has no direction but rounding's


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


def projection(embeddings: Tensor, *, directions: int = DIRECTIONS) -> Projection:
    """Centred, on the sphere, and of more columns than ``directions`` so many principal directions."""
    rows = at_least_float32(embeddings.detach())
    least = ROUNDING * float(torch.linalg.vector_norm(rows, dim=1).amax())
    centred = Projection(rows.mean(dim=0), max(least, torch.finfo(rows.dtype).tiny))
    if rows.shape[1] <= directions:
        return centred
    unit = centred(rows[:: -(-len(rows) // SAMPLE)])
    centre = unit.mean(dim=0)
    return replace(centred, centre=centre, directions=principal_directions(unit - centre, directions))


def principal_directions(centred: Tensor, count: int) -> Tensor:
    """(d, count), orthonormal: the directions in which rows (n, d) around 0 are widest, the widest first."""
    covariance = (centred.T @ centred).double()  # in float32 LAPACK may give up where rows are few
    vectors: Tensor = torch.linalg.eigh(covariance).eigenvectors
    return vectors[:, -count:].flip(1).to(centred.dtype)


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
