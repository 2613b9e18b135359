"""Intervals: exact when everything was looked at, and holding the truth as often as they say."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from eigenview.diagnostics.estimates import Estimate, log_mean_of_sample, mean_of_sample, mean_of_sets, share_of_sample


def test_the_interval_of_a_mean_is_students_with_the_finite_population_correction():
    values = torch.tensor([1.0, 4.0, 2.0, 7.0])
    error = float(values.double().std()) / 2 * math.sqrt(1 - 4 / 50)
    low, high = stats.t.interval(0.95, 3, loc=3.5, scale=error)
    estimate = mean_of_sample(values, 50)
    assert (estimate.value, estimate.anchors) == (3.5, 4)
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))


def test_the_interval_of_a_share_is_wilsons_when_the_population_is_large():
    hits = torch.tensor([True] * 3 + [False] * 37)
    expected = stats.binomtest(3, 40).proportion_ci(method="wilson")
    estimate = share_of_sample(hits, 10**12)
    assert (estimate.low, estimate.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_all_rows_leave_no_doubt():
    assert mean_of_sample(torch.tensor([1.0, 2.0]), 2) == Estimate.exact(1.5)
    assert share_of_sample(torch.tensor([True, False]), 2) == Estimate.exact(0.5)
    assert log_mean_of_sample(torch.tensor([0.0, 0.0]), 2) == Estimate.exact(0.0)


def test_none_and_all_hits_still_have_a_width():
    nothing, everything = (share_of_sample(torch.full((20,), hit), 1000) for hit in (False, True))
    assert (nothing.low, everything.high) == (0, 1)
    assert 0.1 < nothing.high < 0.2
    assert everything.low == pytest.approx(1 - nothing.high)


def test_log_means_survive_values_that_underflow():
    estimate = log_mean_of_sample(torch.tensor([-2000.0, -2000.0, -2001.0]), 3)
    assert estimate.value == pytest.approx(-2000 + math.log((2 + math.exp(-1)) / 3))


def test_shares_hold_the_truth_as_often_as_they_say():
    population = torch.arange(400) < 36
    generator = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(300):
        estimate = share_of_sample(population[torch.randperm(400, generator=generator)[:80]], 400)
        held += estimate.low <= 0.09 <= estimate.high
    assert held >= 275  # 285 expected


def test_the_mean_of_sets_has_students_interval_within_what_is_possible():
    low, high = stats.t.interval(0.95, 2, loc=0.02, scale=0.01 / math.sqrt(3))
    estimate = mean_of_sets([0.01, 0.02, 0.03], 100)
    assert (estimate.low, estimate.high, estimate.anchors) == (pytest.approx(low), pytest.approx(high), 300)
    assert mean_of_sets([0.01, 0.02, 0.03], 100, within=(0, 1)).low == 0


def test_an_estimate_is_written_with_its_interval():
    assert str(Estimate.exact(0.5)) == "0.5"
    assert str(Estimate(0.5, 0.25, 0.75, 10)) == "0.5 [0.25, 0.75]"
