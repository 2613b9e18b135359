"""What nearest neighbours say: whether two views agree on them, whether some rows are everyone's, and which are nearly
the same direction: every pair of them, or the share of rows that have one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.diagnostics.estimates import Estimate, mean_of_sample, mean_of_sets, share_of_sample
from eigenview.diagnostics.rows import Embeddings, JoinedRows, Rows, open_pair, open_rows, sampled_rows
from eigenview.diagnostics.sphere import ANCHORS
from eigenview.errors import SettingError
from eigenview.graph.checks import prepared
from eigenview.graph.nearest import Neighbours, nearest

QUERY_ROWS = 4096  # searched for at a time, where all rows are
EXACT_ROWS = 16_384  # up to here hubness and duplicates compare all pairs
SETS, SET_ROWS = 8, 4096  # beyond, hubness is the mean over this many disjoint sets of so many rows
COSINE = 0.999  # from here on two rows are near-duplicates: an angle below 2.6 degrees
APART = 0.1  # a duplicate is at most this share as far away as the tenth neighbour: else rows are just dense there
BLOCK_ROWS = 2048  # compared with as many at a time
PAIRS_AT_ONCE = 16_384  # looked at in float64
HELD_ELEMENTS = 1 << 28  # up to here a sorted copy is kept in memory: 1 GB in float32
SLACK = 1e-5  # more than the rounding of a cosine in float32; what is closer to the threshold is looked at in float64


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
    return mean_of_sample(shared_indices(in_a, in_b).cpu(), first.n)


def shared_indices(first: Tensor, second: Tensor) -> Tensor:
    """(n,) the share of a row of ``first`` (n, k) that is in that row of ``second`` (n, k)."""
    return (first[:, :, None] == second[:, None, :]).any(dim=2).double().mean(dim=1)


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


@dataclass(frozen=True)
class Duplicates:
    """Pairs of rows whose cosine is at least ``threshold``."""

    pairs: Tensor  # (p, 2) row numbers, the lower first; the closest pair first
    cosines: Tensor  # (p,) float64
    threshold: float
    is_complete: bool  # False: the search stopped at the number of pairs asked for

    @property
    def rows(self) -> int:
        """How many rows are in some pair."""
        return len(torch.unique(self.pairs))


@dataclass(frozen=True)
class DuplicateShare:
    """How many rows have a near-duplicate, and the pairs that the sampled anchors showed."""

    share: Estimate
    by_chance: float  # the share that rows spread smoothly in as many dimensions would show at most
    dimension: float | None  # the intrinsic dimension of the neighbourhoods; None below 11 rows or where all are equal
    pairs: Tensor  # (p, 2) anchor and its duplicate, the lower row number first
    threshold: float


def near_duplicates(embeddings: Embeddings, *, cosine: float = COSINE, most: int = 100_000) -> Duplicates:
    """All pairs of rows of (n, d) with a cosine of at least ``cosine``, exact and streamed; ``most`` pairs at most.

    Quadratic in n, but rows are sorted along their widest direction, on which near-duplicates are at most
    √(2 − 2·cosine) apart: blocks further apart than that are never compared, and no pair is lost. Pairs within
    rounding of the threshold are decided in float64. A collapsed encoder has n²/2 pairs: the search stops at ``most``.
    """
    _check_cosine(cosine)
    if most < 1:
        raise SettingError(f"most must be at least 1; got {most}")
    rows = open_rows(embeddings, least=2)
    near_pairs, near_cosines, count = [torch.empty(0, 2, dtype=torch.long)], [torch.empty(0).double()], 0
    for pairs in _candidates(rows.on_sphere(), cosine):
        first, second = (prepared(rows.take(column).double(), normalize=True) for column in pairs.T)
        similarity = (first * second).sum(dim=1).cpu()
        keep = similarity >= cosine - 1e-12  # equal rows differ from 1 by float64's own rounding
        near_pairs.append(pairs[keep])
        near_cosines.append(similarity[keep].clamp_max(1))
        count += int(keep.sum())
        if count > most:
            break
    every, cosines = torch.cat(near_pairs), torch.cat(near_cosines)
    order = torch.argsort(cosines, descending=True, stable=True)[:most]
    return Duplicates(every[order], cosines[order], cosine, is_complete=count <= most)


def duplicate_share(
    embeddings: Embeddings, *, cosine: float = COSINE, apart: float = APART, anchors: int = ANCHORS, seed: int = 0
) -> DuplicateShare:
    """The share of rows with a near-duplicate: a cosine of at least ``cosine``, and *unusually* close.

    Unusually: the distance to the nearest row is at most ``apart`` times that to the tenth (or the last, with fewer
    rows). Without it, every row of a collapsed or low-dimensional cloud would count. Groups of more than ten equal
    rows are therefore told by distance 0 alone. ``apart=1`` switches it off. Where rows fill few dimensions D, a smooth
    cloud shows up to ``by_chance`` = 1 − (1 − apart^D)⁹ as well. Sampled anchors against all rows.
    """
    _check_cosine(cosine)
    if not 0 <= apart <= 1:
        raise SettingError(f"apart must be from 0 to 1; got {apart}")
    rows = open_rows(embeddings, least=2)
    chosen, unit = sampled_rows(rows.n, anchors, seed), rows.on_sphere()
    anchor_rows = unit.take(chosen)
    near = nearest(rows, anchor_rows, k=min(10, rows.n - 1), own=chosen).index
    closest, fifth, tenth = (  # by differences: 2 − 2·cos would leave only rounding of a small distance
        torch.linalg.vector_norm(anchor_rows - unit.take(near[:, place]), dim=1).cpu()
        for place in (0, near.shape[1] // 2 - 1, -1)
    )
    rounding = 4 * torch.finfo(rows.dtype).eps
    is_near = (closest <= math.sqrt(2 - 2 * cosine) * (1 + SLACK)) & (closest <= apart * tenth)
    hits = is_near | (closest <= rounding)
    pairs = torch.stack([chosen[hits], near[:, 0].cpu()[hits]], dim=1).sort(dim=1).values
    apart_at_all = fifth > rounding
    # in D dimensions (r₅/r₁₀)^D is the middle of nine uniform numbers, whose median is ½: D = ln 2 / median ln(r₁₀/r₅)
    growth = (tenth / fifth)[apart_at_all].double().log().median() if bool(apart_at_all.any()) else torch.zeros(())
    dimension = math.log(2) / float(growth) if rows.n > 10 and growth > 0 else None
    by_chance = 0.0 if dimension is None else 1 - (1 - apart**dimension) ** 9  # some of nine volumes below apart^D
    share = share_of_sample(hits, rows.n)
    return DuplicateShare(share, by_chance, dimension, torch.unique(pairs, dim=0), cosine)


def _candidates(rows: Rows, cosine: float) -> Iterator[Tensor]:
    """(p, 2) pairs of numbers of unit rows, lower first, among which are all with that cosine; some at a time."""
    sample = rows.take(sampled_rows(rows.n, 2048, seed=0)).double()
    off = sample - sample.mean(dim=0)
    widest = torch.linalg.eigh(off.T @ off)[1][:, -1]  # the direction in which a sample of them is widest
    place, order = torch.cat([(block @ widest.to(block)).cpu() for _, block in rows.blocks()]).sort()
    reach = math.sqrt(2 - 2 * cosine) + 1e-3  # and the rounding of the places
    held = rows.take(order) if rows.n * rows.d <= HELD_ELEMENTS else None

    def rows_from(start: int) -> Tensor:
        stop = start + BLOCK_ROWS
        return held[start:stop] if held is not None else rows.take(order[start:stop])

    for top in range(0, rows.n, BLOCK_ROWS):
        ours = rows_from(top)
        end = place[top + len(ours) - 1] + reach
        for left in range(top, rows.n, BLOCK_ROWS):
            if place[left] > end:
                break
            cosines = ours @ (ours if left == top else rows_from(left)).T
            row, column = torch.nonzero(cosines >= cosine - SLACK, as_tuple=True)
            if left == top:
                row, column = row[column > row], column[column > row]
            if len(row):
                pairs = torch.stack([order[row.cpu() + top], order[column.cpu() + left]], dim=1)
                yield from torch.split(pairs.sort(dim=1).values, PAIRS_AT_ONCE)


def _check_cosine(cosine: float) -> None:
    if not -1 < cosine <= 1:
        raise SettingError(f"the cosine of near-duplicates must be above -1 and at most 1; got {cosine}")
