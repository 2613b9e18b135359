"""Fine-tuning: the whole network on a share of the labels, trunk and head at rates of their own."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigenview.data import BatchSource, Loader, Source, subset
from eigenview.data.progress import progress_bar
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.checks import check_labels, check_no_class_is_new, check_several_classes
from eigenview.evaluation.evaluate import Split, data_identity
from eigenview.evaluation.features import evaluating, evaluation_batches, extract
from eigenview.evaluation.identity import weights_identity
from eigenview.evaluation.linear import fit_logistic
from eigenview.evaluation.protocols import FinetuneProtocol
from eigenview.evaluation.scores import Score
from eigenview.nn import POOLED, Encoder
from eigenview.optim import ParameterGroup, build_optimizer, build_schedule, set_learning_rate
from eigenview.views import CentreView, Cropper, Views


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
) -> Tensor:
    """(n,) 1 where a readable test image is right after training encoder and head on ``share`` of the labels.

    ``encoder`` itself is not changed: a copy is trained, batch norms included. From scratch is the same call with an
    untrained encoder. The share is drawn by ``seed``, evenly over classes, at least one image of each.
    """
    protocol = protocol if protocol is not None else FinetuneProtocol()
    labels, test_labels = _labels(train, "training"), _labels(test, "test")
    check_several_classes(labels, "training labels")
    check_no_class_is_new(labels, test_labels)
    chosen = draw_share(labels, share, seed=seed)
    model, head = deepcopy(encoder), nn.Linear(encoder.feature_width, int(labels.max()) + 1)
    with torch.no_grad():
        head.weight.normal_(std=protocol.deviation, generator=torch.Generator().manual_seed(seed))
        head.bias.zero_()
    device = next(model.parameters(), head.weight).device
    head.to(device)
    _train(model, head, subset(train, chosen.numpy()), labels[chosen], view, protocol, seed, shows_progress)
    right = []
    with evaluating(model, head), torch.no_grad():
        for batch, images in evaluation_batches(test, view):
            predicted = head(model(images.to(device))).argmax(dim=1).cpu()
            right.append(predicted == test_labels[batch.index])
    return torch.cat(right).double()


def finetune_scores(
    encoder: Encoder,
    untrained: Encoder,
    train: Source,
    test: Source,
    *,
    view: CentreView,
    protocol: FinetuneProtocol | None = None,
    shares: Sequence[float] = (0.01, 0.1, 1.0),
    subject: str = "encoder",
    seed: int = 0,
) -> list[Score]:
    """Frozen, fine-tuned and from scratch, on the same share of the labels: three rows of one table for each share.

    Frozen is logistic regression (C = 1, standardised features) on the images that fine-tuning gets.
    """
    protocol = protocol if protocol is not None else FinetuneProtocol()
    before, after = (extract(encoder, source, view=view) for source in (train, test))
    data = {"train": data_identity(train, before), "test": data_identity(test, after)}
    weights, scores = weights_identity(encoder), []
    for share in shares:
        kept = torch.isin(before.index, draw_share(_labels(train, "training"), share, seed=seed))
        rows, labels = before[POOLED][kept], before.labelled[kept]
        split = Split(rows, labels, after[POOLED], after.labelled, POOLED, dict(data), subject, weights, seed)
        own, other = split.standardised()
        right = fit_logistic(own, labels).predict(other) == after.labelled
        scores.append(split.score(right, f"frozen {share:.0%}", "accuracy", share=share, inverse_penalty=1.0))
        for name, start in {"finetuned": encoder, "from scratch": untrained}.items():
            tuned = finetune(start, train, test, view=view, protocol=protocol, share=share, seed=seed)
            scores.append(split.score(tuned, f"{name} {share:.0%}", "accuracy", share=share, **asdict(protocol)))
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


def _train(
    model: Encoder,
    head: nn.Linear,
    source: Source,
    labels: Tensor,
    view: CentreView,
    protocol: FinetuneProtocol,
    seed: int,
    shows_progress: bool,
) -> None:
    recipe = protocol.views.recipe(view)
    views, stays_whole = Views(recipe, seed=seed), isinstance(source, BatchSource)
    size = min(protocol.batch_size, len(source))
    prepare = None if stays_whole else Cropper(recipe, seed=seed)
    loader = Loader(source, batch_size=size, seed=seed, prepare=prepare)  # whole batches: batch norms see no small ones
    optimizer = build_optimizer(
        "sgd",
        [
            ParameterGroup("trunk", tuple(model.parameters()), protocol.trunk_rate, protocol.weight_decay),
            ParameterGroup("head", tuple(head.parameters()), protocol.head_rate, protocol.weight_decay),
        ],
        momentum=protocol.momentum,
    )
    schedule = build_schedule(
        "step",
        total=protocol.epochs * len(loader),
        milestones=[epoch * len(loader) for epoch in protocol.milestones],
        factor=protocol.factor,
    )
    device, step = head.weight.device, 0
    model.train()
    with progress_bar("fine-tuning", total=protocol.epochs, shown=shows_progress) as advance:
        for epoch in range(protocol.epochs):
            loader.set_epoch(epoch)
            for batch in loader:
                whole = batch.to(device)
                if stays_whole:
                    made = views(whole.views[0], batch.index, epoch=epoch)
                else:
                    made = views.finish(whole.views, batch.index, epoch=epoch)
                set_learning_rate(optimizer, schedule(step))
                optimizer.zero_grad()
                loss = cross_entropy(head(model(made.views[0])), labels[batch.index].to(device))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                step += 1
            advance(1)


def _labels(source: Source, name: str) -> Tensor:
    if source.labels is None:
        raise DataError(f"the {name} images have no labels, and fine-tuning needs them; give a labelled source")
    labels = torch.from_numpy(np.asarray(source.labels))
    check_labels(labels, len(source), f"{name} labels")
    return labels
