"""Effective rank, singular values, decay and dead dimensions against plain formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenview.diagnostics import effective_rank, spectrum
from eigenview.diagnostics.dimensions import singular_values
from eigenview.errors import DataError, SettingError, ShapeError
from tests.diagnostics.clouds import gaussian
from tests.processes import run_processes


def rank_by_loops(rows: Tensor) -> float:
    values = torch.linalg.svdvals(rows).tolist()
    entropy = 0.0
    for value in values:
        share = value / sum(values)
        if share > 0:
            entropy -= share * math.log(share)
    return math.exp(entropy)


@pytest.mark.parametrize(("n", "d"), [(50, 7), (7, 50), (9, 9), (2, 5), (40, 1)])
@pytest.mark.parametrize("centred", [False, True])
def test_effective_rank_is_the_exponential_of_the_entropy_of_singular_values(n: int, d: int, centred: bool):
    rows = gaussian(n, d) * torch.arange(1, d + 1) + 3
    expected = rank_by_loops(rows - rows.mean(dim=0) if centred else rows)
    assert effective_rank(rows, centred=centred) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("n", "d"), [(300, 20), (20, 300)])
def test_singular_values_equal_a_full_decomposition(n: int, d: int):
    rows = gaussian(n, d) + 1
    torch.testing.assert_close(singular_values(rows), torch.linalg.svdvals(rows), rtol=1e-10, atol=0)
    centred = rows - rows.mean(dim=0)
    torch.testing.assert_close(
        singular_values(rows, centred=True), torch.linalg.svdvals(centred), rtol=1e-10, atol=1e-6
    )


def test_rotation_scale_and_order_do_not_change_the_effective_rank():
    rows = gaussian(60, 12) * torch.arange(1, 13)
    turn = torch.linalg.qr(gaussian(12, 12, seed=1))[0]
    changed = 1e-3 * (rows @ turn)[torch.randperm(60, generator=torch.Generator().manual_seed(2))]
    assert effective_rank(changed) == pytest.approx(effective_rank(rows), rel=1e-9)


def test_orthogonal_rows_have_full_rank_and_constant_rows_have_rank_one():
    assert effective_rank(torch.eye(16, dtype=torch.float64)) == pytest.approx(16)
    constant = torch.ones(100, 32) * gaussian(1, 32).float()
    assert effective_rank(constant) == pytest.approx(1, abs=1e-3)
    assert effective_rank(constant, centred=True) == 0
    assert effective_rank(torch.zeros(5, 3)) == 0


def test_two_rows_have_a_rank_between_one_and_two():
    assert effective_rank(torch.tensor([[1.0, 0, 0], [0, 1.0, 0]])) == pytest.approx(2)
    assert effective_rank(torch.tensor([[1.0, 0, 0], [2.0, 0, 0]])) == pytest.approx(1)


def test_nearly_collapsed_rows_keep_the_rank_of_their_differences():
    rows = gaussian(200, 8)
    assert effective_rank(100 + 1e-6 * rows, centred=True) == pytest.approx(
        effective_rank(rows, centred=True), rel=1e-3
    )


def test_tensor_array_and_file_agree(tmp_path):
    rows = gaussian(70, 6).numpy()
    np.save(tmp_path / "rows.npy", rows)
    expected = effective_rank(torch.from_numpy(rows))
    assert effective_rank(rows) == expected
    assert effective_rank(tmp_path / "rows.npy") == effective_rank(str(tmp_path / "rows.npy")) == expected
    assert effective_rank(rows.astype(np.float16)) == pytest.approx(expected, rel=1e-3)
    assert effective_rank(torch.from_numpy(rows).bfloat16().requires_grad_()) == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(("n", "d"), [(80, 6), (6, 80)])
def test_stable_rank_and_variances_follow_their_formulas(n: int, d: int):
    rows = gaussian(n, d) * torch.arange(1, d + 1) + 5
    measured = spectrum(rows)
    values = torch.linalg.svdvals(rows).tolist()
    assert measured.stable_rank() == pytest.approx(sum(value**2 for value in values) / values[0] ** 2)
    for column, variance in zip(rows.T.tolist(), measured.variances.tolist(), strict=True):
        mean = sum(column) / n
        assert variance == pytest.approx(sum((value - mean) ** 2 for value in column) / n)


def test_the_decay_is_the_weighted_slope_of_logarithms():
    values = spectrum(gaussian(60, 8) * torch.arange(1, 9))
    x = [math.log(rank) for rank in range(1, 9)]
    y = [math.log(float(value) ** 2 / 60) for value in values.centred]
    weight = [1 / rank for rank in range(1, 9)]
    mean_x, mean_y = (sum(w * v for w, v in zip(weight, line, strict=True)) / sum(weight) for line in (x, y))
    above = sum(w * (u - mean_x) * (v - mean_y) for w, u, v in zip(weight, x, y, strict=True))
    below = sum(w * (u - mean_x) ** 2 for w, u in zip(weight, x, strict=True))
    assert values.decay() == pytest.approx(-above / below)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_an_exact_power_law_gives_its_exponent(exponent: float):
    basis = torch.linalg.qr(gaussian(64, 17))[0]
    basis = torch.linalg.qr(torch.cat([torch.ones(64, 1).double(), basis], dim=1))[0][:, 1:17]  # columns of mean 0
    rows = basis * torch.arange(1, 17).double().pow(-exponent / 2)
    assert spectrum(rows).decay() == pytest.approx(exponent, rel=1e-9)
    assert spectrum(rows).decay(first=3, last=9) == pytest.approx(exponent, rel=1e-9)


def test_dead_dimensions_are_those_that_hardly_vary():
    rows = gaussian(100, 6)
    rows[:, 2] = 7
    rows[:, 4] *= 1e-5
    assert spectrum(rows).dead() == [2, 4]
    assert spectrum(1e6 * rows).dead() == [2, 4]
    constant = spectrum(torch.full((9, 3), 0.1))
    assert constant.dead() == [0, 1, 2]
    assert math.isnan(constant.decay())
    assert constant.stable_rank(centred=True) == 0


def test_a_range_of_ranks_that_does_not_exist_is_refused():
    with pytest.raises(SettingError, match="upwards within 1 to 5; got 4 to 9"):
        spectrum(gaussian(20, 5)).decay(first=4, last=9)


def _rank_of_a_share(rank: int, group, rows: Tensor) -> float:
    return effective_rank(rows[:10] if rank == 0 else rows[10:], group=group)


def test_two_processes_give_the_rank_of_all_rows():
    rows = gaussian(30, 5)
    assert run_processes(2, _rank_of_a_share, rows) == [pytest.approx(effective_rank(rows))] * 2


def test_bad_embeddings_are_refused_by_name(tmp_path):
    rows = gaussian(8, 3)
    rows[2, 1], rows[5, 0] = torch.nan, torch.inf
    with pytest.raises(DataError, match=r"NaN or Inf in 2 of 8 rows, first 2, 5"):
        effective_rank(rows)
    with pytest.raises(ShapeError, match=r"must be \(n, d\) embeddings, not empty; got shape \(3,\)"):
        effective_rank(torch.ones(3))
    with pytest.raises(ShapeError, match="floating point; got int64"):
        effective_rank(np.ones((3, 2), dtype=np.int64))
    with pytest.raises(ShapeError, match="a torch tensor, a NumPy array or the path"):
        effective_rank([[1.0, 2.0]])
    (tmp_path / "text.npy").write_text("no numbers")
    with pytest.raises(DataError, match=r"text\.npy must be an \.npy file"):
        effective_rank(tmp_path / "text.npy")
    with pytest.raises(DataError, match=r"absent\.npy"):
        effective_rank(tmp_path / "absent.npy")
