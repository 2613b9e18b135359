"""Minibatch probes as published, with new views of the training images in every epoch, as scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from eigenview.evaluation.checks import check_labels, check_no_class_is_new
from eigenview.evaluation.probe import ViewRows, train_probe
from eigenview.evaluation.protocols import PROBES
from eigenview.evaluation.scores import mean_score
from eigenview.evaluation.subjects import Measuring, Subject, Task
from eigenview.nn import POOLED
from eigenview.runs import Score


def view_probe_scores(
    subject: Subject,
    task: Task,
    how: Measuring,
    *,
    protocol: str,
    layer: str = POOLED,
    epochs: int | None = None,
    multipliers: Sequence[float] = (1.0,),
) -> Iterator[Score]:
    """The encoder runs on new views in every epoch, and on the paper's own test view in the end.

    ``epochs`` instead of the paper's (mostly 100) shortens the protocol, milestones in proportion; the score's
    protocol says how many. ``multipliers`` are a grid of learning rates, trained together (see ``train_probe``).
    """
    given = PROBES.find(protocol) if epochs is None else PROBES.find(protocol).shortened(epochs)
    seen = given.test_view(subject.view)
    rows = ViewRows(subject.encoder, task.train, view=seen, protocol=given, layer=layer, group=how.group)
    after = how.features(subject, task.test, [layer], view=seen)
    check_labels(after.labelled, len(after.index), "test labels")
    check_no_class_is_new(rows.labels, after.labelled)
    result = train_probe(given, rows, multipliers=multipliers, seed=how.seed, shows_progress=how.is_shown)
    yield mean_score(
        result.classifier.predict(after[layer]) == after.labelled,
        name=f"view probe {protocol}",
        metric="accuracy",
        protocol={"layer": layer, **asdict(given), "multipliers": list(multipliers)},
        data=task.identity(rows.labels, after.labelled),
        subject=subject.name,
        encoder=subject.identity,
        seed=how.seed,
    )
