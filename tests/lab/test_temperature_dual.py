"""(P1) three ways: on α itself, by the least bound, by the library's bisection."""

from __future__ import annotations

import math

import pytest
import torch

from eigenview.errors import ShapeError
from eigenview.lab import LabSettings
from eigenview.lab.finite_views import shifted_digits
from eigenview.lab.temperature_dual import best_dual, follow, queries, run, solve_random, solved_directly
from eigenview.losses import entropy_dual, maximum_entropy


def test_three_candidates_by_a_grid_over_the_simplex():
    psi = torch.tensor([0.4, 1.0, -0.8], dtype=torch.float64)
    first, second = torch.meshgrid(*[torch.linspace(0, 1, 1001, dtype=torch.float64)] * 2, indexing="ij")
    alpha = torch.stack([first, second, 1 - first - second], dim=-1).view(-1, 3)
    alpha = alpha[(alpha[:, 2] >= 0) & (alpha @ psi >= psi[0])]
    best = (-torch.special.xlogy(alpha, alpha).sum(dim=1)).max()
    value, measured = solved_directly(psi)
    assert value == pytest.approx(float(best), abs=2e-3)
    assert value >= float(best) - 1e-12  # the grid only misses
    assert float(measured @ psi) >= float(psi[0]) - 1e-9


def test_direct_and_dual_and_library_agree():
    solved = solve_random(30, candidates=10, seed=1)
    assert solved.queries == 30
    assert solved.largest_difference < 1e-8
    assert solved.largest_gap_in_assignment < 1e-5
    assert all(0 < temperature < math.inf for temperature in solved.temperature)


def test_any_temperature_bounds_it_from_above_and_the_best_attains_it():
    psi = torch.tensor([0.55, 0.9, 0.6, 0.4, 0.3, 0.1, -0.2, -0.5], dtype=torch.float64)
    value, _ = solved_directly(psi)
    bound, best = best_dual(psi)
    assert bound == pytest.approx(value, abs=1e-9)
    assert best == pytest.approx(float(maximum_entropy(psi[None]).temperature), rel=1e-5)
    for temperature in (0.01, 0.1, best * 0.9, best * 1.1, 1.0, 100.0):
        assert float(entropy_dual(psi[None], temperature)) > value


def test_the_slides_form_is_least_at_zero_temperature_not_at_the_best():
    """τ·g(τ) grows with τ, from max ψ − ψ₁."""
    psi = torch.tensor([[0.4, 1.0, -0.8]], dtype=torch.float64)
    values = [t * float(entropy_dual(psi, t)) for t in (1e-3, 0.01, 0.1, 1.0, 10.0)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(0.6, abs=1e-9)


def test_a_positive_that_ranks_first_leaves_nothing_and_one_below_the_mean_everything():
    first = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64)
    assert solved_directly(first)[0] == pytest.approx(0, abs=1e-6)
    below = torch.tensor([-1.0, 0.5, 0.0], dtype=torch.float64)
    assert solved_directly(below)[0] == pytest.approx(math.log(3), abs=1e-9)


def test_queries_hold_the_positive_first_and_no_other_view_of_the_item():
    rows = torch.randn(5 * 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    asked = queries(rows, 3)
    assert asked.shape == (3, 1 + 10)
    for item in range(3):
        expected = [float(rows[item] @ rows[3 + item])]
        expected += [float(rows[item] @ rows[other]) for other in range(15) if other % 3 != item]
        assert asked[item].tolist() == pytest.approx(expected)


def test_training_lowers_the_value_and_the_bound_stays_above_it():
    followed = follow(shifted_digits(40), 0.2, steps=20, seed=0)
    assert followed.step[0] == 0
    assert followed.step[-1] == 20
    assert followed.value[-1] < followed.value[0]
    assert all(bound >= value for bound, value in zip(followed.info_nce, followed.value, strict=True))


def test_the_experiment_finds_what_it_claims():
    outcome = run(LabSettings(is_quick=True))
    assert outcome.data["solutions"]["largest_difference"] < 1e-8


def test_a_query_without_candidates_is_refused():
    with pytest.raises(ShapeError, match=r"m >= 2.*got \(1,\)"):
        solved_directly(torch.zeros(1))
