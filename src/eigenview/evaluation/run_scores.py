"""A run and what it must beat, by every protocol on any number of data sets: scores kept in the run as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from eigenview.batches import PROJECTION
from eigenview.batches.sketch import share_within
from eigenview.data import Source
from eigenview.distributed import rank
from eigenview.errors import SettingError
from eigenview.evaluation.evaluating import PROTOCOLS, evaluate
from eigenview.evaluation.folds import fold_scores
from eigenview.evaluation.sampling import label_stored_sample
from eigenview.evaluation.subjects import BASELINES, Folds, Measuring, Subject, Task, subjects_of
from eigenview.files import check_writable
from eigenview.nn import POOLED
from eigenview.nn.encoder import check_layers
from eigenview.runs import SEEN, OpenedRun, Score

CHANCE = 0.05  # share of the test images that training may have seen as copies, by accident


def evaluate_run(
    run: OpenedRun,
    tasks: Sequence[Task | Folds],
    *,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    baselines: Sequence[str] = tuple(BASELINES),
    supervised: OpenedRun | None = None,
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """Scores of a run and its baselines on every task (or folds), kept in ``RUN/evaluation`` as soon as they are known.

    ``supervised`` is a run trained on labels. Scores of a run that saw the test images say so (``was_seen``). The layer
    ``projection`` is the run's own, after its head: baselines have none and are measured on the other layers that they
    have.
    """
    how = measuring or Measuring()
    if not tasks:
        raise SettingError("there is no data set to evaluate on; give a Task of training and test images")
    for name in protocols:
        PROTOCOLS.find(name)
    check_layers([name for name in layers if name != PROJECTION] or [POOLED], run.encoder.layer_names)
    check_writable(run.folder)
    for subject in subjects_of(
        run, baselines=baselines, supervised=supervised, with_head=PROJECTION in layers, seed=how.seed
    ):
        own = subject.layers_among(layers)
        for task in tasks if own else ():
            if isinstance(task, Folds):
                scores = fold_scores(subject, task, protocols=protocols, layers=own, measuring=how)
            else:
                scores = evaluate(subject, task, protocols=protocols, layers=own, measuring=how)
            for score in _noted(scores, subject, [run, supervised], task.test):
                if rank(how.group) == 0:
                    run.directory.save_score(score)
                yield score
    if rank(how.group) == 0:
        label_stored_sample(run, tasks)


def was_trained_on(run: OpenedRun, test: Source) -> bool:
    """Whether a run saw these images in training, or more of them than by accident."""
    return run.directory.is_trained and share_within(test, run.directory.data.sketch) > CHANCE


def _noted(
    scores: Iterable[Score], subject: Subject, runs: Sequence[OpenedRun | None], test: Source
) -> Iterator[Score]:
    """Scores that say so where the subject is one of ``runs`` that was trained on the test images."""
    trained = next((run for run in runs if run is not None and run.encoder is subject.encoder), None)
    is_seen = trained is not None and was_trained_on(trained, test)
    for score in scores:
        yield replace(score, data={**score.data, SEEN: True}) if is_seen else score
