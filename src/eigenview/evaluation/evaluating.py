"""Protocols by name: each gives scores that can be kept and compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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


LAST = 100  # the order of what nobody placed


@dataclass(frozen=True)
class Shown:
    """How a page shows scores called ``names`` (a regular expression): under ``title``, the lowest ``order`` first."""

    names: str
    title: str = ""  # with the groups of ``names``; what the score is called where there is none
    order: int = LAST
    kind: str = ""  # the best of a kind may head the page; the first word of the name where there is none


@dataclass(frozen=True)
class Protocol:
    """``on_features`` measures features of the evaluation view; ``on_source`` runs the encoder in its own way."""

    on_features: FeatureProtocol | None = None
    on_source: SourceProtocol | None = None
    shown: tuple[Shown, ...] = ()


SHOWN = {  # the most telling first: by how many labels they need, and how much they vary
    "linear": (Shown("linear", "Linear probe", 0),),
    "knn": (
        Shown("knn k=20", "20 nearest neighbours", 2),
        Shown("knn k=1", "1 nearest neighbour", 6),
        Shown(r"knn k=(\d+)", r"\1 nearest neighbours", 6),
    ),
    "few-label": (
        Shown("10 labels a class", order=3, kind="few labels"),
        Shown("1 labels a class", "1 label a class", 5, "few labels"),
        Shown(".*labels a class", kind="few labels"),
    ),
    "kmeans": (Shown("kmeans", "k-means clusters", 4),),
    "spectral-clustering": (Shown("spectral", "Spectral clusters"),),  # as earlier versions called it
    "retrieval": (Shown("retrieval", order=7),),
    **dict.fromkeys((f"probe-{name}" for name in PROBES), (Shown("probe .*", order=1),)),
}
PROTOCOLS = Table(
    "protocol",
    {name: Protocol(measure, shown=SHOWN.get(name, ())) for name, measure in FEATURE_PROTOCOLS.items()}
    | {f"view-probe-{name}": Protocol(on_source=partial(view_probe_scores, protocol=name)) for name in PROBES}
    | {"finetune": Protocol(on_source=finetune_scores), "depth": Protocol(on_source=depth_scores)},
    more="; of runs that learnt from captions also captions and zero-shot, each by itself",
)


def shown_as(name: str) -> Shown:
    """How a score of that name is shown, as the first protocol that knows it says, with its title and kind."""
    said = (shown for protocol in PROTOCOLS.values() for shown in protocol.shown if re.fullmatch(shown.names, name))
    shown = next(said, Shown(".*"))
    title = re.sub(shown.names, shown.title, name, count=1) if shown.title else name[:1].upper() + name[1:]
    return replace(shown, title=title, kind=shown.kind or name.partition(" ")[0])


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
