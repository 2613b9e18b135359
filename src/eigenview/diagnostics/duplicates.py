"""Rows that are nearly the same direction: every pair of them, or the share of rows that have one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.diagnostics.estimates import Estimate, share_of_sample
from eigenview.diagnostics.rows import Embeddings, Rows, open_rows, sampled_rows
from eigenview.diagnostics.sphere import ANCHORS
from eigenview.errors import SettingError
from eigenview.graph.checks import prepared
from eigenview.graph.nearest import nearest

COSINE = 0.999  # from here on two rows are near-duplicates: an angle below 2.6 degrees
APART = 0.1  # a duplicate is at most this share as far away as the tenth neighbour: else rows are just dense there
BLOCK_ROWS = 2048  # compared with as many at a time
PAIRS_AT_ONCE = 16_384  # looked at in float64
HELD_ELEMENTS = 1 << 28  # up to here a sorted copy is kept in memory: 1 GB in float32
SLACK = 1e-5  # more than the rounding of a cosine in float32; what is closer to the threshold is looked at in float64


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
    dimension = _intrinsic_dimension(fifth[fifth > rounding], tenth[fifth > rounding]) if rows.n > 10 else None
    by_chance = 0.0 if dimension is None else 1 - (1 - apart**dimension) ** 9  # some of nine volumes below apart^D
    share = share_of_sample(hits, rows.n)
    return DuplicateShare(share, by_chance, dimension, torch.unique(pairs, dim=0), cosine)


def _intrinsic_dimension(fifth: Tensor, tenth: Tensor) -> float | None:
    """ln 2 / median ln(r₁₀/r₅): in D dimensions (r₅/r₁₀)^D is the middle of nine uniform numbers, whose median is ½."""
    growth = float((tenth / fifth).double().log().median()) if len(fifth) else 0.0
    return math.log(2) / growth if growth > 0 else None


def _candidates(rows: Rows, cosine: float) -> Iterator[Tensor]:
    """(p, 2) pairs of numbers of unit rows, lower first, among which are all with that cosine; some at a time."""
    place = _along_widest(rows)
    place, order = place.sort()
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


def _along_widest(rows: Rows) -> Tensor:
    """(n,) place of each unit row along the direction in which a sample of them is widest."""
    sample = rows.take(sampled_rows(rows.n, 2048, seed=0)).double()
    off = sample - sample.mean(dim=0)
    direction = torch.linalg.eigh(off.T @ off)[1][:, -1]
    places = [(block @ direction.to(block)).cpu() for _, block in rows.blocks()]
    return torch.cat(places)


def _check_cosine(cosine: float) -> None:
    if not -1 < cosine <= 1:
        raise SettingError(f"the cosine of near-duplicates must be above -1 and at most 1; got {cosine}")
