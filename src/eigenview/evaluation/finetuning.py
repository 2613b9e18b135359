"""Fine-tuning: the whole network on a share of the labels, next to frozen features and to a fresh start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

import numpy as np
import torch
from torch import Tensor

from eigenview.batches.identity import weights_identity
from eigenview.data import Source, subset
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import check_labels, check_no_class_is_new, check_several_classes
from eigenview.evaluation.linear import stratified_folds
from eigenview.evaluation.probe import HOLD_OUT
from eigenview.evaluation.protocol_scores import Split
from eigenview.evaluation.protocols import FINETUNES, FinetuneProtocol
from eigenview.evaluation.subjects import COLOURS, RAW_PIXELS, UNTRAINED, Measuring, Subject, Task
from eigenview.evaluation.tuning import PENALTIES, Known, Tuned, frozen_classifier
from eigenview.files import JSON
from eigenview.nn import POOLED, Encoder
from eigenview.runs import Score, fresh_copy
from eigenview.views import CentreView

SHARES = (0.01, 0.1, 1.0)  # of the labels
TRIAL = 0.25  # of the steps, for each multiplier that is tried
PLENTY = 20  # labels of every class, from which on a fifth is held out to choose by


def finetune(
    encoder: Encoder,
    task: Task,
    *,
    view: CentreView,
    protocol: FinetuneProtocol | None = None,
    share: float = 1.0,
    measuring: Measuring | None = None,
) -> Tensor:
    """(n,) 1 where a readable test image is right after training encoder and head on ``share`` of the labels.

    ``encoder`` itself is not changed: a copy is trained, batch norms included. From scratch is the same call with an
    untrained encoder and ``FINETUNES["scratch"]``. The share is drawn by the seed, evenly over classes, at least one
    image of each. With a group, processes share every batch, synchronise batch norms and gradients, and all get the
    answer.
    """
    how, way = measuring or Measuring(), protocol or FinetuneProtocol()
    labels, _ = _checked_labels(task)
    chosen = draw_share(labels, share, seed=how.seed)
    source = subset(task.train, chosen.numpy())
    known = Known(source, labels[chosen])
    start = Subject("start", encoder, view)
    if way.head == "logistic":
        features = start.features(source, [POOLED], how)
        known = replace(known, rows=features[POOLED], index=features.index)
    return _finetuned(start, known, task, way, how, "fine-tuning")[0]


def finetune_scores(
    subject: Subject,
    task: Task,
    how: Measuring,
    *,
    protocols: Mapping[float, FinetuneProtocol] | None = None,
    scratch: FinetuneProtocol | None = None,
    untrained: Encoder | None = None,
) -> Iterator[Score]:
    """Frozen, fine-tuned and from scratch, on the same share of the labels: three rows of one table for each share.

    ``protocols`` by share of the labels; otherwise 1 %, 10 % and 100 % with ours, which mirrors images unless the run's
    own views did not. From scratch is the same encoder with
    fresh weights (``untrained``), at rates of its own (``scratch``; otherwise ``FINETUNES["scratch"]``), for the length
    and on the views of the share's protocol. Frozen is logistic regression on the images that fine-tuning gets, the
    penalty by cross-validation. Baselines are measured frozen only: fine-tuned, they are the run's row from scratch.
    """
    given = protocols if protocols is not None else dict.fromkeys(SHARES, _own_protocol(subject))
    labels, _ = _checked_labels(task)
    before, after = (subject.features(source, [POOLED], how) for source in (task.train, task.test))
    data = task.identity(before.labelled, after.labelled)
    everything = Known(task.train, labels, before[POOLED], before.index)
    for share, protocol in given.items():
        known = everything.part(draw_share(labels, share, seed=how.seed))
        split = Split(known.rows, known.row_labels, after[POOLED], after.labelled, POOLED, data, subject, how)
        right = frozen_classifier(split.train, split.train_labels, seed=how.seed).predict(split.test)
        penalties: list[JSON] = [*PENALTIES]
        yield split.score(
            right == split.test_labels, f"frozen {share:.0%}", "accuracy", share=share, inverse_penalties=penalties
        )
        if subject.name in (UNTRAINED, RAW_PIXELS, COLOURS):
            continue
        fresh = untrained if untrained is not None else fresh_copy(subject.encoder, seed=how.seed)
        alone = _of_the_same_length(scratch or FINETUNES["scratch"], protocol)
        for name, start, way, whose in (
            ("finetuned", subject.encoder, protocol, subject.identity),
            ("from scratch", fresh, alone, weights_identity(fresh)),
        ):
            title = f"{name} {share:.0%}"
            tuned, multiplier = _finetuned(replace(subject, encoder=start), known, task, way, how, title)
            score = split.score(tuned, title, "accuracy", share=share, **asdict(way))
            note = f"rates × {multiplier:g}, chosen on held-out training labels" if multiplier else ""
            yield replace(score, encoder=whose, note=note)


def _own_protocol(subject: Subject) -> FinetuneProtocol:
    own = FinetuneProtocol()
    return own if subject.flips else replace(own, views=replace(own.views, flip=0.0))


def _of_the_same_length(own: FinetuneProtocol, other: FinetuneProtocol) -> FinetuneProtocol:
    """A protocol with the steps, batches and views of another."""
    fields = ("steps", "epochs", "batch_size", "schedule", "milestones", "factor", "warmup", "views")
    return replace(own, **{field: getattr(other, field) for field in fields})


def _finetuned(
    start: Subject, known: Known, task: Task, way: FinetuneProtocol, how: Measuring, title: str
) -> tuple[Tensor, float | None]:
    """Which readable test images are right after training, and the multiplier that held-out labels chose, if any."""
    labels, test_labels = _checked_labels(task)
    classes, view = int(labels.max()) + 1, start.view

    def trained(images: Known, multiplier: float, share: float, called: str) -> Tuned:
        tuned = Tuned(start.encoder, images, way, classes=classes, seed=how.seed, group=how.group)
        tuned.train(view, multiplier=multiplier, share=share, title=called if how.is_shown else None)
        return tuned

    def held_out_accuracy(multiplier: float) -> float:
        tuned = trained(kept, multiplier, TRIAL, f"{title}, trying rates × {multiplier:g}")
        index, predicted = tuned.predict(held_out.source, view)
        return float((predicted == held_out.labels[index]).double().mean())

    chosen = None
    if not way.multipliers or min(way.multipliers) <= 0:
        raise SettingError(f"multipliers of the rates must be positive; got {way.multipliers}")
    if len(way.multipliers) > 1 and int(torch.unique(known.labels, return_counts=True)[1].min()) >= PLENTY:
        fold = stratified_folds(known.labels, HOLD_OUT, seed=how.seed)
        kept, held_out = (known.part(items.nonzero().flatten()) for items in (fold > 0, fold == 0))
        accuracy = {multiplier: held_out_accuracy(multiplier) for multiplier in way.multipliers}
        chosen = max(accuracy, key=lambda multiplier: (accuracy[multiplier], -multiplier))
    tuned = trained(known, chosen or way.multipliers[0], 1.0, title)
    index, predicted = tuned.predict(task.test, view)
    return (predicted == test_labels[index]).double(), chosen


def draw_share(labels: Tensor, share: float, *, seed: int) -> Tensor:
    """Rows holding ``share`` of every class, rounded, at least one; in ascending order."""
    if not 0 < share <= 1:
        raise SettingError(f"share of the labels must lie in (0, 1]; got {share}")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    parts = []
    for number in torch.unique(labels):
        own = order[labels[order] == number]
        parts.append(own[: max(1, round(share * len(own)))])
    return torch.cat(parts).sort().values


def _checked_labels(task: Task) -> tuple[Tensor, Tensor]:
    """Of several classes to train on, and of no other class to be tested on."""
    labels, test_labels = source_labels(task.train, "training"), source_labels(task.test, "test")
    check_several_classes(labels, "training labels")
    check_no_class_is_new(labels, test_labels)
    return labels, test_labels


def source_labels(source: Source, name: str) -> Tensor:
    """The labels of a source, one an item; refused where there are none, or some items have none."""
    if source.labels is None:
        raise DataError(f"the {name} images have no labels, and fine-tuning needs them; give a labelled source")
    labels = torch.from_numpy(np.asarray(source.labels))
    check_labels(labels, len(source), f"{name} labels")
    return labels
