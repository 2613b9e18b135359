"""Labels put wrong are pointed out, and what they were is said."""

from __future__ import annotations

import pytest
import torch

from eigenview.errors import DataError
from eigenview.labels import audit_labels
from eigenview.labels.auditing import LEAST, _neighbours_say
from tests.labels.graphs import clouds

WRONG = [1, 20, 40, 55, 70, 88]


def test_neighbours_vote_as_the_loop_counts() -> None:
    graph, truth = clouds(spread=1.5)
    weights = graph.weights.toarray()
    votes = _neighbours_say(graph, truth, 3)
    for row in (0, 45, 89):
        counted = [LEAST + sum(float(weights[row, j]) for j in range(90) if truth[j] == c) for c in range(3)]
        assert votes[row].tolist() == pytest.approx([count / sum(counted) for count in counted], rel=1e-4)


def test_wrong_labels_are_ranked_first_with_what_they_are() -> None:
    graph, truth = clouds()
    labels = truth.clone()
    labels[WRONG] = (labels[WRONG] + 1) % 3
    audit = audit_labels(graph, labels)
    assert sorted(audit.ranked.tolist()) == WRONG
    assert torch.equal(audit.probable, truth)
    assert torch.equal(audit.ranked, audit.score.argsort(descending=True)[: len(WRONG)])
    assert torch.allclose(audit.probabilities.sum(dim=1), torch.ones(90), atol=1e-5)


def test_right_labels_are_left_alone() -> None:
    graph, truth = clouds()
    audit = audit_labels(graph, truth, classes=5)
    assert len(audit.ranked) == 0
    assert bool((audit.score < 0).all())


def test_a_label_does_not_speak_for_itself() -> None:
    graph, truth = clouds()
    other = truth.clone()
    other[5] = 2
    before, after = audit_labels(graph, truth), audit_labels(graph, other)
    assert torch.allclose(before.probabilities[5], after.probabilities[5], atol=0.05)


def test_few_labels_of_a_class_make_fewer_folds() -> None:
    graph, truth = clouds()
    labels = truth.clone()
    labels[[0, 1]] = 3
    assert audit_labels(graph, labels).probable[:2].tolist() == [0, 0]


def test_labels_that_cannot_be_doubted_are_refused() -> None:
    graph, truth = clouds()
    single = truth.clone()
    single[0] = 3
    with pytest.raises(DataError, match="2 rows of every class; class 3 has fewer"):
        audit_labels(graph, single)
    with pytest.raises(DataError, match="one class only, 0"):
        audit_labels(graph, truth * 0)
    with pytest.raises(DataError, match="1 of 90 labels are -1"):
        audit_labels(graph, single.index_fill(0, torch.tensor([0]), -1))
