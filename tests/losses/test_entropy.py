"""The (P1) maximum-entropy problem: solved directly by a general solver, by its dual, and at its borders."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.losses import entropy_dual, info_nce, maximum_entropy

GENERATOR = torch.Generator().manual_seed(3)
PSI = torch.rand(6, 8, dtype=torch.float64, generator=GENERATOR)
PSI[:, 0] = PSI[:, 1:].mean(1) + 0.7 * (PSI[:, 1:].amax(1) - PSI[:, 1:].mean(1))  # between mean and maximum


def test_the_solution_equals_a_general_solver():
    solved = maximum_entropy(PSI)
    for psi, value, assignment in zip(PSI.numpy(), solved.value.numpy(), solved.assignment.numpy(), strict=True):
        m = len(psi)
        answer = minimize(
            lambda a: float(np.sum(a * np.log(np.maximum(a, 1e-300)))),
            np.full(m, 1 / m),
            jac=lambda a: np.log(np.maximum(a, 1e-300)) + 1,
            bounds=[(1e-12, 1)] * m,
            constraints=[
                {"type": "eq", "fun": lambda a: a.sum() - 1},
                {"type": "ineq", "fun": lambda a, psi=psi: a @ psi - psi[0]},
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        assert value == pytest.approx(-answer.fun, abs=1e-7)
        assert assignment == pytest.approx(answer.x, abs=1e-4)


def test_the_best_temperature_of_the_dual_attains_the_primal():
    solved = maximum_entropy(PSI)
    torch.testing.assert_close(entropy_dual(PSI, solved.temperature), solved.value, rtol=0, atol=1e-10)
    for row, best in zip(PSI, solved.value, strict=True):
        minimum = minimize_scalar(
            lambda log_t, row=row: entropy_dual(row[None], math.exp(log_t)).item(), bounds=(-8, 8), method="bounded"
        )
        assert minimum.fun == pytest.approx(best.item(), abs=1e-6)


def test_every_fixed_temperature_is_only_an_upper_bound():
    solved = maximum_entropy(PSI)
    for temperature in (0.01, 0.1, 0.5, 2.0, 50.0):
        assert (entropy_dual(PSI, temperature) >= solved.value - 1e-12).all()


def test_the_solution_keeps_its_constraints():
    solved = maximum_entropy(PSI)
    torch.testing.assert_close(solved.assignment.sum(1), torch.ones(6, dtype=torch.float64))
    torch.testing.assert_close((solved.assignment * PSI).sum(1), PSI[:, 0], rtol=0, atol=1e-10)
    torch.testing.assert_close(solved.assignment, (PSI / solved.temperature[:, None]).softmax(1))


def test_a_positive_that_ranks_first_has_temperature_zero():
    solved = maximum_entropy(torch.tensor([[0.9, 0.1, 0.2], [0.9, 0.9, 0.2]], dtype=torch.float64))
    assert solved.temperature.tolist() == [0, 0]
    assert solved.assignment.tolist() == [[1, 0, 0], [0.5, 0.5, 0]]
    assert solved.value.tolist() == pytest.approx([0, math.log(2)])


def test_a_positive_at_or_below_the_mean_has_unbounded_temperature():
    solved = maximum_entropy(torch.tensor([[0.1, 0.5, 0.9], [0.5, 0.5, 0.5]], dtype=torch.float64))
    assert solved.temperature.tolist() == [math.inf, math.inf]
    assert solved.value.tolist() == pytest.approx([math.log(3)] * 2)


def test_nearly_first_and_nearly_mean_stay_accurate():
    psi = torch.tensor([[1 - 1e-9, 1.0, 0.0, 0.3], [0.5 + 1e-9, 0.0, 1.0, 0.5]], dtype=torch.float64)
    solved = maximum_entropy(psi)
    torch.testing.assert_close((solved.assignment * psi).sum(1), psi[:, 0], rtol=0, atol=1e-10)
    assert 0 < solved.temperature[0] < 0.1
    assert solved.temperature[1] > 1e6


def test_the_dual_is_info_nce_with_given_negatives():
    x, y = torch.randn(2, 5, 4, dtype=torch.float64, generator=GENERATOR)
    negatives = torch.randn(7, 4, dtype=torch.float64, generator=GENERATOR)
    unit = torch.nn.functional.normalize
    psi = torch.cat([(unit(x) * unit(y)).sum(1, keepdim=True), unit(x) @ unit(negatives).T], dim=1)
    torch.testing.assert_close(entropy_dual(psi, 0.2).mean(), info_nce(x, y, negatives=negatives, temperature=0.2))


def test_bad_similarities_are_refused():
    with pytest.raises(ShapeError, match="positive \\+ negatives"):
        maximum_entropy(torch.ones(3))
    with pytest.raises(ShapeError, match="positive \\+ negatives"):
        maximum_entropy(torch.ones(3, 1))
    with pytest.raises(DataError, match="finite"):
        maximum_entropy(torch.tensor([[torch.nan, 1.0]]))
    with pytest.raises(SettingError, match="temperature must be positive"):
        entropy_dual(torch.ones(2, 3), 0.0)
