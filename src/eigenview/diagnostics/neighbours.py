"""Nearest neighbours, exact and streamed, and what two views or the rows themselves make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.diagnostics.estimates import Estimate, mean_of_sample, mean_of_sets, share_of_sample
from eigenview.diagnostics.rows import Embeddings, Rows, on_sphere, open_pair, open_rows, sampled_rows
from eigenview.diagnostics.sphere import ANCHORS
from eigenview.errors import SettingError

BLOCK_ANCHORS, BLOCK_CANDIDATES = 512, 4096  # cosines held at a time: 8 MB in float32
EXACT_ROWS = 16_384  # up to here hubness and duplicates compare all pairs
SETS, SET_ROWS = 8, 4096  # beyond, hubness is the mean over this many disjoint sets of so many rows


@dataclass(frozen=True)
class Neighbours:
    """The k most similar candidates of m anchors, most similar first."""

    index: Tensor  # (m, k), row numbers; those of the second source go on from those of the first
    cosine: Tensor  # (m, k)


@dataclass(frozen=True)
class Hubness:
    """How unevenly rows serve as neighbours: N(x) counts the rows that have x among their k nearest."""

    skewness: Estimate  # of N; near 0 without hubs, above about 2 a few rows are everyone's neighbour
    antihubs: Estimate  # the share of rows that are nobody's neighbour
    neighbours: int
    rows: int  # compared with each other at a time: all, or those of one set


def nearest(anchors: Tensor, sources: Sequence[Rows], neighbours: int, *, own: Tensor | None = None) -> Neighbours:
    """The exact ``neighbours`` nearest by cosine of unit ``anchors`` (m, d) among all rows of all ``sources``.

    ``own`` (m,) is the row number to leave out for each anchor (itself). One pass over the rows: a block's cosines are
    searched only for the anchors whose worst neighbour its best row beats, which soon is few.
    """
    count, width, device = len(anchors), neighbours, anchors.device
    found = Neighbours(
        torch.full((count, width), -1, device=device),
        torch.full((count, width), -torch.inf, dtype=anchors.dtype, device=device),
    )
    offset = 0
    for source in sources:
        for start, rows in source.unit_blocks(BLOCK_CANDIDATES):
            for top in range(0, count, BLOCK_ANCHORS):
                part = slice(top, top + BLOCK_ANCHORS)
                cosines = anchors[part] @ rows.T
                if own is not None:
                    _leave_out(cosines, own[part].to(device) - offset - start)
                _merge(found, part, cosines, offset + start)
        offset += source.n
    return found


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
    in_a, in_b = (nearest(rows.unit_take(chosen), [rows], neighbours, own=chosen).index for rows in (first, second))
    shared = (in_a[:, :, None] == in_b[:, None, :]).any(dim=2).double().mean(dim=1)
    return mean_of_sample(shared.cpu(), first.n)


def matched_views(z_a: Embeddings, z_b: Embeddings, *, anchors: int = ANCHORS, seed: int = 0) -> Estimate:
    """The share of rows of ``z_a`` whose nearest row of ``z_b`` is their own other view. Chance: 1/n."""
    first, second = open_pair(z_a, z_b)
    chosen = sampled_rows(first.n, anchors, seed)
    found = nearest(first.unit_take(chosen), [second], 1)
    return share_of_sample(found.index[:, 0].cpu() == chosen, first.n)


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
    found = []
    for part in order[: sets * size].view(sets, size):
        chosen = rows.take(part.sort().values)
        found.append(_occurrence(Rows(chosen, size, rows.d, rows.dtype), neighbours))
    skewness = mean_of_sets([pair[0] for pair in found], size)
    antihubs = mean_of_sets([pair[1] for pair in found], size, within=(0, 1))
    return Hubness(skewness, antihubs, neighbours, size)


def check_neighbours(neighbours: int, n: int) -> None:
    if isinstance(neighbours, bool) or not isinstance(neighbours, int) or not 1 <= neighbours < n:
        raise SettingError(f"neighbours must be a whole number from 1 to {n - 1} for {n} rows; got {neighbours}")


def _occurrence(rows: Rows, neighbours: int) -> tuple[float, float]:
    """(skewness of N, share of N = 0), all rows against all."""
    counts = torch.zeros(rows.n, dtype=torch.long)
    for start, block in rows.blocks(BLOCK_CANDIDATES):
        own = torch.arange(start, start + len(block))
        found = nearest(on_sphere(block), [rows], neighbours, own=own)
        counts += torch.bincount(found.index.flatten().cpu(), minlength=rows.n)
    off = counts.double() - neighbours  # each row has k neighbours: so is the mean of N
    variance = float(off.square().mean())
    skewness = float(off.pow(3).mean()) / variance**1.5 if variance > 0 else 0.0
    return skewness, float((counts == 0).double().mean())


def _leave_out(cosines: Tensor, column: Tensor) -> None:
    """Make each anchor's own row, where it is among these, the least similar of all."""
    row = torch.nonzero((column >= 0) & (column < cosines.shape[1])).flatten()
    cosines[row, column[row]] = -torch.inf


def _merge(found: Neighbours, part: slice, cosines: Tensor, first: int) -> None:
    """Let the rows from number ``first`` on take the places of worse neighbours."""
    best, index = found.cosine[part], found.index[part]
    better = torch.nonzero(cosines.amax(dim=1) > best[:, -1]).flatten()
    if not len(better):
        return
    width = min(best.shape[1], cosines.shape[1])
    cosine, column = cosines[better].topk(width, dim=1)
    both = torch.cat([best[better], cosine], dim=1)
    names = torch.cat([index[better], column + first], dim=1)
    best[better], order = both.topk(best.shape[1], dim=1)
    index[better] = names.gather(1, order)
