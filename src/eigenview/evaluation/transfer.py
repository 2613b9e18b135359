"""One encoder on many data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eigenview.data import Source
from eigenview.distributed import Group
from eigenview.errors import SettingError
from eigenview.evaluation.evaluate import evaluate
from eigenview.evaluation.scores import Score
from eigenview.nn import POOLED, Encoder
from eigenview.views import CentreView


def transfer(
    encoder: Encoder,
    sets: Mapping[str, tuple[Source, Source]],
    *,
    view: CentreView,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    subject: str = "encoder",
    cache: str | Path | None = None,
    seed: int = 0,
    group: Group = None,
) -> list[Score]:
    """The scores of an encoder on every (train, test) of ``sets``; names begin with the set's."""
    if not sets:
        raise SettingError("there is no data set to transfer to; give (train, test) by name")
    scores: list[Score] = []
    for name, (train, test) in sets.items():
        found = evaluate(
            encoder,
            train,
            test,
            view=view,
            protocols=protocols,
            layers=layers,
            subject=subject,
            cache=cache,
            seed=seed,
            group=group,
        )
        scores += [replace(score, name=f"{name}: {score.name}") for score in found]
    return scores
