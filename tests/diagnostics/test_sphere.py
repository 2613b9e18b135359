"""Alignment, uniformity with its floor, mean cosine and tolerance against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenview.diagnostics import alignment_figure, mean_cosine, tolerance, uniformity_figure
from eigenview.diagnostics.sphere import unrelated_alignment
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.sphere import uniformity_floor
from eigenview.losses import hypersphere
from tests.diagnostics.clouds import cosines_by_loops, gaussian, rotated


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.5])
def test_alignment_is_the_mean_power_of_distances(alpha: float):
    a, b = gaussian(9, 4), gaussian(9, 4, seed=1)
    line = cosines_by_loops(a, b)
    expected = sum(math.sqrt(2 - 2 * line[i][i]) ** alpha for i in range(9)) / 9
    assert alignment_figure(a, b, alpha=alpha) == pytest.approx(expected)


def test_unrelated_alignment_is_the_mean_over_views_of_different_items():
    a, b = gaussian(9, 4), gaussian(9, 4, seed=1)
    line = cosines_by_loops(a, b)
    expected = [2 - 2 * line[i][j] for i in range(9) for j in range(9) if i != j]
    assert unrelated_alignment(a, b) == pytest.approx(sum(expected) / len(expected))


@pytest.mark.parametrize("t", [0.5, 2.0, 30.0])
def test_uniformity_and_mean_cosine_run_over_distinct_pairs(t: float):
    rows = gaussian(12, 3)
    line = cosines_by_loops(rows)
    pairs = [line[i][j] for i in range(12) for j in range(12) if i != j]
    expected = math.log(sum(math.exp(-t * (2 - 2 * cosine)) for cosine in pairs) / len(pairs))
    figure = uniformity_figure(rows, t=t)
    assert figure.value == pytest.approx(expected)
    assert (figure.low, figure.high, figure.anchors) == (figure.value, figure.value, None)
    assert mean_cosine(rows) == pytest.approx(sum(pairs) / len(pairs))


def test_the_figures_equal_the_losses_of_the_same_name():
    a, b = gaussian(700, 10), gaussian(700, 10, seed=1)
    assert alignment_figure(a, b) == pytest.approx(float(hypersphere.alignment(a, b)))
    assert uniformity_figure(a).value == pytest.approx(float(hypersphere.uniformity(a)))


def test_sampled_uniformity_covers_the_exact_one_in_most_seeds():
    rows = gaussian(1500, 5) + 0.3
    exact = uniformity_figure(rows, anchors=1500).value
    figure = [uniformity_figure(rows, anchors=100, seed=seed) for seed in range(60)]
    assert {estimate.anchors for estimate in figure} == {100}
    covered = sum(estimate.low <= exact <= estimate.high for estimate in figure)
    assert covered >= 52  # 57 expected at 95%; below 52 has a chance of 1%


def test_sampled_uniformity_reads_every_row_once_whatever_the_blocks(monkeypatch, tmp_path):
    rows = gaussian(500, 6)
    expected = uniformity_figure(rows, anchors=50)
    np.save(tmp_path / "rows.npy", rows.numpy())
    monkeypatch.setattr("eigenview.diagnostics.rows.BLOCK_ELEMENTS", 6 * 37)
    assert uniformity_figure(tmp_path / "rows.npy", anchors=50).value == pytest.approx(expected.value, rel=1e-12)


def test_rotation_and_the_length_of_rows_change_nothing():
    a, b = gaussian(40, 6), gaussian(40, 6, seed=1)
    lengths = 10 ** gaussian(40, 1, seed=2)
    turned_a, turned_b = rotated(a) * lengths, rotated(b) / lengths
    assert alignment_figure(turned_a, turned_b) == pytest.approx(alignment_figure(a, b))
    assert uniformity_figure(turned_a).value == pytest.approx(uniformity_figure(a).value)
    assert mean_cosine(turned_a) == pytest.approx(mean_cosine(a))


def test_the_floor_is_the_integral_over_the_sphere():
    rows = gaussian(3000, 7)
    assert uniformity_figure(rows).value == pytest.approx(uniformity_floor(7), abs=0.02)
    assert uniformity_floor(1) == pytest.approx(math.log((1 + math.exp(-8)) / 2))
    circle = [math.exp(-2 * (2 - 2 * math.cos(2 * math.pi * step / 1000))) for step in range(1000)]
    assert uniformity_floor(2) == pytest.approx(math.log(sum(circle) / 1000))
    assert uniformity_floor(100_000) == pytest.approx(-4, abs=1e-3)
    assert uniformity_floor(2048, t=0.1) == pytest.approx(-0.2, abs=1e-4)


def test_collapsed_rows_have_uniformity_zero_and_antipodes_the_least():
    constant = torch.full((50, 8), 0.3)
    assert uniformity_figure(constant).value == pytest.approx(0, abs=1e-5)
    assert mean_cosine(constant) == pytest.approx(1)
    antipodes = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])
    assert uniformity_figure(antipodes).value == pytest.approx(-8)
    assert alignment_figure(antipodes, -antipodes) == pytest.approx(4)


def test_rows_of_extreme_length_have_directions_too():
    rows = gaussian(20, 4)
    assert uniformity_figure((rows * 1e-30).float()).value == pytest.approx(uniformity_figure(rows).value, rel=1e-5)
    assert uniformity_figure((rows * 1e30).float()).value == pytest.approx(uniformity_figure(rows).value, rel=1e-5)


def test_tolerance_is_the_mean_cosine_within_a_label():
    rows, labels = gaussian(12, 3), torch.tensor([5, 5, 2, 2, 2, -1, -1, 7, 5, 2, 9, 9])
    line = cosines_by_loops(rows)
    pairs = [
        line[i][j] for i in range(12) for j in range(12) if i != j and labels[i] == labels[j] and int(labels[i]) >= 0
    ]
    assert tolerance(rows, labels) == pytest.approx(sum(pairs) / len(pairs))
    assert tolerance(rows, labels.numpy()) == pytest.approx(sum(pairs) / len(pairs))
    assert tolerance(rows[labels == 5][[0, 0, 0]], np.zeros(3, dtype=int)) == pytest.approx(1)


def test_bad_input_is_refused():
    rows = gaussian(6, 3)
    with pytest.raises(ShapeError, match=r"one and the same shape \(n, d\).*z_a \(6, 3\), z_b \(5, 3\)"):
        alignment_figure(rows, rows[:5])
    with pytest.raises(ShapeError, match="at least 2 rows here; got 1"):
        uniformity_figure(rows[:1])
    with pytest.raises(DataError, match="zero in 1 of 6 rows, first 4"):
        mean_cosine(rows * torch.tensor([1, 1, 1, 1, 0, 1])[:, None])
    with pytest.raises(DataError, match="z_b must be finite; NaN or Inf in 1 of 6 rows, first 3"):
        alignment_figure(rows, rows.index_fill(0, torch.tensor([3]), math.nan))
    with pytest.raises(SettingError, match="t must be positive"):
        uniformity_figure(rows, t=0)
    with pytest.raises(SettingError, match="sampled rows must be a whole number of at least 2; got 1"):
        uniformity_figure(rows, anchors=1)
    with pytest.raises(SettingError, match="alpha must be positive"):
        alignment_figure(rows, rows, alpha=-1)
    with pytest.raises(ShapeError, match=r"labels must have shape \(6,\)"):
        tolerance(rows, torch.zeros(5, dtype=torch.long))
    with pytest.raises(ShapeError, match="labels must be whole numbers"):
        tolerance(rows, torch.zeros(6))
    with pytest.raises(DataError, match="a label that two rows share"):
        tolerance(rows, torch.arange(6))
