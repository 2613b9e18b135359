"""Labels put wrong are pointed out, and what they were is said."""

from __future__ import annotations

import pytest
import torch

from eigenview.errors import DataError
from eigenview.labels import audit_labels
from eigenview.labels.auditing import (
    ALIKE,
    ANYWHERE,
    LEAST,
    _confident_joint,
    _neighbours_say,
    _others_say,
    _pooled,
    _truths,
)
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
    before, after = (
        _pooled(_neighbours_say(graph, labels, 3), _others_say(graph.rows, labels, 3, 0)) for labels in (truth, other)
    )
    assert torch.allclose(before[5], after[5], atol=0.05)


def test_the_joint_counts_rows_that_look_as_a_class_usually_does() -> None:
    random = torch.Generator().manual_seed(0)
    answers = torch.rand(60, 3, generator=random).softmax(dim=1)
    labels = torch.randint(3, (60,), generator=random)
    expected = torch.zeros(3, 3)
    usual = [float(answers[labels == k, k].mean()) for k in range(3)]
    for row in range(60):
        like = [k for k in range(3) if float(answers[row, k]) >= usual[k]]
        if like:
            expected[labels[row], max(like, key=lambda k: float(answers[row, k]))] += 1
    for k in range(3):
        expected[k] *= int((labels == k).sum()) / max(1, float(expected[k].sum()))
    assert torch.allclose(_confident_joint(answers, labels), expected, atol=1e-4)


def test_what_a_row_truly_is_follows_by_bayes() -> None:
    answers = torch.tensor([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]])
    labels = torch.tensor([0, 2])
    joint = torch.tensor([[90.0, 20.0, 0.0], [5.0, 80.0, 0.0], [5.0, 0.0, 100.0]])  # given × true
    even = (ALIKE * 30 + ANYWHERE * 2) / 6
    for row in range(2):
        weights = []
        for true in range(3):
            column = [
                float(joint[given, true]) if given == true else (1 - ALIKE) * float(joint[given, true]) + even
                for given in range(3)
            ]
            weights.append(float(answers[row, true]) * column[int(labels[row])] / sum(column))
        expected = torch.tensor(weights) / sum(weights)
        assert torch.allclose(_truths(answers, labels, joint)[row], expected, atol=1e-5)
    errors_of_a_kind = _truths(answers, labels, joint)  # 1 is often called 0, and never 2
    assert float(errors_of_a_kind[0, 1]) > float(errors_of_a_kind[1, 1])


def test_few_labels_of_a_class_make_fewer_folds() -> None:
    graph, truth = clouds()
    labels = truth.clone()
    labels[[0, 1]] = 3  # two that nothing sets apart, and one that is plainly wrong
    labels[50] = 2
    audit = audit_labels(graph, labels)
    assert 50 in audit.ranked
    assert int(audit.probable[50]) == 1
    assert audit.score[2:50].max() < audit.score[:2].min()


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
