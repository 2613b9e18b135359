"""The walk on eight views: its matrix by loops, what training does to it, and how far that can go."""

from __future__ import annotations

import math

import pytest
import torch

from eigenview.errors import SettingError, ShapeError
from eigenview.lab import LabSettings
from eigenview.lab.random_walk import ceiling, partner_probability, run, similarity_graph, transition_matrix
from eigenview.losses import random_walk_laplacian


def views(images: int, width: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, images, width, dtype=torch.float64, generator=generator)
    return first, second


def test_the_transition_matrix_is_that_of_the_abstract_by_loops():
    first, second = views(4, 5)
    transitions = transition_matrix(first, second, temperature=0.7)
    rows = [row / row.norm() for pair in zip(first, second, strict=True) for row in pair]
    for i in range(8):
        weight = [0.0 if i == j else math.exp(float(rows[i] @ rows[j]) / 0.7) for j in range(8)]
        for j in range(8):
            assert float(transitions[i, j]) == pytest.approx(weight[j] / sum(weight), rel=1e-12)


def test_rows_sum_to_one_and_no_walk_stays():
    transitions = transition_matrix(*views(6, 3, seed=1))
    torch.testing.assert_close(transitions.sum(dim=1), torch.ones(12, dtype=torch.float64))
    assert not transitions.diagonal().any()
    graph = similarity_graph(*views(6, 3, seed=1))
    torch.testing.assert_close(graph, graph.T, rtol=0, atol=0)


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_the_papers_loss_is_twice_the_chance_of_missing_the_partner(temperature):
    first, second = views(4, 6, seed=2)
    missed = 1 - partner_probability(transition_matrix(first, second, temperature=temperature))
    loss = random_walk_laplacian(first, second, temperature=temperature)
    assert float(2 * missed.sum()) == pytest.approx(float(loss), rel=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_a_simplex_of_coinciding_pairs_sits_at_the_ceiling(temperature):
    corners = torch.eye(4, dtype=torch.float64) - 0.25
    measured = partner_probability(transition_matrix(corners, corners, temperature=temperature))
    torch.testing.assert_close(
        measured, torch.full_like(measured, ceiling(4, temperature=temperature)), rtol=1e-12, atol=0
    )


def test_free_embeddings_end_at_the_ceiling_and_not_above():
    ends = []
    for seed in range(2):
        first, second = (rows.requires_grad_() for rows in views(4, 8, seed=seed))
        optimizer = torch.optim.Adam([first, second], lr=0.05)
        for _ in range(250):
            optimizer.zero_grad()
            random_walk_laplacian(first, second).backward()
            optimizer.step()
        ends.append(float(partner_probability(transition_matrix(first.detach(), second.detach())).mean()))
    assert max(ends) == pytest.approx(ceiling(4), abs=1e-6)
    assert max(ends) <= ceiling(4) + 1e-12


def test_collapsed_views_step_anywhere():
    same = torch.ones(4, 3)
    transitions = transition_matrix(same, same)
    assert partner_probability(transitions) == pytest.approx(torch.full((8,), 1 / 7))


def test_a_quick_run_finds_partners_more_often_after_training():
    outcome = run(LabSettings(is_quick=True))
    for measured in outcome.data["digits"].values():
        assert measured["after"]["partner"]["low"] > measured["before"]["partner"]["high"]
        assert measured["after"]["partner"]["high"] < measured["ceiling"]
    assert set(outcome.figures) == {""}
    assert "CIFAR-10 was left out" in outcome.lines[-1]


def test_bad_views_are_refused():
    with pytest.raises(ShapeError, match=r"same \(n, d\) with n >= 2"):
        transition_matrix(torch.ones(3, 2), torch.ones(4, 2))
    with pytest.raises(SettingError, match="temperature must be positive"):
        transition_matrix(torch.ones(3, 2), torch.ones(3, 2), temperature=0.0)
    with pytest.raises(SettingError, match="at least 2 images"):
        ceiling(1)
