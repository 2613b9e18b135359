"""Fine-tuning: the whole network on a share of the labels, trunk and head at rates of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigenview.batches import ViewLoader, evaluating, first_view
from eigenview.batches.identity import weights_identity
from eigenview.data import Source, subset
from eigenview.distributed import Group, gather_rows, sum_over_processes, world_size
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import check_labels, check_no_class_is_new, check_several_classes
from eigenview.evaluation.linear import fit_logistic
from eigenview.evaluation.probe import start_head
from eigenview.evaluation.protocol_scores import Split
from eigenview.evaluation.protocols import FINETUNES, FinetuneProtocol
from eigenview.evaluation.subjects import Measuring, Subject, Task
from eigenview.nn import POOLED, Encoder, synchronise
from eigenview.optim import ParameterGroup, build_optimizer, build_schedule, set_learning_rate
from eigenview.progress import progress_bar
from eigenview.runs import Score, fresh_copy
from eigenview.views import CentreView, Views

SHARES = (0.01, 0.1, 1.0)  # of the labels


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
    untrained encoder. The share is drawn by the seed, evenly over classes, at least one image of each. With a group,
    processes share every batch, synchronise batch norms and gradients, and all get the answer.
    """
    how, way = measuring or Measuring(), protocol or FinetuneProtocol()
    labels, test_labels = source_labels(task.train, "training"), source_labels(task.test, "test")
    check_several_classes(labels, "training labels")
    check_no_class_is_new(labels, test_labels)
    chosen = draw_share(labels, share, seed=how.seed)
    device = next(encoder.parameters(), torch.empty(0)).device
    model = synchronise(deepcopy(encoder).to(memory_format=torch.channels_last), how.group)  # type: ignore[call-overload]
    head = start_head(encoder.feature_width, int(labels.max()) + 1, deviation=way.deviation, seed=how.seed)
    tuned = _Tuned(model, head.to(device), way, how.group)
    tuned.train(subset(task.train, chosen.numpy()), labels[chosen], view, how.seed, how.is_shown)
    index, predicted = tuned.predict(task.test, view)
    return (predicted == test_labels[index]).double()


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

    ``protocols`` by share of the labels; otherwise 1 %, 10 % and 100 % with SwAV's rates for 10 %. From scratch is the
    same encoder with fresh weights (``untrained``), at rates of its own (``scratch``; ours are 0.1 for trunk and head)
    and for the epochs of the share's protocol. Frozen is logistic regression (C = 1, standardised features) on the
    images that fine-tuning gets.
    """
    given = protocols if protocols is not None else dict.fromkeys(SHARES, FinetuneProtocol())
    own = scratch if scratch is not None else FINETUNES["scratch"]
    fresh = untrained if untrained is not None else fresh_copy(subject.encoder, seed=how.seed)
    before, after = (how.features(subject, source, [POOLED]) for source in (task.train, task.test))
    data = task.identity(before.labelled, after.labelled)
    for share, protocol in given.items():
        kept = torch.isin(before.index, draw_share(source_labels(task.train, "training"), share, seed=how.seed))
        rows, labels = before[POOLED][kept], before.labelled[kept]
        split = Split(rows, labels, after[POOLED], after.labelled, POOLED, data, subject, how)
        known, unknown = split.standardised()
        right = fit_logistic(known, labels).predict(unknown) == after.labelled
        yield split.score(right, f"frozen {share:.0%}", "accuracy", share=share, inverse_penalty=1.0)
        alone = replace(own, epochs=protocol.epochs, milestones=protocol.milestones)
        for name, start, way, whose in (
            ("finetuned", subject.encoder, protocol, subject.identity),
            ("from scratch", fresh, alone, weights_identity(fresh)),
        ):
            tuned = finetune(start, task, view=subject.view, protocol=way, share=share, measuring=how)
            score = split.score(tuned, f"{name} {share:.0%}", "accuracy", share=share, **asdict(way))
            yield replace(score, encoder=whose)


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


class _Tuned:
    """A network and its linear head, under training; every process of the group holds the same."""

    def __init__(self, model: nn.Module, head: nn.Linear, protocol: FinetuneProtocol, group: Group) -> None:
        self.model, self.head, self.protocol, self.group = model, head, protocol, group
        self.device = head.weight.device
        self.optimizer = build_optimizer(
            "sgd",
            [
                ParameterGroup("trunk", tuple(model.parameters()), protocol.trunk_rate, protocol.weight_decay),
                ParameterGroup("head", tuple(head.parameters()), protocol.head_rate, protocol.weight_decay),
            ],
            momentum=protocol.momentum,
        )

    def train(self, source: Source, labels: Tensor, view: CentreView, seed: int, shows_progress: bool) -> None:
        protocol = self.protocol
        size = min(protocol.batch_size, len(source))
        views = Views(protocol.views.recipe(view), seed=seed)
        loader = ViewLoader.shuffled(source, views, batch_size=size, seed=seed, group=self.group)  # batches of one size
        schedule = build_schedule(
            "step",
            total=protocol.epochs * len(loader),
            milestones=[epoch * len(loader) for epoch in protocol.milestones],
            factor=protocol.factor,
        )
        step = 0
        self.model.train()
        with progress_bar("fine-tuning", total=protocol.epochs * len(loader), shown=shows_progress) as advance:
            for epoch in range(protocol.epochs):
                for seen in loader.epoch(epoch, device=self.device):
                    set_learning_rate(self.optimizer, schedule(step))
                    self._step(first_view(seen), labels.to(self.device)[seen.batch.index], size)
                    step += 1
                    advance(1)

    def _step(self, images: Tensor, labels: Tensor, count: int) -> None:
        """One step on this process's share of ``count`` images; gradients are those of the mean over all of them."""
        self.optimizer.zero_grad()
        logits = self.head(self.model(images.contiguous(memory_format=torch.channels_last)))
        (cross_entropy(logits, labels, reduction="sum") / count).backward()  # type: ignore[no-untyped-call]
        if world_size(self.group) > 1:
            for parameter in (*self.model.parameters(), *self.head.parameters()):
                if parameter.grad is not None:
                    parameter.grad = sum_over_processes(parameter.grad, self.group)
        self.optimizer.step()

    def predict(self, source: Source, view: CentreView) -> tuple[Tensor, Tensor]:
        """Which items are readable, and the class of each, in the source's order."""
        places, classes = [torch.empty(0, dtype=torch.long)], [torch.empty(0, dtype=torch.long)]
        for seen in ViewLoader.in_order(source, view, group=self.group).epoch():
            if len(seen) == 0:
                continue
            images = first_view(seen).to(self.device, memory_format=torch.channels_last)
            with evaluating(self.model, self.head):
                classes.append(self.head(self.model(images)).argmax(dim=1).cpu())
            places.append(seen.batch.index)
        index, predicted = (gather_rows(torch.cat(blocks), self.group) for blocks in (places, classes))
        order = index.argsort()
        return index[order], predicted[order]


def source_labels(source: Source, name: str) -> Tensor:
    """The labels of a source, one an item; refused where there are none, or some items have none."""
    if source.labels is None:
        raise DataError(f"the {name} images have no labels, and fine-tuning needs them; give a labelled source")
    labels = torch.from_numpy(np.asarray(source.labels))
    check_labels(labels, len(source), f"{name} labels")
    return labels
