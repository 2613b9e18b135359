"""Folds that a data set brings along, as STL-10 does: trained on each, measured on the rest, averaged over folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from eigenview.batches.identity import data_identity, settings_identity
from eigenview.data.columns import find_column
from eigenview.data.failures import blamed_on
from eigenview.data.rowgroups import column_values, read_schema
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.evaluating import PROTOCOLS
from eigenview.evaluation.protocol_scores import FeatureProtocol, Split
from eigenview.evaluation.scores import over_repeats
from eigenview.evaluation.subjects import Folds, Measuring, Subject
from eigenview.files import JSON
from eigenview.names import printable
from eigenview.nn import POOLED
from eigenview.runs import Score


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


def fold_scores(
    subject: Subject,
    task: Folds,
    *,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """Each protocol trained on one fold and measured on all other items, for every fold.

    A score is the mean over folds with Student's interval over them; its ``items`` are the folds' own values, so that
    ``compare`` pairs encoders fold by fold. Features are computed once.
    """
    how, folds = measuring or Measuring(), task.folds
    if len(folds) < 2:
        raise SettingError(f"a mean over folds needs at least two of them; got {len(folds)}")
    chosen = [_feature_protocol(protocol) for protocol in protocols]
    features = how.features(subject, task.source, layers)
    listed = settings_identity({"folds": [fold.tolist() for fold in folds]})
    identity = data_identity(task.source, features.labelled)
    data: dict[str, JSON] = {"train": identity, "folds": f"{len(folds)} of {listed}"}
    if task.name:
        data["set"] = task.name
    are_learned = [_within(features.index, fold, place) for place, fold in enumerate(folds)]
    for layer in layers:
        rows, labels = features[layer], features.labelled
        splits = [
            Split(rows[own], labels[own], rows[~own], labels[~own], layer, data, subject, how) for own in are_learned
        ]
        for measure in chosen:
            by_fold = [list(measure(split)) for split in splits]
            yield from (over_repeats(repeats, over="folds") for repeats in zip(*by_fold, strict=True))


def _feature_protocol(name: str) -> FeatureProtocol:
    measure = PROTOCOLS.find(name).on_features
    if measure is None:
        raise SettingError(f"folds are measured on features, and {name} runs the encoder itself; leave it out")
    return measure


def _within(index: Tensor, fold: Tensor, place: int) -> Tensor:
    """(n,) which of the readable items are in the fold."""
    own = torch.isin(index, fold)
    if not own.any() or own.all():
        raise DataError(f"fold {place} holds {int(own.sum())} of {len(own)} items; it must leave some to test")
    return own
