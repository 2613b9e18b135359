"""A network and its linear head under training on labelled images, and the head that frozen features give."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigenview.batches import PROJECTION, Extractor, SeenBatch, ViewLoader, encode_source, first_view
from eigenview.data import Source, subset
from eigenview.distributed import Group, sum_over_processes, world_size
from eigenview.evaluation.checks import column_statistics
from eigenview.evaluation.linear import LinearClassifier, fit_logistic, select_logistic
from eigenview.evaluation.probe import start_head
from eigenview.evaluation.protocols import FinetuneProtocol
from eigenview.nn import Encoder, synchronise
from eigenview.nn.batch_norm import keep_statistics, quicken_statistics
from eigenview.optim import build_optimizer, build_schedule, depth_rates, parameter_groups, set_learning_rate
from eigenview.progress import progress_bar
from eigenview.views import CentreView, Views

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # inverse ones, of the frozen features' logistic regression
FOLDS = 5
MOVES = 0.1  # of the way: running statistics with each batch, at least; some hundred steps are all there are
NONE = torch.empty(0, dtype=torch.long)


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
            for step, seen in enumerate(self._batches(loader, total)):
                set_learning_rate(optimizer, schedule(step))
                self._step(optimizer, first_view(seen), labels[seen.batch.index], size)
                advance(1)

    def _batches(self, loader: ViewLoader, total: int) -> Iterator[SeenBatch]:
        for epoch in range(-(-total // len(loader))):
            batches = loader.epoch(epoch, device=self.device)
            for _, seen in zip(range(total - epoch * len(loader)), batches, strict=False):
                yield seen

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
