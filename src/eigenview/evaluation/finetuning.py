"""Fine-tuning: the whole network on a share of the labels, next to frozen features and to a fresh start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigenview.batches import PROJECTION, Extractor, ViewLoader, encode_source, first_view
from eigenview.batches.identity import weights_identity
from eigenview.data import Source, subset
from eigenview.distributed import Group, sum_over_processes, world_size
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import check_labels, check_no_class_is_new, check_several_classes, column_statistics
from eigenview.evaluation.linear import LinearClassifier, fit_logistic, select_logistic, stratified_folds
from eigenview.evaluation.probe import HOLD_OUT, start_head
from eigenview.evaluation.protocol_scores import Split
from eigenview.evaluation.protocols import FINETUNES, FinetuneProtocol
from eigenview.evaluation.scores import COLOURS, RAW_PIXELS, UNTRAINED
from eigenview.evaluation.subjects import Measuring, Subject, Task
from eigenview.files import JSON
from eigenview.nn import POOLED, Encoder, synchronise
from eigenview.nn.batch_norm import keep_statistics, quicken_statistics
from eigenview.optim import build_optimizer, build_schedule, depth_rates, parameter_groups, set_learning_rate
from eigenview.progress import progress_bar
from eigenview.runs import Score, fresh_copy
from eigenview.views import CentreView, Views

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # inverse ones, of the frozen features' logistic regression
FOLDS = 5
MOVES = 0.1  # of the way: running statistics with each batch, at least; some hundred steps are all there are
NONE = torch.empty(0, dtype=torch.long)
SHARES = (0.01, 0.1, 1.0)  # of the labels
TRIAL = 0.25  # of the steps, for each multiplier that is tried
LENGTH = ("steps", "epochs", "batch_size", "schedule", "milestones", "factor", "warmup", "views")  # of a protocol
PLENTY = 20  # labels of every class, from which on a fifth is held out to choose by


@dataclass(frozen=True)
class Known:
    """Images with labels to train on, and frozen features of the readable ones; none where no head starts from them."""

    source: Source
    labels: Tensor  # (n,)
    rows: Tensor = NONE  # (r, d)
    index: Tensor = NONE  # (r,) which item each row is, ascending

    @property
    def row_labels(self) -> Tensor:
        return self.labels[self.index]

    def part(self, items: Tensor) -> Known:
        """Some of the items, in ascending order."""
        kept = torch.isin(self.index, items)
        index = torch.searchsorted(items, self.index[kept])
        return Known(subset(self.source, items.numpy()), self.labels[items], self.rows[kept], index)


def frozen_classifier(rows: Tensor, labels: Tensor, *, seed: int) -> LinearClassifier:
    """Logistic regression on standardised features, the penalty by cross-validation; it takes rows as they are.

    Classes of a single row leave nothing to choose by: C = 1 then.
    """
    mean, scale = column_statistics(rows)
    known, folds = (rows - mean) / scale, min(FOLDS, int(labels.bincount().min()))
    if folds < 2:
        fitted = fit_logistic(known, labels)
    else:
        fitted = select_logistic(known, labels, inverse_penalties=PENALTIES, folds=folds, seed=seed).classifier
    weight = fitted.weight / scale
    return LinearClassifier(weight, fitted.bias - weight @ mean, fitted.is_converged)


class Tuned:
    """A copy of a network and its linear head, under training; every process of the group holds the same."""

    def __init__(
        self, encoder: Encoder, known: Known, protocol: FinetuneProtocol, *, classes: int, seed: int, group: Group
    ) -> None:
        self.known, self.protocol, self.seed, self.group = known, protocol, seed, group
        self.channels = encoder.channels
        self.device = next(encoder.parameters(), torch.empty(0)).device
        model: nn.Module = deepcopy(encoder).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model = keep_statistics(model) if protocol.statistics == "kept" else synchronise(model, group)
        quicken_statistics(model, MOVES)
        assert isinstance(model, Encoder)  # only norms within it were replaced
        self.model = model
        head = start_head(encoder.feature_width, classes, deviation=protocol.deviation, seed=seed)
        if protocol.head == "logistic":
            start = frozen_classifier(known.rows, known.row_labels, seed=seed)
            with torch.no_grad():
                head.weight.copy_(start.weight)
                head.bias.copy_(start.bias)
        self.head = head.to(self.device)

    def train(self, view: CentreView, *, multiplier: float, share: float, title: str | None) -> None:
        """``share`` of the protocol's steps at its rates × ``multiplier``; without a ``title`` in silence."""
        protocol = self.protocol
        size = min(protocol.batch_size, len(self.known.source))
        views = Views(protocol.views.recipe(view), seed=self.seed)
        loader = ViewLoader(  # batches of one size
            self.known.source, views, batch_size=size, seed=self.seed, channels=self.channels, group=self.group
        )
        longest = protocol.epochs * len(loader)
        total = max(1, round(share * min(longest, protocol.steps or longest)))
        schedule = build_schedule(
            protocol.schedule,
            total=total,
            warmup=round(protocol.warmup * total),
            milestones=[round(share * epoch * len(loader)) for epoch in protocol.milestones],
            factor=protocol.factor,
        )
        optimizer = self._optimizer(multiplier)
        labels = self.known.labels.to(self.device)
        self.model.train()
        with progress_bar(title or "", total=total, shown=title is not None) as advance:
            epochs = range(-(-total // len(loader)))
            batches = chain.from_iterable(loader.epoch(epoch, device=self.device) for epoch in epochs)
            for step, seen in enumerate(islice(batches, total)):
                set_learning_rate(optimizer, schedule(step))
                self._step(optimizer, first_view(seen), labels[seen.batch.index], size)
                advance(1)

    def _optimizer(self, multiplier: float) -> torch.optim.Optimizer:
        protocol = self.protocol
        rates = depth_rates(self.model, "trunk.", top=multiplier * protocol.trunk_rate, decay=protocol.depth_decay)
        groups = parameter_groups(
            nn.ModuleDict({"trunk": self.model, "head": self.head}),
            learning_rate=multiplier * protocol.head_rate,
            weight_decay=protocol.weight_decay,
            apart=rates,
        )
        return build_optimizer(protocol.optimizer, groups, momentum=protocol.momentum)

    def _step(self, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, count: int) -> None:
        """One step on this process's share of ``count`` images; gradients are those of the mean over all of them."""
        optimizer.zero_grad()
        logits = self.head(self.model(images.contiguous(memory_format=torch.channels_last)))
        loss = cross_entropy(logits, labels, reduction="sum", label_smoothing=self.protocol.smoothing) / count
        loss.backward()  # type: ignore[no-untyped-call]
        if world_size(self.group) > 1:
            for parameter in (*self.model.parameters(), *self.head.parameters()):
                if parameter.grad is not None:
                    parameter.grad = sum_over_processes(parameter.grad, self.group)
        optimizer.step()

    def predict(self, source: Source, view: CentreView) -> tuple[Tensor, Tensor]:
        """Which items are readable, and the class of each, in the source's order."""
        extractor = Extractor(self.model, (PROJECTION,), self.head)
        rows = encode_source(extractor, source, view, title=None, group=self.group)
        return rows.index, rows.layers[PROJECTION][0].argmax(dim=1)


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
    called: str = "",
) -> Iterator[Score]:
    """Frozen, fine-tuned and from scratch, on the same share of the labels: three rows of one table for each share.

    ``protocols`` by share of the labels; otherwise 1 %, 10 % and 100 % with ours, which mirrors images unless the run's
    own views did not. From scratch is the same encoder with
    fresh weights (``untrained``), at rates of its own (``scratch``; otherwise ``FINETUNES["scratch"]``), for the length
    and on the views of the share's protocol. Frozen is logistic regression on the images that fine-tuning gets, the
    penalty by cross-validation. Baselines are measured frozen only: fine-tuned, they are the run's row from scratch.
    ``called`` stands before the names of the other scores.
    """
    own = FinetuneProtocol()
    own = own if subject.flips else replace(own, views=replace(own.views, flip=0.0))
    given = protocols if protocols is not None else dict.fromkeys(SHARES, own)
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
        length = {field: getattr(protocol, field) for field in LENGTH}
        alone = replace(scratch or FINETUNES["scratch"], **length)
        for name, start, way, whose in (
            ("finetuned", subject.encoder, protocol, subject.identity),
            ("from scratch", fresh, alone, weights_identity(fresh)),
        ):
            title = f"{called} {name} {share:.0%}".strip()
            tuned, multiplier = _finetuned(replace(subject, encoder=start), known, task, way, how, title)
            score = split.score(tuned, title, "accuracy", share=share, **asdict(way))
            note = f"rates × {multiplier:g}, chosen on held-out training labels" if multiplier else ""
            yield replace(score, encoder=whose, note=note)


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
    """Of several classes to train on, and of no other class to be tested on; refused where some items have none."""
    both = []
    for name, source in (("training", task.train), ("test", task.test)):
        if source.labels is None:
            raise DataError(f"the {name} images have no labels, and fine-tuning needs them; give a labelled source")
        both.append(torch.from_numpy(np.asarray(source.labels)))
        check_labels(both[-1], len(source), f"{name} labels")
    labels, test_labels = both
    check_several_classes(labels, "training labels")
    check_no_class_is_new(labels, test_labels)
    return labels, test_labels
