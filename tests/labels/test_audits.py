"""An audit of images of which some have no label: no second search where the kept graph tells as much."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenview.labels import audit, audits
from eigenview.labels.audits import audit_seconds
from eigenview.labels.graph import exact_graph_seconds
from eigenview.labels.label_files import GivenLabels
from eigenview.search import Embeddings, open_embeddings
from eigenview.search.candidates import TRIED_VECTORS

EACH, WRONG = 60, [3, 70, 130]


@pytest.fixture
def stored(tmp_path: Path) -> Embeddings:
    truth = np.arange(3 * EACH) // EACH
    noise = 0.4 * np.random.default_rng(0).normal(size=(len(truth), 8))
    np.save(tmp_path / "rows.npy", (3 * np.eye(8)[truth] + noise).astype(np.float32))
    return open_embeddings(tmp_path / "rows.npy")


def given(unlabelled: int) -> GivenLabels:
    """Three labels put wrong, and so many of the others taken away, all over the set."""
    labels = torch.arange(3 * EACH) // EACH
    labels[WRONG] = (labels[WRONG] + 1) % 3
    others = torch.tensor([row for row in range(3 * EACH) if row not in WRONG])
    labels[others[torch.randperm(len(others), generator=torch.Generator().manual_seed(0))[:unlabelled]]] = -1
    return GivenLabels(labels, ("cat", "dog", "gull"))


@pytest.mark.parametrize("unlabelled", [0, 1, 80])
def test_rows_without_labels_start_no_second_search(
    unlabelled: int, stored: Embeddings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audits, "image_graph", None)  # would fail if it searched again
    labels = given(unlabelled)
    audited = audit(stored, labels, copies=False)
    assert sorted(suspect.row for suspect in audited.suspects) == WRONG
    assert audited.labels == 3 * EACH - unlabelled
    assert audit_seconds(stored, labels, copies=False) == 0


def test_few_labels_get_a_graph_of_their_own_and_its_time_is_told(stored: Embeddings, monkeypatch: pytest.MonkeyPatch):
    labels = given(140)
    assert audit_seconds(stored, labels, copies=False) == exact_graph_seconds(40, 8) > 0
    own = audit(stored, labels, copies=False)
    assert sorted(suspect.row for suspect in own.suspects) == WRONG
    monkeypatch.setattr(audits, "BEARABLE", 0)  # then edges that are kept must do
    assert audit_seconds(stored, labels, copies=False) == 0
    monkeypatch.setattr(audits, "image_graph", None)
    assert {suspect.row for suspect in audit(stored, labels, copies=False).suspects} >= set(WRONG)


def test_the_time_that_copies_and_another_set_take_is_told(tmp_path: Path):
    count = TRIED_VECTORS + 1
    np.save(tmp_path / "many.npy", np.random.default_rng(0).normal(size=(count, 8)).astype(np.float32))
    many, labels = open_embeddings(tmp_path / "many.npy"), GivenLabels(torch.arange(count) % 2, ("a", "b"))
    assert audit_seconds(many, labels, copies=False) == 0
    assert audit_seconds(many, labels) > 0
    assert audit_seconds(many, labels, copies=False, against=many) > 0
