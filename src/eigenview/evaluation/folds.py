"""Folds that a data set brings along, as STL-10 does: trained on each, measured on the rest, averaged over folds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from eigenview.data import Source
from eigenview.distributed import Group
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.evaluate import Split, find_evaluation
from eigenview.evaluation.features import extract
from eigenview.evaluation.identity import data_identity, settings_identity, weights_identity
from eigenview.evaluation.scores import JSON, Score, over_repeats
from eigenview.extras import extra_module
from eigenview.nn import POOLED, Encoder
from eigenview.views import CentreView


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
    encoder: Encoder,
    source: Source,
    folds: Sequence[Tensor],
    *,
    view: CentreView,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    head: nn.Module | None = None,
    subject: str = "encoder",
    cache: str | Path | None = None,
    seed: int = 0,
    group: Group = None,
) -> list[Score]:
    """Each protocol trained on one fold (its items of ``source``) and measured on all other items, for every fold.

    A score is the mean over folds with Student's interval over them; its ``items`` are the folds' own values, so that
    ``compare`` pairs encoders fold by fold. Features are computed once.
    """
    if len(folds) < 2:
        raise SettingError(f"a mean over folds needs at least two of them; got {len(folds)}")
    chosen = [find_evaluation(name) for name in protocols]
    found = extract(encoder, source, view=view, layers=layers, head=head, cache=cache, group=group)
    weights = weights_identity(encoder, *([] if head is None else [head]))
    listed = settings_identity({"folds": [fold.tolist() for fold in folds]})
    data: dict[str, JSON] = {"train": data_identity(source, found.labelled), "folds": f"{len(folds)} of {listed}"}
    scores: list[Score] = []
    for layer in layers:
        by_fold: list[list[Score]] = []
        for number, fold in enumerate(folds):
            own = torch.isin(found.index, fold)
            if not own.any() or own.all():
                raise DataError(f"fold {number} holds {int(own.sum())} of {len(own)} items; it must leave some to test")
            split = Split(
                found[layer][own],
                found.labelled[own],
                found[layer][~own],
                found.labelled[~own],
                layer,
                dict(data),
                subject,
                weights,
                seed,
            )
            by_fold.append([score for protocol in chosen for score in protocol(split)])
        scores += [over_repeats(repeats, over="folds") for repeats in zip(*by_fold, strict=True)]
    return scores
