"""Folds that a data set brings along, as STL-10 does: trained on each, measured on the rest, averaged over folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from eigenview.batches.identity import data_identity, settings_identity
from eigenview.data import Source
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.evaluating import PROTOCOLS
from eigenview.evaluation.features import Features
from eigenview.evaluation.protocol_scores import FeatureProtocol, Split
from eigenview.evaluation.scores import over_repeats
from eigenview.evaluation.subjects import Measuring, Subject
from eigenview.extras import extra_module
from eigenview.files import JSON
from eigenview.nn import POOLED
from eigenview.runs import Score


def read_folds(table: str | Path, *, column: str = "folds") -> list[Tensor]:
    """The items of every fold, by a column of a Parquet table that lists which folds each row belongs to."""
    parquet = extra_module("pyarrow.parquet", extra="tables", purpose="reading folds from a table")
    try:
        listed = parquet.read_table(table, columns=[column]).column(column).to_pylist()
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"cannot read the folds in column {column!r} of {table}: {error}") from None
    members: dict[int, list[int]] = {}
    for item, folds in enumerate(listed):
        for number in folds or ():
            members.setdefault(int(number), []).append(item)
    if not members:
        raise DataError(f"no row of {table} belongs to a fold; is {column!r} the right column?")
    return [torch.tensor(members[number]) for number in sorted(members)]


def fold_scores(
    subject: Subject,
    source: Source,
    folds: Sequence[Tensor],
    *,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    name: str = "",
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """Each protocol trained on one fold (its items of ``source``) and measured on all other items, for every fold.

    A score is the mean over folds with Student's interval over them; its ``items`` are the folds' own values, so that
    ``compare`` pairs encoders fold by fold. Features are computed once. ``name`` is what people call the data.
    """
    how = measuring or Measuring()
    if len(folds) < 2:
        raise SettingError(f"a mean over folds needs at least two of them; got {len(folds)}")
    chosen = [_feature_protocol(protocol) for protocol in protocols]
    features = how.features(subject, source, layers)
    listed = settings_identity({"folds": [fold.tolist() for fold in folds]})
    data: dict[str, JSON] = {"train": data_identity(source, features.labelled), "folds": f"{len(folds)} of {listed}"}
    if name:
        data["set"] = name
    for layer in layers:
        splits = [_split(subject, features, layer, fold, place, data, how.seed) for place, fold in enumerate(folds)]
        for measure in chosen:
            by_fold = [list(measure(split)) for split in splits]
            yield from (over_repeats(repeats, over="folds") for repeats in zip(*by_fold, strict=True))


def _feature_protocol(name: str) -> FeatureProtocol:
    measure = PROTOCOLS.find(name).on_features
    if measure is None:
        raise SettingError(f"folds are measured on features, and {name} runs the encoder itself; leave it out")
    return measure


def _split(
    subject: Subject, features: Features, layer: str, fold: Tensor, place: int, data: dict[str, JSON], seed: int
) -> Split:
    own = torch.isin(features.index, fold)
    if not own.any() or own.all():
        raise DataError(f"fold {place} holds {int(own.sum())} of {len(own)} items; it must leave some to test")
    rows, labels = features[layer], features.labelled
    return Split(
        rows[own], labels[own], rows[~own], labels[~own], layer, dict(data), subject.name, subject.identity, seed
    )
