"""Which images these are: a key for each, and a sketch of all of them that is small enough to be kept with a run."""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Iterator

import numpy as np

from eigenview.batches.identity import DIGITS, HASHED_AT_ONCE
from eigenview.data import BatchSource, Source

SKETCHED = 1024  # keys of a sketch: the share of one set within another is told to about 3 %


def image_keys(source: Source) -> Iterator[str]:
    """A hash for each image, in order: of its pixels where they are at hand, else of its file's absolute path.

    Empty where an image is neither: nothing is read for it.
    """
    if isinstance(source, BatchSource):
        for start in range(0, len(source), HASHED_AT_ONCE):
            images = source.batch(np.arange(start, min(start + HASHED_AT_ONCE, len(source)), dtype=np.int64))
            shape = f"{tuple(images.shape[1:])}\n".encode()
            yield from (_key(image.tobytes(), shape) for image in images.numpy())
        return
    for index in range(len(source)):
        path = source.path(index)
        yield "" if path is None else _key(os.fsencode(path))


def _key(content: bytes, shape: bytes = b"") -> str:
    return hashlib.blake2b(shape + content, digest_size=DIGITS // 2).hexdigest()


def sketch(source: Source) -> str:
    """The smallest keys of a source's images, one after the other (the bottom-k sketch of Broder, 1997)."""
    return "".join(heapq.nsmallest(SKETCHED, {key for key in image_keys(source) if key}))


def share_within(source: Source, sketched: str) -> float:
    """The share of a source's images that are among those of a sketch; 0 where that cannot be told.

    Exact where the sketch holds all of its images; otherwise by those of the source whose keys are small enough to be
    in it.
    """
    known = {sketched[start : start + DIGITS] for start in range(0, len(sketched), DIGITS)}
    if not known:
        return 0.0
    last = max(known) if len(known) == SKETCHED else "g"  # beyond every hexadecimal key
    comparable = [key for key in image_keys(source) if key and key <= last]
    return sum(key in known for key in comparable) / len(comparable) if comparable else 0.0
