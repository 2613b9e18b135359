"""Sources as verbs need them: opened from text, checked for what the verb asks, split the same way every time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from eigenview.data import BatchSource, Source, StreamSource, decoded, open_source, subset
from eigenview.errors import DataError, SettingError

SMALL_SIDE = 96  # pixels up to which images are decoded once and kept
IN_MEMORY = 4 << 30  # bytes of pixels that may be kept


def open_indexed(spec: str) -> Source:
    """The source, which must have an index; small images of one size are decoded once."""
    source = open_source(spec)
    if isinstance(source, StreamSource) and not isinstance(source, Source):
        raise SettingError(f"{spec} is a stream and can only be read in order; this verb needs an indexed source")
    if len(source) == 0:
        raise DataError(f"no images in {spec}")
    if isinstance(source, BatchSource):
        return source
    width, height = source.image(0).size
    fits = max(width, height) <= SMALL_SIDE and 3 * width * height * len(source) <= IN_MEMORY
    return decoded(source) if fits else source


def source_of_run(run: Path) -> str:
    """What a run was trained on, as its config.json says."""
    try:
        return str(json.loads((run / "config.json").read_text(encoding="utf-8"))["source"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{run} is no run directory (it has no readable config.json)") from None


def open_labelled(spec: str) -> Source:
    """The items of the source that have a label; at least two classes."""
    source = open_indexed(spec)
    labels = source.labels
    if labels is None:
        raise DataError(
            f"{spec} has no labels, and scores need them: for a folder with a sub-folder for each class write "
            f"'{spec.rstrip('/')}/?labelled=yes' (diagnose needs no labels)"
        )
    known = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[known])) < 2:
        raise DataError(f"scores need at least two classes; {spec} has {len(np.unique(labels[known]))}")
    return source if len(known) == len(source) else subset(source, known)


def split_by_class(source: Source, *, share: float, seed: int) -> tuple[Source, Source]:
    """(train, test): of each class ``share`` of the images is for the test, drawn by ``seed``; at least one stays."""
    if not 0 < share < 1:
        raise SettingError(f"--test-share lies between 0 and 1; got {share}")
    labels = source.labels
    assert labels is not None
    random = np.random.default_rng(seed)
    tested: list[np.int64] = []
    for one in np.unique(labels):
        places = random.permutation(np.flatnonzero(labels == one))
        count = min(len(places) - 1, max(1, round(share * len(places))))
        tested += places[:count].tolist()
    if not tested:
        raise DataError("no class has two images, so none can be kept for the test; give a --test source")
    test = np.sort(np.array(tested, dtype=np.int64))
    train = np.setdiff1d(np.arange(len(source)), test)
    return subset(source, train), subset(source, test)
