"""Spherical k-means: clusters of directions, streamed over the rows and the same on any number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.distributed import Group, gather_rows, refuse_together, row_counts, row_offset, sum_over_processes
from eigenview.errors import DataError, EigenviewError, SettingError, ShapeError

BLOCK_ELEMENTS = 1 << 21  # similarities held at a time: 8 MB in float32
LARGEST_BLOCK = 1 << 14  # rows, however few the clusters; and those summed before the sums go to float64
PROPOSALS = 256  # candidate centroids k-means++ draws at a time
CHUNK = 64  # width of the pieces in which the nearest centroid is looked for

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class Clustering:
    """What :func:`spherical_kmeans` found."""

    centroids: Tensor  # (K, d), unit rows
    assignment: Tensor  # (n,), the nearest centroid of each row of this process
    counts: Tensor  # (K,), rows of all processes assigned to each centroid
    objectives: tuple[float, ...]  # mean cosine to the nearest centroid: at the start, then after each iteration

    @property
    def objective(self) -> float:
        """The mean cosine of all rows to their centroid: 1 when each cluster is one direction."""
        return self.objectives[-1]


@torch.no_grad()
def spherical_kmeans(
    embeddings: Tensor,
    clusters: int,
    *,
    iterations: int = 10,
    start: Literal["kmeans++", "random"] | Tensor = "kmeans++",
    empty: Literal["keep", "farthest"] = "keep",
    seed: int = 0,
    group: Group = None,
) -> Clustering:
    """Unit centroids c_k that maximise the mean of max_k cos(z_i, c_k), by Lloyd's iteration on the sphere.

    ``embeddings`` (n, d) need not be normalised, but no row may be zero; with ``group``, the rows of this process
    (uneven numbers, even none on some, are allowed). Each iteration assigns every row to its nearest centroid (the
    first of equals) and replaces each centroid by the direction of its rows' sum; a last assignment follows. The
    objective never decreases. Centroids are float32, or float64 for float64 embeddings; nothing carries gradient.

    ``start``: ``"kmeans++"`` draws each centroid with probability proportional to 1 − cos to those before it
    (Arthur & Vassilvitskii 2007, on the sphere); ``"random"`` takes distinct rows; a (K, d) tensor is used as given.
    Rows are drawn from all processes' in rank order, so the world size does not matter. With fewer distinct rows than
    clusters, some centroids coincide and stay empty. A start can be unlucky: where quality matters more than time, try
    several seeds and keep the highest objective.

    ``empty``: a cluster without rows (or whose rows cancel out) keeps its centroid, or with ``"farthest"`` moves to
    the row farthest from its own centroid, the next empty one to the second farthest, and so on.

    DeepCluster-v2 (Caron et al. 2020) is ``start="random"`` with ten iterations and empty clusters kept. Memory beside
    the rows: a block of similarities, and O(n + K·d).
    """
    _check_settings(clusters, iterations, start, empty)
    refuse_together(_problem(embeddings), group, embeddings.device)
    with torch.autocast(embeddings.device.type, enabled=False):
        rows = _UnitRows(embeddings, group)
        refuse_together(rows.problem(), group, embeddings.device)
        if clusters > rows.total:
            raise SettingError(f"clusters must be at most the number of rows; got {clusters} for {rows.total} rows")
        centroids = _starting_centroids(rows, clusters, start, torch.Generator().manual_seed(seed))
        objectives = []
        for _ in range(iterations):
            similarity, _, sums = _assigned(rows, centroids)
            objectives.append(rows.mean(similarity))
            centroids = _moved(rows, centroids, similarity, sums, empty)
        similarity, assignment, _ = _assigned(rows, centroids)
        objectives.append(rows.mean(similarity))
        counts = sum_over_processes(torch.bincount(assignment, minlength=clusters), group)
    return Clustering(centroids, assignment, counts, tuple(objectives))


def best_clustering(
    embeddings: Tensor, clusters: int, *, starts: int = 10, iterations: int = 50, seed: int = 0
) -> Clustering:
    """The highest objective of so many starts of :func:`spherical_kmeans`, with ``seed`` and those that follow it."""
    tries = (spherical_kmeans(embeddings, clusters, iterations=iterations, seed=seed + n) for n in range(starts))
    return max(tries, key=lambda clustering: clustering.objective)


def adjusted_rand_index(table: Counts) -> float:
    """Agreement on pairs of rows, 1 for equal partitions and 0 on average by chance (Hubert & Arabie 1985)."""
    pairs = _pairs(table).sum()
    rows, columns = _pairs(table.sum(axis=1)).sum(), _pairs(table.sum(axis=0)).sum()
    expected = rows * columns / max(_pairs(np.asarray(table.sum())), 1.0)
    most = (rows + columns) / 2
    return float((pairs - expected) / (most - expected)) if most != expected else 1.0


class _UnitRows:
    """The rows of all processes on the sphere, scaled a block at a time; each process holds its own."""

    def __init__(self, embeddings: Tensor, group: Group) -> None:
        self.embeddings, self.group = embeddings, group
        self.dtype = torch.float64 if embeddings.dtype == torch.float64 else torch.float32
        self.device = embeddings.device
        self.wide = self.dtype if self.device.type == "mps" else torch.float64  # for sums over many rows
        self.norm = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True, dtype=self.dtype)
        self.counts = row_counts(embeddings, group)
        self.total, self.offset = sum(self.counts), row_offset(self.counts, group)

    def __len__(self) -> int:
        return len(self.embeddings)

    def problem(self) -> EigenviewError | None:
        usable = self.norm.isfinite() & (self.norm > 0)
        if bool(usable.all()):
            return None
        worst = int((~usable[:, 0]).nonzero()[0])
        return DataError(f"rows must be finite and not zero, to have a direction; row {worst} is not")

    def blocks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        for first in range(0, len(self), size):
            place = slice(first, min(first + size, len(self)))
            yield place, self.embeddings[place].to(self.dtype) / self.norm[place]

    def at(self, places: Tensor) -> Tensor:
        """The rows at these places among all processes' (m,), on every process."""
        places = places.to(self.device)
        rows = torch.zeros(len(places), self.embeddings.shape[1], dtype=self.dtype, device=self.device)
        mine = (places >= self.offset) & (places < self.offset + len(self))
        local = places[mine] - self.offset
        rows[mine] = self.embeddings[local].to(self.dtype) / self.norm[local]
        return sum_over_processes(rows, self.group)

    def mean(self, values: Tensor) -> float:
        return float(sum_over_processes(values.to(self.wide).sum(), self.group)) / self.total

    def gather(self, values: Tensor) -> Tensor:
        """One value a row (n,), for the rows of all processes: small beside the rows themselves."""
        return gather_rows(values, self.group, counts=self.counts)


