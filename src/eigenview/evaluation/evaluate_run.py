"""A run and what it must beat, by every protocol on any number of data sets: scores kept in the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from eigenview.data import Source
from eigenview.distributed import Group, rank
from eigenview.errors import SettingError
from eigenview.evaluation.baselines import RawPixels
from eigenview.evaluation.evaluate import evaluate
from eigenview.evaluation.features import PROJECTION
from eigenview.evaluation.run_head import run_head
from eigenview.evaluation.runs import EvaluatedRun, open_run
from eigenview.evaluation.scores import Score, save_score
from eigenview.nn import POOLED, Encoder
from eigenview.views import CentreView

UNTRAINED, RAW_PIXELS, SUPERVISED = "untrained", "raw pixels", "supervised"


@dataclass(frozen=True)
class Subject:
    """Whose features are measured, and how it sees an image."""

    name: str
    encoder: Encoder
    view: CentreView
    head: nn.Module | None = None


def subjects(
    run: EvaluatedRun,
    *,
    supervised: EvaluatedRun | None = None,
    baselines: Sequence[str] = (UNTRAINED, RAW_PIXELS),
    has_head: bool = False,
    seed: int = 0,
) -> list[Subject]:
    """The run, then its baselines: the same encoder before training, the pixels, and a run trained on labels."""
    known = (UNTRAINED, RAW_PIXELS)
    unknown = [name for name in baselines if name not in known]
    if unknown:
        raise SettingError(f"a baseline is one of {', '.join(known)}; got {', '.join(unknown)}: supervised= is apart")
    found = [Subject(run.name, run.encoder, run.view, run_head(run) if has_head else None)]
    if supervised is not None:
        found.append(Subject(SUPERVISED, supervised.encoder, supervised.view))
    if UNTRAINED in baselines:
        found.append(Subject(UNTRAINED, run.untrained(seed=seed).eval(), run.view))
    if RAW_PIXELS in baselines:
        found.append(Subject(RAW_PIXELS, RawPixels(run.view.size, channels=run.channels), run.view))
    return found


def evaluate_run(
    folder: str | Path,
    sets: Mapping[str, tuple[Source, Source]],
    *,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    supervised: str | Path | None = None,
    baselines: Sequence[str] = (UNTRAINED, RAW_PIXELS),
    cache: str | Path | None = None,
    seed: int = 0,
    group: Group = None,
) -> list[Score]:
    """Scores of a run and its baselines on every (train, test) of ``sets``, kept in ``folder/evaluation``.

    With one set, names are the protocols'; with several they begin with the set's. ``supervised`` is the folder of a
    run trained on labels. The layer ``projection`` is the run's own, after its head: baselines have none and are
    measured on the other layers that they have.
    """
    if not sets:
        raise SettingError("there is no data set to evaluate on; give (train, test) by name")
    like = next(iter(sets.values()))[0]
    run = open_run(folder, like)
    trained = None if supervised is None else open_run(supervised, like)
    scores: list[Score] = []
    for one in subjects(run, supervised=trained, baselines=baselines, has_head=PROJECTION in layers, seed=seed):
        own = [name for name in layers if name in one.encoder.layer_names or (name == PROJECTION and one.head)]
        for name, (train, test) in sets.items() if own else ():
            found = evaluate(
                one.encoder,
                train,
                test,
                view=one.view,
                protocols=protocols,
                layers=own,
                head=one.head,
                subject=one.name,
                cache=cache,
                seed=seed,
                group=group,
            )
            prefix = "" if len(sets) == 1 else f"{name}: "
            scores += [replace(score, name=f"{prefix}{score.name}") for score in found]
    if rank(group) == 0:
        for score in scores:
            save_score(score, folder)
    return scores
