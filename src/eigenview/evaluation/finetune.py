"""Fine-tuning: the whole network on a share of the labels, trunk and head at rates of their own."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigenview.data import BatchSource, Loader, Source, subset
from eigenview.distributed import Group, gather_rows, rank, sum_over_processes, world_size
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import check_labels, check_no_class_is_new, check_several_classes
from eigenview.evaluation.evaluate import Split
from eigenview.evaluation.features import evaluating, evaluation_batches, extract
from eigenview.evaluation.identity import data_identity, weights_identity
from eigenview.evaluation.linear import fit_logistic
from eigenview.evaluation.probe import start_head
from eigenview.evaluation.protocols import FINETUNES, FinetuneProtocol
from eigenview.evaluation.scores import JSON, Score
from eigenview.nn import POOLED, Encoder, synchronise
from eigenview.optim import ParameterGroup, build_optimizer, build_schedule, set_learning_rate
from eigenview.progress import progress_bar
from eigenview.views import CentreView, Cropper, Views

SHARES = (0.01, 0.1, 1.0)  # of the labels


def finetune(
    encoder: Encoder,
    train: Source,
    test: Source,
    *,
    view: CentreView,
    protocol: FinetuneProtocol | None = None,
    share: float = 1.0,
    seed: int = 0,
    shows_progress: bool = True,
    group: Group = None,
) -> Tensor:
    """(n,) 1 where a readable test image is right after training encoder and head on ``share`` of the labels.

    ``encoder`` itself is not changed: a copy is trained, batch norms included. From scratch is the same call with an
    untrained encoder. The share is drawn by ``seed``, evenly over classes, at least one image of each. With a
    ``group``, processes share every batch, synchronise batch norms and gradients, and all get the answer.
    """
    protocol = protocol if protocol is not None else FinetuneProtocol()
    labels, test_labels = source_labels(train, "training"), source_labels(test, "test")
    check_several_classes(labels, "training labels")
    check_no_class_is_new(labels, test_labels)
    chosen = draw_share(labels, share, seed=seed)
    device = next(encoder.parameters(), torch.empty(0)).device
    model = synchronise(deepcopy(encoder).to(memory_format=torch.channels_last), group)  # type: ignore[call-overload]
    head = start_head(encoder.feature_width, int(labels.max()) + 1, deviation=protocol.deviation, seed=seed)
    tuned = _Tuned(model, head.to(device), protocol, group)
    tuned.train(subset(train, chosen.numpy()), labels[chosen], view, seed, shows_progress and rank(group) == 0)
    index, predicted = tuned.predict(test, view)
    return (predicted == test_labels[index]).double()


def finetune_scores(
    encoder: Encoder,
    untrained: Encoder,
    train: Source,
    test: Source,
    *,
    view: CentreView,
    protocols: Mapping[float, FinetuneProtocol] | None = None,
    scratch: FinetuneProtocol | None = None,
    subject: str = "encoder",
    seed: int = 0,
    shows_progress: bool = True,
    group: Group = None,
) -> list[Score]:
    """Frozen, fine-tuned and from scratch, on the same share of the labels: three rows of one table for each share.

    ``protocols`` by share of the labels; otherwise 1 %, 10 % and 100 % with SwAV's rates for 10 %. From scratch has
    rates of its own (``scratch``; ours are 0.1 for trunk and head) and the epochs of the share's protocol. Frozen is
    logistic regression (C = 1, standardised features) on the images that fine-tuning gets.
    """
    given = protocols if protocols is not None else dict.fromkeys(SHARES, FinetuneProtocol())
    own = scratch if scratch is not None else FINETUNES["scratch"]
    before, after = (
        extract(encoder, source, view=view, shows_progress=shows_progress, group=group) for source in (train, test)
    )
    data: dict[str, JSON] = {
        "train": data_identity(train, before.labelled),
        "test": data_identity(test, after.labelled),
    }
    weights, fresh, scores = weights_identity(encoder), weights_identity(untrained), []
    for share, protocol in given.items():
        kept = torch.isin(before.index, draw_share(source_labels(train, "training"), share, seed=seed))
        rows, labels = before[POOLED][kept], before.labelled[kept]
        split = Split(rows, labels, after[POOLED], after.labelled, POOLED, dict(data), subject, weights, seed)
        known, unknown = split.standardised()
        right = fit_logistic(known, labels).predict(unknown) == after.labelled
        scores.append(split.score(right, f"frozen {share:.0%}", "accuracy", share=share, inverse_penalty=1.0))
        alone = replace(own, epochs=protocol.epochs, milestones=protocol.milestones)
        for name, start, way, whose in (
            ("finetuned", encoder, protocol, weights),
            ("from scratch", untrained, alone, fresh),
        ):
            tuned = finetune(
                start,
                train,
                test,
                view=view,
                protocol=way,
                share=share,
                seed=seed,
                shows_progress=shows_progress,
                group=group,
            )
            score = split.score(tuned, f"{name} {share:.0%}", "accuracy", share=share, **asdict(way))
            scores.append(replace(score, encoder=whose))
    return scores


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
        recipe, protocol = self.protocol.views.recipe(view), self.protocol
        views, stays_whole = Views(recipe, seed=seed), isinstance(source, BatchSource)
        loader = Loader(  # whole batches: batch norms see no small ones
            source,
            batch_size=min(protocol.batch_size, len(source)),
            seed=seed,
            prepare=None if stays_whole else Cropper(recipe, seed=seed),
            group=self.group,
        )
        schedule = build_schedule(
            "step",
            total=protocol.epochs * len(loader),
            milestones=[epoch * len(loader) for epoch in protocol.milestones],
            factor=protocol.factor,
        )
        step = 0
        self.model.train()
        with progress_bar("fine-tuning", total=protocol.epochs, shown=shows_progress) as advance:
            for epoch in range(protocol.epochs):
                loader.set_epoch(epoch)
                for batch in loader:
                    whole = batch.to(self.device)
                    made = (
                        views(whole.views[0], batch.index, epoch=epoch)
                        if stays_whole
                        else views.finish(whole.views, batch.index, epoch=epoch)
                    )
                    set_learning_rate(self.optimizer, schedule(step))
                    self._step(made.views[0], labels[batch.index].to(self.device), loader.plan.batch_size)
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
        with evaluating(self.model, self.head), torch.no_grad():
            for batch, images in evaluation_batches(source, view, group=self.group):
                found = self.head(self.model(images.to(self.device, memory_format=torch.channels_last)))
                places.append(batch.index)
                classes.append(found.argmax(dim=1).cpu())
        index, predicted = (gather_rows(torch.cat(parts), self.group) for parts in (places, classes))
        order = index.argsort()
        return index[order], predicted[order]


def source_labels(source: Source, name: str) -> Tensor:
    """The labels of a source, one an item; refused where there are none, or some items have none."""
    if source.labels is None:
        raise DataError(f"the {name} images have no labels, and fine-tuning needs them; give a labelled source")
    labels = torch.from_numpy(np.asarray(source.labels))
    check_labels(labels, len(source), f"{name} labels")
    return labels
