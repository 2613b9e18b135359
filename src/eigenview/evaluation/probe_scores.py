"""Minibatch probes as published, with new views of the training images in every epoch, as scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from eigenview.data import Source
from eigenview.distributed import Group, rank
from eigenview.evaluation.checks import check_labels, check_no_class_is_new
from eigenview.evaluation.features import extract
from eigenview.evaluation.identity import data_identity, weights_identity
from eigenview.evaluation.probe import ViewRows, train_probe
from eigenview.evaluation.protocols import PROTOCOLS, ProbeProtocol, find_protocol
from eigenview.evaluation.scores import JSON, Score, mean_score
from eigenview.nn import POOLED, Encoder
from eigenview.views import CentreView


def view_probe_scores(
    encoder: Encoder,
    train: Source,
    test: Source,
    *,
    view: CentreView,
    protocols: Sequence[str] = tuple(PROTOCOLS),
    layer: str = POOLED,
    epochs: int | None = None,
    multipliers: Sequence[float] = (1.0,),
    subject: str = "encoder",
    cache: str | Path | None = None,
    seed: int = 0,
    shows_progress: bool = True,
    group: Group = None,
) -> list[Score]:
    """One score a protocol: the encoder runs on new views in every epoch, and on the paper's own test view in the end.

    ``epochs`` instead of the paper's (mostly 100) shortens every protocol, milestones in proportion; the score's
    protocol says how many. ``multipliers`` are a grid of learning rates, trained together (see ``train_probe``).
    """
    shown = shows_progress and rank(group) == 0
    scores: list[Score] = []
    for name in protocols:
        protocol = find_protocol(name) if epochs is None else find_protocol(name).shortened(epochs)
        seen = protocol.test_view(view)
        rows = ViewRows(encoder, train, view=seen, protocol=protocol, layer=layer, group=group)
        after = extract(
            encoder, test, view=seen, layers=[layer], cache=cache, shows_progress=shows_progress, group=group
        )
        check_labels(after.labelled, len(after.index), "test labels")
        check_no_class_is_new(rows.labels, after.labelled)
        found = train_probe(protocol, rows, multipliers=multipliers, seed=seed, shows_progress=shown)
        data: dict[str, JSON] = {
            "train": data_identity(train, rows.labels),
            "test": data_identity(test, after.labelled),
        }
        scores.append(
            mean_score(
                found.classifier.predict(after[layer]) == after.labelled,
                name=f"probe {name}",
                metric="accuracy",
                protocol=_described(protocol, layer, multipliers),
                data=data,
                subject=subject,
                encoder=weights_identity(encoder),
                seed=seed,
            )
        )
    return scores


def _described(protocol: ProbeProtocol, layer: str, multipliers: Sequence[float]) -> dict[str, JSON]:
    return {"layer": layer, **asdict(protocol), "multipliers": list(multipliers)}
