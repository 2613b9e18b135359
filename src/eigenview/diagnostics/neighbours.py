"""What nearest neighbours say: whether two views agree on them, and whether some rows are everyone's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from eigenview.diagnostics.estimates import Estimate, mean_of_sample, mean_of_sets, share_of_sample
from eigenview.diagnostics.rows import Embeddings, JoinedRows, Rows, open_pair, open_rows, sampled_rows
from eigenview.diagnostics.sphere import ANCHORS
from eigenview.errors import SettingError
from eigenview.graph.nearest import Neighbours, nearest

QUERY_ROWS = 4096  # searched for at a time, where all rows are
EXACT_ROWS = 16_384  # up to here hubness and duplicates compare all pairs
SETS, SET_ROWS = 8, 4096  # beyond, hubness is the mean over this many disjoint sets of so many rows


@dataclass(frozen=True)
class Hubness:
    """How unevenly rows serve as neighbours: N(x) counts the rows that have x among their k nearest."""

    skewness: Estimate  # of N; near 0 without hubs, above about 2 a few rows are everyone's neighbour
    antihubs: Estimate  # the share of rows that are nobody's neighbour
    neighbours: int
    rows: int  # compared with each other at a time: all, or those of one set


def neighbourhood_preservation(
    z_a: Embeddings, z_b: Embeddings, *, neighbours: int = 10, anchors: int = ANCHORS, seed: int = 0
) -> Estimate:
    """The share of an item's k nearest in one view that are among its k nearest in the other; 1 when both agree.

    ``z_a``, ``z_b`` (n, d), row by row; the widths may not differ. Each sampled anchor is searched among all rows.
    Unrelated views share k/(n−1).
    """
    first, second = open_pair(z_a, z_b)
    check_neighbours(neighbours, first.n)
    chosen = sampled_rows(first.n, anchors, seed)
    in_a, in_b = (nearest(rows, rows.take(chosen), k=neighbours, own=chosen).index for rows in (first, second))
    shared = (in_a[:, :, None] == in_b[:, None, :]).any(dim=2).double().mean(dim=1)
    return mean_of_sample(shared.cpu(), first.n)


def matched_views(z_a: Embeddings, z_b: Embeddings, *, anchors: int = ANCHORS, seed: int = 0) -> Estimate:
    """The share of rows of ``z_a`` whose nearest row of ``z_b`` is their own other view. Chance: 1/n."""
    first, second = open_pair(z_a, z_b)
    chosen = sampled_rows(first.n, anchors, seed)
    closest = nearest(second, first.take(chosen), k=1).index[:, 0]
    return share_of_sample(closest.cpu() == chosen, first.n)


def hubness(embeddings: Embeddings, *, neighbours: int = 10, seed: int = 0) -> Hubness:
    """Skewness of the k-occurrence and the share of anti-hubs (Radovanović et al. 2010).

    Exact up to 16,384 rows. Beyond, how often a row is a neighbour cannot be had from sampled anchors (most rows would
    seem to be nobody's), so the figures are those of random sets of 4,096 rows compared among themselves: the mean of
    8 disjoint sets, with its interval. Skewness grows slowly with the number of rows: compare like with like.
    """
    rows = open_rows(embeddings, least=2)
    check_neighbours(neighbours, rows.n)
    if rows.n <= EXACT_ROWS:
        exact = [Estimate.exact(figure) for figure in _occurrence(rows, neighbours)]
        return Hubness(exact[0], exact[1], neighbours, rows.n)
    order = torch.randperm(rows.n, generator=torch.Generator().manual_seed(seed))
    sets = min(SETS, rows.n // SET_ROWS)
    size = min(SET_ROWS, rows.n // sets)
    of_sets = []
    for members in order[: sets * size].view(sets, size):
        chosen = rows.take(members.sort().values)
        of_sets.append(_occurrence(Rows(chosen, size, rows.d, rows.dtype), neighbours))
    skewness = mean_of_sets([pair[0] for pair in of_sets], size)
    antihubs = mean_of_sets([pair[1] for pair in of_sets], size, within=(0, 1))
    return Hubness(skewness, antihubs, neighbours, size)


def all_nearest(sources: Sequence[Rows], neighbours: int) -> Iterator[Neighbours]:
    """The nearest among all rows of all ``sources`` to each of them, without itself: some rows at a time, in order.

    Row numbers of the second source go on from those of the first.
    """
    bank = JoinedRows(sources)
    for start, block in bank.blocks(QUERY_ROWS):
        yield nearest(bank, block, k=neighbours, own=torch.arange(start, start + len(block)))


def check_neighbours(neighbours: int, n: int) -> None:
    if isinstance(neighbours, bool) or not isinstance(neighbours, int) or not 1 <= neighbours < n:
        raise SettingError(f"neighbours must be a whole number from 1 to {n - 1} for {n} rows; got {neighbours}")


def _occurrence(rows: Rows, neighbours: int) -> tuple[float, float]:
    """(skewness of N, share of N = 0), all rows against all."""
    counts = torch.zeros(rows.n, dtype=torch.long)
    for near in all_nearest([rows], neighbours):
        counts += torch.bincount(near.index.flatten().cpu(), minlength=rows.n)
    off = counts.double() - neighbours  # each row has k neighbours: so is the mean of N
    variance = float(off.square().mean())
    skewness = float(off.pow(3).mean()) / variance**1.5 if variance > 0 else 0.0
    return skewness, float((counts == 0).double().mean())
