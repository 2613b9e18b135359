"""Protocols by name: each gives scores that can be kept and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from eigenview.evaluation.dense import depth_scores
from eigenview.evaluation.finetuning import finetune_scores
from eigenview.evaluation.probe_scores import view_probe_scores
from eigenview.evaluation.protocol_scores import FEATURE_PROTOCOLS, FeatureProtocol, Split
from eigenview.evaluation.protocols import PROBES
from eigenview.evaluation.subjects import Measuring, Subject, Task
from eigenview.names import Table
from eigenview.nn import POOLED
from eigenview.runs import Score

SourceProtocol = Callable[[Subject, Task, Measuring], Iterator[Score]]


@dataclass(frozen=True)
class Protocol:
    """``on_features`` measures features of the evaluation view; ``on_source`` runs the encoder in its own way."""

    on_features: FeatureProtocol | None = None
    on_source: SourceProtocol | None = None


PROTOCOLS = Table(
    "protocol",
    {name: Protocol(on_features=measure) for name, measure in FEATURE_PROTOCOLS.items()}
    | {f"view-probe-{name}": Protocol(on_source=partial(view_probe_scores, protocol=name)) for name in PROBES}
    | {"finetune": Protocol(on_source=finetune_scores), "depth": Protocol(on_source=depth_scores)},
)


def evaluate(
    subject: Subject,
    task: Task,
    *,
    protocols: Sequence[str] = ("knn", "linear"),
    layers: Sequence[str] = (POOLED,),
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """Scores of every protocol (``PROTOCOLS``), one by one as they are known.

    Those on features are measured on every one of ``layers``, from features computed once for all; those that run the
    encoder themselves (probes with new views in every epoch, fine-tuning, depth) choose their own.
    """
    how = measuring or Measuring()
    chosen = [PROTOCOLS.find(name) for name in protocols]
    on_features = [protocol.on_features for protocol in chosen if protocol.on_features is not None]
    if on_features:
        before, after = (how.features(subject, source, layers) for source in (task.train, task.test))
        data = task.identity(before.labelled, after.labelled)
        for layer in layers:
            split = Split(before[layer], before.labelled, after[layer], after.labelled, layer, data, subject, how)
            for measure in on_features:
                yield from measure(split)
    for protocol in chosen:
        if protocol.on_source is not None:
            yield from protocol.on_source(subject, task, how)
