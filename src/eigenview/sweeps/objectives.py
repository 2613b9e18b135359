"""What a sweep seeks: a figure of a finished run, and the one to follow while it is trained.

Figures by labels use those of training images alone: a share of each class is held out, the rest is learned from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from eigenview.data import Source, subset
from eigenview.errors import DataError
from eigenview.evaluation import Measuring, Subject, diagnose_run, evaluate, split_by_class
from eigenview.names import Table
from eigenview.runs import OpenedRun

LABELLED = 10_000  # images that are looked at
LOOKED_AT = 2000  # where no labels are needed


@dataclass(frozen=True)
class Objective:
    """``measure(run, source, seed)``; more is better. ``watched``: of a line of metrics, to end a run early by."""

    measure: Callable[[OpenedRun, Source, int], float]
    watched: str
    needs_labels: bool


def _held_out(protocol: str, name: str, run: OpenedRun, labelled: Source, seed: int) -> float:
    if len(labelled) > LABELLED:
        chosen = np.random.default_rng(seed).permutation(len(labelled))[:LABELLED]
        labelled = subset(labelled, np.sort(chosen))
    task = split_by_class(labelled, seed=seed)
    how = Measuring(seed=seed, workers=run.directory.config.workers, shows_progress=False)
    scores = {
        score.name: score.value for score in evaluate(Subject.of_run(run), task, protocols=[protocol], measuring=how)
    }
    if name not in scores:
        raise DataError(f"{name} needs more labelled images; there are {len(task.train)} to learn from")
    return scores[name]


def _effective_rank(run: OpenedRun, source: Source, seed: int) -> float:
    figures = diagnose_run(run, source, items=LOOKED_AT, where="features", seed=seed).figures
    return figures.effective_rank_centred


def _agreement(run: OpenedRun, source: Source, seed: int) -> float:
    views = diagnose_run(run, source, items=LOOKED_AT, where="features", seed=seed).figures.views
    if views is None:
        raise DataError("these images are too few to say whether views find each other")
    return views.matched.value


OBJECTIVES = Table(
    "objective",
    {
        "linear": Objective(partial(_held_out, "linear", "linear"), "knn_accuracy", needs_labels=True),
        "knn": Objective(partial(_held_out, "knn", "knn k=20"), "knn_accuracy", needs_labels=True),
        "effective-rank": Objective(_effective_rank, "effective_rank", needs_labels=False),
        "agreement": Objective(_agreement, "effective_rank", needs_labels=False),
    },
)
