"""Pairs of images that may be copies of one picture, by their vectors; and what is read to compare their pictures.

An encoder puts a copy near its picture, but how near is its own affair: EfficientNet-lite0 sees one of half the size at
a cosine of 0.66 to 1. So each image is compared with its few nearest, however far they are, and with all that are very
close. That reads every picture once; a sketch of each is kept, which tells most pairs apart.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.data import LazyImage
from eigenview.data.likeness import Sketch, Thumbnail, thumbnail_of
from eigenview.data.workers import Made, results, start_workers, worker_count
from eigenview.diagnostics.neighbours import near_duplicates
from eigenview.errors import EigenviewError
from eigenview.graph.nearest import nearest
from eigenview.progress import progress_bar

ImageOf = Callable[[int], LazyImage | None]  # by its row; one that is gone is None, or raises

CHUNK = 64  # pictures that a worker reads at a time
ALONE = 512  # fewer are not worth starting workers for
TRIED_PICTURES, TRIED_VECTORS = 16, 2000  # read and compared to tell how long all will take
ROUNDING = 1e-12  # equal vectors differ from a cosine of 1 by that
NARROWER = 4  # where there are too many pairs, 1 − cosine is divided by this, and again


@dataclass(frozen=True)
class Candidates:
    """Pairs to compare, both ways: the partners of row i are ``partner[start[i]:start[i + 1]]``, in their order."""

    start: NDArray[np.int64]  # (n + 1,)
    partner: NDArray[np.int64]
    cosine: NDArray[np.float64]
    threshold: float  # every pair of this cosine or more is there
    is_complete: bool  # False: there were too many of those

    def of(self, row: int) -> Iterator[tuple[int, float]]:
        """(partner, cosine)."""
        ends = slice(self.start[row], self.start[row + 1])
        return zip(self.partner[ends].tolist(), self.cosine[ends].tolist(), strict=True)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Those that have a partner, in order."""
        return np.flatnonzero(np.diff(self.start))

    def is_close(self, cosine: float) -> bool:
        return cosine >= self.threshold - ROUNDING

    @property
    def close_rows(self) -> int:
        """How many have a partner at the threshold or above."""
        row = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        return len(np.unique(row[self.cosine >= self.threshold - ROUNDING]))


def find_candidates(vectors: Tensor, *, cosine: float, most: int, neighbours: int) -> Candidates:
    """Every pair of that cosine (of a higher one, where there are more than ``most``), and each row's nearest."""
    close = near_duplicates(vectors, cosine=cosine, most=most)
    while not close.is_complete and 1 - close.threshold > 1e-7:  # true copies are the closest of all
        close = near_duplicates(vectors, cosine=1 - (1 - close.threshold) / NARROWER, most=most)
    pairs, cosines = [close.pairs], [close.cosines]
    if k := min(neighbours, len(vectors) - 1):
        near = nearest(vectors, vectors, k=k, excludes_self=True)
        pairs.append(torch.stack([torch.arange(len(vectors)).repeat_interleave(k), near.index.flatten().cpu()], dim=1))
        cosines.append(near.similarity.flatten().cpu().double())
    both = torch.cat([torch.cat(pairs), torch.cat(pairs).flip(1)])
    key, order = torch.sort(both[:, 0] * len(vectors) + both[:, 1], stable=True)  # of equals the closer computed first
    keep = torch.ones(len(key), dtype=torch.bool)
    keep[1:] = key[1:] != key[:-1]
    order = order[keep]
    start = torch.searchsorted(both[order, 0].contiguous(), torch.arange(len(vectors) + 1))
    return Candidates(
        start.numpy(),
        both[order, 1].numpy(),
        torch.cat(cosines).repeat(2)[order].numpy(),
        close.threshold,
        close.is_complete,
    )


def read_thumbnail(image_of: ImageOf, row: int) -> Thumbnail | None:
    """None where the picture cannot be found or read."""
    try:
        image = image_of(row)
        return None if image is None else thumbnail_of(image)
    except (EigenviewError, OSError, IndexError):
        return None


def read_sketches(image_of: ImageOf, rows: NDArray[np.int64]) -> dict[int, Sketch | None]:
    """Row → what tells most pictures apart; every picture is read once, with progress."""
    read, chunks = partial(_sketches, image_of, rows), range(-(-len(rows) // CHUNK))
    count = worker_count("auto") if len(rows) > ALONE else 0
    made = results(start_workers(Made(read), count, requests=chunks, persistent=False)) if count else map(read, chunks)
    sketches: list[Sketch | None] = []
    with progress_bar("reading pictures to compare", total=len(rows)) as advance:
        for chunk in made:
            sketches += chunk
            advance(len(chunk))
    return dict(zip(rows.tolist(), sketches, strict=True))


def _sketches(image_of: ImageOf, rows: NDArray[np.int64], chunk: int) -> list[Sketch | None]:
    """Chunk k of the rows."""
    thumbnails = (read_thumbnail(image_of, row) for row in rows[chunk * CHUNK : (chunk + 1) * CHUNK].tolist())
    return [None if thumbnail is None else thumbnail.sketch() for thumbnail in thumbnails]


def has_pictures(image_of: ImageOf, count: int) -> bool:
    """Whether any of 16 rows, spread over ``count``, has a picture that can be read."""
    return any(read_thumbnail(image_of, row) is not None for row in _spread(count))


def reading_seconds(image_of: ImageOf, count: int) -> float:
    """How long reading ``count`` pictures will take, by the time that some take."""
    start, tried = time.monotonic(), _spread(count)
    for row in tried:
        read_thumbnail(image_of, row)
    return (time.monotonic() - start) / len(tried) * count / (worker_count("auto") if count > ALONE else 1)


def search_seconds(count: int, width: int) -> float:
    """How long comparing so many vectors with each other will take, by the time that some take."""
    if count <= TRIED_VECTORS:
        return 0.0
    rows = torch.randn(TRIED_VECTORS, width, generator=torch.Generator().manual_seed(0))
    start = time.monotonic()
    nearest(rows, rows, k=1)
    return (time.monotonic() - start) * (count / TRIED_VECTORS) ** 2


def _spread(count: int) -> list[int]:
    places: list[int] = np.unique(np.linspace(0, count - 1, min(TRIED_PICTURES, count)).round().astype(int)).tolist()
    return places
