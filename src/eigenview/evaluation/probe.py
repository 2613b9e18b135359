"""Linear probes by minibatches: the papers' protocols, several learning rates trained together in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigenview.batches import Extractor, ViewLoader, encoded_batches, evaluating
from eigenview.data import Source, subset
from eigenview.data.order import Plan
from eigenview.distributed import Group, gather_rows
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import (
    check_features,
    check_labels,
    check_no_class_is_new,
    check_several_classes,
    extract,
)
from eigenview.evaluation.linear import LinearClassifier, stratified_folds
from eigenview.evaluation.protocols import PROBES, ProbeProtocol
from eigenview.evaluation.scores import mean_score
from eigenview.evaluation.subjects import Measuring, Subject, Task
from eigenview.nn import POOLED, Encoder
from eigenview.optim import ParameterGroup, build_optimizer, build_schedule, scaled_learning_rate, set_learning_rate
from eigenview.progress import progress_bar
from eigenview.runs import Score
from eigenview.views import CentreView, Views

HOLD_OUT = 5  # one of so many parts of the training rows chooses the learning rate


@dataclass(frozen=True)
class FeatureRows:
    """The same features in every epoch: seconds instead of hours, where the protocol's views do not matter."""

    features: Tensor  # (n, d)
    labels: Tensor  # (n,)

    def part(self, index: Tensor) -> FeatureRows:
        return FeatureRows(self.features[index], self.labels[index])

    def fixed(self) -> tuple[Tensor, Tensor]:
        """The rows as they are evaluated (n, d), and their labels."""
        return self.features, self.labels

    def batches(self, epoch: int, size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The rows and labels of one epoch in an order drawn by (seed, epoch), the last batch perhaps smaller."""
        order = torch.from_numpy(Plan(len(self.labels), size, seed, drop_last=False).order(epoch))
        for start in range(0, len(order), size):
            index = order[start : start + size]
            yield self.features[index], self.labels[index]


@dataclass
class ViewRows:
    """Features of new views in every epoch, as the papers' code computes them.

    With a ``group``, each process encodes its share of every batch and all get the whole batch. The heads are then
    trained alike in every process: they are small, and the encoder is where the time goes.
    """

    encoder: Encoder
    source: Source
    _: KW_ONLY
    view: CentreView
    protocol: ProbeProtocol
    layer: str = POOLED
    group: Group = None
    loaders: dict[tuple[int, int], ViewLoader] = field(default_factory=dict, init=False)  # by size and seed

    def __post_init__(self) -> None:
        if self.source.labels is None:
            raise DataError("these images have no labels, and a probe needs them; give a labelled source")
        self.labels = torch.from_numpy(np.asarray(self.source.labels))

    def part(self, index: Tensor) -> ViewRows:
        return replace(self, source=subset(self.source, index.numpy()))

    def fixed(self) -> tuple[Tensor, Tensor]:
        extractor = Extractor(self.encoder, (self.layer,))
        features = extract(extractor, self.source, view=self.view, title=None, group=self.group)
        return features[self.layer], self.labels[features.index]

    def batches(self, epoch: int, size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        if self.protocol.views is None:
            raise SettingError("this protocol has no random views; train it on features")
        if (size, seed) not in self.loaders:  # kept, so that workers live from epoch to epoch
            self.loaders[size, seed] = ViewLoader(
                self.source,
                Views(self.protocol.views.recipe(self.view), seed=seed),
                batch_size=size,
                seed=seed,
                drop_last=False,
                channels=self.encoder.channels,
                group=self.group,
            )
        for encoded in encoded_batches(Extractor(self.encoder, (self.layer,)), self.loaders[size, seed], epoch=epoch):
            rows = encoded.layers[self.layer]
            own = rows[0] if len(encoded.batch) else torch.zeros(0, self._width)
            yield gather_rows(own, self.group), self.labels[gather_rows(encoded.batch.index, self.group)]

    @cached_property
    def _width(self) -> int:
        """Of the layer: known also to a process that gets no row of an epoch's rest."""
        blank = torch.zeros(1, self.encoder.channels, self.view.size, self.view.size)
        with evaluating(self.encoder):
            return Extractor(self.encoder, (self.layer,))(blank)[self.layer].shape[1]


@dataclass(frozen=True)
class ProbeResult:
    """The head of the chosen learning rate, after the last epoch."""

    classifier: LinearClassifier
    multiplier: float  # of the protocol's learning rate
    held_out_accuracy: dict[float, float]  # by multiplier, on training rows held out; empty where one was given


def train_probe(
    protocol: ProbeProtocol,
    rows: FeatureRows | ViewRows,
    *,
    multipliers: Sequence[float] = (1.0,),
    seed: int = 0,
    shows_progress: bool = True,
) -> ProbeResult:
    """The linear head that a protocol trains on ``rows``, at its learning rate × the best of ``multipliers``.

    Several multipliers are trained together on four fifths of the training rows, one pass over the encoder for all;
    the best on the other fifth is trained anew on all rows. Test data have no way in. The last epoch counts, not the
    best one.
    """
    count = check_labels(rows.labels, len(rows.labels), "labels")
    check_several_classes(rows.labels, "labels")
    if not multipliers or min(multipliers) <= 0:
        raise SettingError(f"multipliers of the learning rate must be positive; got {tuple(multipliers)}")
    chosen, accuracy = multipliers[0], {}
    if len(multipliers) > 1:
        fold = stratified_folds(rows.labels, HOLD_OUT, seed=seed)
        kept, held_out = rows.part((fold > 0).nonzero().flatten()), rows.part((fold == 0).nonzero().flatten())
        heads = _trained(protocol, kept, multipliers, count, seed, shows_progress)
        fixed, labels = held_out.fixed()
        for multiplier, head in zip(multipliers, heads, strict=True):
            accuracy[multiplier] = float((head.predict(fixed) == labels).double().mean())
        chosen = max(accuracy, key=lambda multiplier: (accuracy[multiplier], -multiplier))
    classifier = _trained(protocol, rows, [chosen], count, seed, shows_progress)[0]
    return ProbeResult(classifier, chosen, accuracy)


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
    after = subject.features(task.test, [layer], how, view=seen)
    check_labels(after.labelled, len(after.index), "test labels")
    check_no_class_is_new(rows.labels, after.labelled)
    result = train_probe(given, rows, multipliers=multipliers, seed=how.seed, shows_progress=how.is_shown)
    yield mean_score(
        result.classifier.predict(after[layer]) == after.labelled,
        subject.origin(task.identity(rows.labels, after.labelled), how),
        name=f"view probe {protocol}",
        metric="accuracy",
        protocol={"layer": layer, **asdict(given), "multipliers": list(multipliers)},
    )


def _trained(
    protocol: ProbeProtocol,
    rows: FeatureRows | ViewRows,
    multipliers: Sequence[float],
    classes: int,
    seed: int,
    shows_progress: bool,
) -> list[LinearClassifier]:
    """One head for each multiplier, all on the same batches. Each is a parameter group of its own."""
    steps = -(-len(rows.labels) // protocol.batch_size)
    schedule = build_schedule(
        protocol.schedule,
        total=steps * protocol.epochs,
        milestones=[steps * epoch for epoch in protocol.milestones],
        factor=protocol.factor,
    )
    heads: list[nn.Linear] = []
    optimizer, step = None, 0
    with progress_bar("probe", total=protocol.epochs, shown=shows_progress) as advance:
        for epoch in range(protocol.epochs):
            for features, labels in rows.batches(epoch, protocol.batch_size, seed):
                check_features(features, "features")
                if optimizer is None:
                    heads = [
                        start_head(features.shape[1], classes, deviation=protocol.deviation, seed=seed)
                        for _ in multipliers
                    ]
                    optimizer = _optimizer(protocol, heads, multipliers)
                set_learning_rate(optimizer, schedule(step))
                optimizer.zero_grad()
                _loss(heads, features.float(), labels).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                step += 1
            advance(1)
    return [LinearClassifier(head.weight.detach(), head.bias.detach()) for head in heads]


def _loss(heads: Sequence[nn.Linear], features: Tensor, labels: Tensor) -> Tensor:
    """Σ over heads of their mean cross-entropy, by one matrix product: each gets the gradient it would get alone."""
    weight, bias = torch.cat([head.weight for head in heads]), torch.cat([head.bias for head in heads])
    logits = torch.addmm(bias, features, weight.T).view(len(features), len(heads), -1)
    mean = cross_entropy(logits.flatten(0, 1), labels[:, None].expand(-1, len(heads)).flatten())
    return mean * len(heads)


def start_head(width: int, classes: int, *, deviation: float, seed: int) -> nn.Linear:
    """A linear layer with weights N(0, deviation²) drawn by ``seed``, bias 0; the global generator stays as it is."""
    head: nn.Linear = nn.utils.skip_init(nn.Linear, width, classes)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        head.weight.normal_(std=deviation, generator=torch.Generator().manual_seed(seed))
        head.bias.zero_()
    return head


def _optimizer(
    protocol: ProbeProtocol, heads: Sequence[nn.Linear], multipliers: Sequence[float]
) -> torch.optim.Optimizer:
    rate = scaled_learning_rate(protocol.learning_rate, batch=protocol.batch_size, rule=protocol.scaling)
    groups = [
        ParameterGroup(
            name=f"learning rate × {multiplier:g}",
            parameters=tuple(head.parameters()),
            learning_rate=rate * multiplier,
            weight_decay=protocol.weight_decay,
        )
        for head, multiplier in zip(heads, multipliers, strict=True)
    ]
    return build_optimizer(
        protocol.optimizer, groups, momentum=protocol.momentum, nesterov=protocol.nesterov, betas=protocol.betas
    )
