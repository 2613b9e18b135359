"""Labelled images as evaluation needs them: opened, checked for labels, split the same way every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenview.data import Source, open_images, open_source, subset
from eigenview.data.columns import find_column
from eigenview.data.failures import blamed_on
from eigenview.data.rowgroups import column_values, read_schema
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.subjects import Folds, Task
from eigenview.names import printable

TEST_SHARE = 0.2  # of each class, where no test images are given


def open_task(
    train: str | Path | Source,
    test: str | Path | Source | None = None,
    *,
    test_share: float = TEST_SHARE,
    seed: int = 0,
    name: str | None = None,
    protocols: Sequence[str] = (),
) -> Task:
    """Images to learn from and to be tested on. Without ``test``, a share of each class is kept back, by ``seed``.

    ``protocols``: what they are for; depth alone needs no labels.
    """
    called = name if name is not None else _name(train)
    if set(protocols) == {"depth"}:
        if test is None:
            raise SettingError("depth is measured on images of their own: give a test source, too")
        return Task(open_images(train, needs_index=True), open_images(test, needs_index=True), called)
    source = open_labelled(train)
    if test is not None:
        return Task(source, open_labelled(test), called)
    return split_by_class(source, share=test_share, seed=seed, name=called)


def open_folds(table: str | Path, *, column: str = "folds") -> Folds:
    """A Parquet table with the folds that a column lists. Opened as it is: folds count its rows, readable or not."""
    place = str(table).partition("?")[0]
    folds, source = read_folds(place, column=column), open_source(table)
    assert isinstance(source, Source)  # a table is
    return Folds(source, folds, Path(place).name)


def read_folds(table: str | Path, *, column: str = "folds") -> list[Tensor]:
    """The items of every fold, by a column of a Parquet table that lists which folds each row belongs to."""
    find_column("folds", column, read_schema(table).names, printable(table))
    members: dict[int, list[int]] = {}
    with blamed_on(table, f"does not list folds in column {column!r}"):
        for item, folds in enumerate(column_values(table, column)):
            for number in folds or ():  # type: ignore[attr-defined]  # lists, or it is said
                members.setdefault(int(number), []).append(item)
    if not members:
        raise DataError(f"no row of {table} belongs to a fold; is {column!r} the right column?")
    return [torch.tensor(members[number]) for number in sorted(members)]


def open_labelled(spec: str | Path | Source) -> Source:
    """The items of a source that have a label; at least two classes."""
    source = open_images(spec, needs_index=True)
    place = printable(spec) if isinstance(spec, (str, Path)) else source.describe().place
    labels = source.labels
    if labels is None:
        remedy = source.describe().labels_hint or (
            f"for a folder with a sub-folder for each class write '{place.rstrip('/')}/?labelled=yes'"
        )
        raise DataError(f"{place} has no labels, and scores need them: {remedy} (diagnose needs no labels)")
    known = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[known])) < 2:
        raise DataError(f"scores need at least two classes; {place} has {len(np.unique(labels[known]))}")
    return source if len(known) == len(source) else subset(source, known)


def split_by_class(source: Source, *, share: float = TEST_SHARE, seed: int = 0, name: str = "") -> Task:
    """Of each class ``share`` of the images is for the test, drawn by ``seed``; at least one stays to learn from."""
    if not 0 < share < 1:
        raise SettingError(f"the share for the test lies between 0 and 1; got {share}")
    labels = source.labels
    if labels is None:
        raise DataError("these images have no labels to split by; give a labelled source")
    random = np.random.default_rng(seed)
    tested: list[int] = []
    for label in np.unique(labels):
        places = random.permutation(np.flatnonzero(labels == label))
        count = min(len(places) - 1, max(1, round(share * len(places))))
        tested += places[:count].tolist()
    if not tested:
        raise DataError("no class has two images, so none can be kept for the test; give test images")
    test = np.sort(np.array(tested, dtype=np.int64))
    train = np.setdiff1d(np.arange(len(source)), test)
    return Task(subset(source, train), subset(source, test), name)


def _name(spec: str | Path | Source) -> str:
    """What people call a data set: the last word of its path, without options."""
    if not isinstance(spec, (str, Path)):
        return Path(spec.describe().place).name
    place = str(spec).partition("?")[0].rstrip("/")
    path = Path(place.rpartition(":")[2] or place)
    is_part = path.stem in ("train", "test")
    return printable(f"{path.parent.name}/{path.name}" if is_part else path.name) or printable(place)
