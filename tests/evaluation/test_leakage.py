"""No leakage: whatever the test labels are, everything that is fitted stays the same.

The proof asks each protocol once for every class c, with all test labels set to c. An item is then right in exactly the
run whose c is the predicted class: if labels cannot influence predictions, the runs' items add up to one everywhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from eigenview.data import ArraySource
from eigenview.evaluation import (
    PROTOCOLS,
    FinetuneProtocol,
    Folds,
    Measuring,
    Subject,
    Task,
    evaluate,
    evaluating,
    finetune,
)
from eigenview.evaluation.evaluating import Protocol
from eigenview.evaluation.probe import view_probe_scores
from eigenview.evaluation.protocol_scores import FeatureProtocol
from eigenview.evaluation.subjects import RawPixels
from eigenview.names import Table
from eigenview.nn import build_encoder
from eigenview.runs import Score
from eigenview.views import CentreView

VIEW = CentreView(8, 8, (0.3,), (0.35,))
CLASSES = 4
PIXELS = Subject("raw pixels", RawPixels(8, channels=1), VIEW)


def digits(rows: slice, label: int | None = None) -> ArraySource:
    images, numbers = load_digits(n_class=CLASSES, return_X_y=True)
    pixels = (images.reshape(-1, 8, 8) * 15).astype(np.uint8)[rows]
    return ArraySource(pixels, labels=numbers[rows] if label is None else np.full(len(pixels), label))


TRAIN, TEST = slice(0, 300), slice(300, 420)


def task(label: int) -> Task:
    return Task(digits(TRAIN), digits(TEST, label))


def instead_of(monkeypatch, name: str, protocol: FeatureProtocol) -> None:
    """Another protocol under that name, for evaluation and folds."""
    changed = Table("protocol", {**PROTOCOLS, name: Protocol(on_features=protocol)})
    monkeypatch.setattr(evaluating, "PROTOCOLS", changed)


def added_up(by_class: list[list[Score]]) -> dict[str, np.ndarray]:
    return {scores[0].name: np.sum([score.items for score in scores], axis=0) for scores in zip(*by_class, strict=True)}


@pytest.mark.parametrize("protocol", ["knn", "linear", "few-label", "probe-moco", "probe-wang-isola", "probe-simsiam"])
def test_predictions_on_features_do_not_depend_on_test_labels(protocol):
    by_class = [list(evaluate(PIXELS, task(label), protocols=[protocol])) for label in range(CLASSES)]
    for name, total in added_up(by_class).items():
        assert np.allclose(total, 1, atol=1e-5), name


def test_predictions_of_view_probes_do_not_depend_on_test_labels():
    torch.manual_seed(0)
    subject = Subject("untrained", build_encoder("small", channels=1, width=0.25), VIEW)
    options = {"protocol": "random-walk", "epochs": 2, "multipliers": (0.1, 1.0, 10.0)}
    by_class = [list(view_probe_scores(subject, task(label), Measuring(), **options)) for label in range(CLASSES)]
    assert all((total == 1).all() for total in added_up(by_class).values())


def test_predictions_after_finetuning_do_not_depend_on_test_labels():
    torch.manual_seed(0)
    encoder = build_encoder("small", channels=1, width=0.25)
    protocol = replace(FinetuneProtocol(), steps=6, batch_size=50, multipliers=(0.3, 1.0))
    right = [finetune(encoder, task(label), view=VIEW, protocol=protocol, share=0.5) for label in range(CLASSES)]
    assert (torch.stack(right).sum(dim=0) == 1).all()


def test_the_proof_finds_a_leak(monkeypatch):
    """A linear protocol that trains on test labels too must break the sum, otherwise the proof proves nothing."""

    def leaking(split):
        both, labels = torch.cat([split.train, split.test]), torch.cat([split.train_labels, split.test_labels])
        own = replace(split, train=both, train_labels=labels)
        return honest(own)

    honest = PROTOCOLS["linear"].on_features
    instead_of(monkeypatch, "linear", leaking)
    by_class = [list(evaluate(PIXELS, task(label), protocols=["linear"])) for label in range(CLASSES)]
    assert not (added_up(by_class)["linear"] == 1).all()


def test_clusters_are_found_without_labels():
    for method in ("kmeans", "spectral-clustering"):
        scores = [
            list(evaluate(PIXELS, Task(digits(TRAIN), relabelled), protocols=[method]))
            for relabelled in (digits(TEST), ArraySource(digits(TEST).batch(np.arange(120)).numpy(), labels=turned()))
        ]
        for score, other in zip(*scores, strict=True):  # classes under other names: the same clusters score the same
            assert score.value == pytest.approx(other.value), score.metric


def turned() -> np.ndarray:
    return (np.asarray(digits(TEST).labels) + 1) % CLASSES


def test_a_folds_own_test_items_never_train_it(monkeypatch):
    """Labels of one fold's test items are changed: what that fold fits stays the same."""
    source = digits(TRAIN)
    folds = [torch.arange(0, 100), torch.arange(100, 200)]
    seen: list[list[torch.Tensor]] = []
    honest = PROTOCOLS["knn"].on_features
    for change in (False, True):
        fitted: list[torch.Tensor] = []

        def watching(split, fitted=fitted):
            fitted.extend([split.train, split.train_labels])
            return honest(split)

        labels = np.asarray(source.labels).copy()
        if change:
            labels[200:] = (labels[200:] + 1) % CLASSES  # items that no fold trains on
        instead_of(monkeypatch, "knn", watching)
        changed = ArraySource(source.batch(np.arange(300)).numpy(), labels=labels)
        assert len(list(evaluate(PIXELS, Folds(changed, folds), protocols=["knn"]))) > 1
        seen.append(fitted)
    assert len(seen[0]) == 4
    assert all(torch.equal(before, after) for before, after in zip(*seen, strict=True))