def _similarities(rows: _UnitRows, centroids: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Blocks of rows and their cosines to the centroids, in a buffer that the next overwrites; padded by −∞ if wide."""
    clusters = len(centroids)
    width = -(-clusters // CHUNK) * CHUNK if clusters > 4 * CHUNK else clusters
    size = min(max(1, BLOCK_ELEMENTS // width), LARGEST_BLOCK)
    buffer = torch.full((min(size, len(rows)), width), -torch.inf, dtype=rows.dtype, device=rows.device)
    for place, block in rows.blocks(size):
        table = buffer[: len(block)]
        torch.mm(block, centroids.T, out=table[:, :clusters])
        yield place, block, table


def _assigned(rows: _UnitRows, centroids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cosine to the nearest centroid (n,), which it is (n,), and the sums of each cluster's rows here (K, d)."""
    similarity = torch.empty(len(rows), dtype=rows.dtype, device=rows.device)
    assignment = torch.empty(len(rows), dtype=torch.long, device=rows.device)
    sums = torch.zeros(centroids.shape, dtype=rows.wide, device=rows.device)
    partial, summed = torch.zeros_like(centroids), 0
    for place, block, table in _similarities(rows, centroids):
        similarity[place], assignment[place] = _largest_of_rows(table)
        partial.index_add_(0, assignment[place], block)
        if place.stop - summed >= LARGEST_BLOCK or place.stop == len(rows):
            sums += partial
            partial.zero_()
            summed = place.stop
    return similarity, assignment, sums


def _largest_of_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """``table.max(dim=1)``, the first of equals; wide rows in two steps, which takes a third of the time on a CPU."""
    n, width = table.shape
    if width <= 4 * CHUNK:
        best = table.max(dim=1)
        return best.values, best.indices
    pieces = table.view(n, width // CHUNK, CHUNK)
    best = pieces.amax(dim=2).max(dim=1)
    inside = pieces[torch.arange(n, device=table.device), best.indices].max(dim=1)  # argmax would be the slower call
    return best.values, best.indices * CHUNK + inside.indices


def _moved(rows: _UnitRows, centroids: Tensor, similarity: Tensor, sums: Tensor, empty: str) -> Tensor:
    """The direction of each cluster's sum; clusters without one keep their centroid or take a far row."""
    sums = sum_over_processes(sums, rows.group)
    length: Tensor = torch.linalg.vector_norm(sums, dim=1, keepdim=True)
    # rows that cancel out leave rounding, not a direction
    homeless = length[:, 0] <= 1e3 * torch.finfo(rows.dtype).eps
    moved: Tensor = (sums / length.masked_fill(homeless[:, None], 1)).to(rows.dtype)
    moved[homeless] = centroids[homeless]
    if empty == "farthest" and bool(homeless.any()):
        farthest = rows.gather(similarity).argsort(stable=True)[: int(homeless.sum())]
        moved[homeless] = rows.at(farthest)
    return moved


def _starting_centroids(
    rows: _UnitRows, clusters: int, start: Literal["kmeans++", "random"] | Tensor, generator: torch.Generator
) -> Tensor:
    if isinstance(start, Tensor):
        if start.shape != (clusters, rows.embeddings.shape[1]):
            expected = (clusters, rows.embeddings.shape[1])
            raise ShapeError(f"start must have shape {expected}, a row for each cluster; got {tuple(start.shape)}")
        given = _UnitRows(start.to(rows.device, rows.dtype), None)
        if given.problem() is not None:
            raise DataError("the rows of start must be finite and not zero")
        return given.at(torch.arange(clusters))
    if start == "random":
        return rows.at(torch.randperm(rows.total, generator=generator)[:clusters])
    return _kmeans_plus_plus(rows, clusters, generator)


def _kmeans_plus_plus(rows: _UnitRows, clusters: int, generator: torch.Generator) -> Tensor:
    """Rows drawn one after another in proportion to D = 1 − cos to the nearest drawn before: exactly, but in batches.

    A batch is drawn from the D before it; a candidate whose D has since fallen to D' is kept with probability D'/D.
    That is rejection sampling from D', and the distances of all rows are brought up to date once a batch, by one
    matrix product. The first candidate of a batch is always kept. Drawn by float64 cumulative sums, in rank order.
    """
    chosen = rows.at(torch.randint(rows.total, (1,), generator=generator))
    distance = torch.full((len(rows),), 2.0, dtype=rows.dtype, device=rows.device)
    fresh = chosen
    while len(chosen) < clusters:
        for place, _, table in _similarities(rows, fresh):
            distance[place] = torch.minimum(distance[place], 1 - table.amax(dim=1))
        distance[distance <= 16 * torch.finfo(rows.dtype).eps] = 0  # a copy of a centroid, but for rounding
        everywhere = rows.gather(distance).cpu().double()
        cumulative = everywhere.cumsum(dim=0)
        if float(cumulative[-1]) == 0:  # every row is already a centroid
            places = torch.randint(rows.total, (clusters - len(chosen),), generator=generator)
            return torch.cat([chosen, rows.at(places)])
        draws = torch.rand(2, min(len(chosen), PROPOSALS), generator=generator, dtype=torch.float64)
        places = torch.searchsorted(cumulative, draws[0] * cumulative[-1], right=True).clamp_max(rows.total - 1)
        candidates = rows.at(places)
        fresh = candidates[_kept(candidates, everywhere[places], draws[1])][: clusters - len(chosen)]
        chosen = torch.cat([chosen, fresh])
    return chosen


def _kept(candidates: Tensor, before: Tensor, draws: Tensor) -> list[int]:
    """Which candidates survive: those whose distance to the ones kept earlier in the batch is still large enough."""
    mutual = (1 - candidates @ candidates.T).cpu().double().clamp_min(0)
    now, kept = before.clone(), []
    for place, (distance, draw) in enumerate(zip(before.tolist(), draws.tolist(), strict=True)):
        if draw * distance < float(now[place]):
            kept.append(place)
            now = torch.minimum(now, mutual[place])
    return kept


def _check_settings(clusters: int, iterations: int, start: object, empty: str) -> None:
    for name, value, least in (("clusters", clusters, 1), ("iterations", iterations, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SettingError(f"{name} must be a whole number of at least {least}; got {value}")
    if not isinstance(start, Tensor) and start not in ("kmeans++", "random"):
        raise SettingError(f"start must be 'kmeans++', 'random' or a tensor of centroids; got {start!r}")
    if empty not in ("keep", "farthest"):
        raise SettingError(f"empty must be 'keep' or 'farthest'; got {empty!r}")


def _problem(embeddings: Tensor) -> EigenviewError | None:
    if embeddings.ndim != 2 or not embeddings.is_floating_point() or embeddings.shape[1] == 0:
        shape = tuple(embeddings.shape)
        return ShapeError(f"embeddings must be a floating (n, d) matrix with d >= 1; got {shape}, {embeddings.dtype}")
    return None


def _pairs(counts: Counts) -> Counts:
    pairs: Counts = counts * (counts - 1) / 2
    return pairs
