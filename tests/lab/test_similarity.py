"""Agreement of two representations: loops, invariances, limits, refusals."""

from __future__ import annotations

import pytest
import torch

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.lab.similarity import captured, centred_rows, linear_cka, shared_neighbours


def rows(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_cka_is_that_of_the_gram_matrices_by_loops():
    x, y = rows(7, 3), rows(7, 5, seed=1)
    centre = torch.eye(7, dtype=torch.float64) - 1 / 7
    a, b = (centre @ features @ features.T @ centre for features in (x, y))
    inner = dict.fromkeys(("ab", "aa", "bb"), 0.0)
    for i in range(7):
        for j in range(7):
            inner["ab"] += float(a[i, j] * b[i, j])
            inner["aa"] += float(a[i, j] ** 2)
            inner["bb"] += float(b[i, j] ** 2)
    assert linear_cka(x, y) == pytest.approx(inner["ab"] / (inner["aa"] * inner["bb"]) ** 0.5, rel=1e-12)


def test_a_weight_is_a_number_of_copies():
    x, y, times = rows(6, 3), rows(6, 4, seed=1), torch.tensor([1, 3, 2, 1, 4, 1])
    copies = [features.repeat_interleave(times, dim=0) for features in (x, y)]
    assert linear_cka(x, y, weights=times) == pytest.approx(linear_cka(*copies), rel=1e-12)
    torch.testing.assert_close(captured(x, y, weights=times), captured(*copies))


def test_rotation_scale_and_offset_change_nothing():
    x = rows(20, 4)
    turned = 3 * x @ torch.linalg.qr(rows(4, 4, seed=3)).Q + 5
    assert linear_cka(x, turned) == pytest.approx(1, abs=1e-12)
    assert shared_neighbours(x, 2 * x @ torch.linalg.qr(rows(4, 4, seed=3)).Q) == 1


def test_captured_is_the_r_squared_of_least_squares():
    x, y = rows(30, 4), rows(30, 3, seed=1)
    design = torch.cat([x, torch.ones(30, 1, dtype=torch.float64)], dim=1)
    rest = y - design @ torch.linalg.lstsq(design, y).solution
    expected = 1 - rest.square().sum(dim=0) / (y - y.mean(dim=0)).square().sum(dim=0)
    torch.testing.assert_close(captured(y, x), expected)
    torch.testing.assert_close(captured(x @ rows(4, 2, seed=2), x), torch.ones(2, dtype=torch.float64))


def test_neighbours_are_shared_by_loops():
    x, y = rows(12, 3), rows(12, 5, seed=1)
    shared = 0
    for i in range(12):
        sets = []
        for features in (x, y):
            cosines = torch.nn.functional.cosine_similarity(features, features[i : i + 1])
            cosines[i] = -2
            sets.append(set(cosines.topk(4).indices.tolist()))
        shared += len(sets[0] & sets[1])
    assert shared_neighbours(x, y, neighbours=4) == pytest.approx(shared / 48)


def test_centred_rows_have_no_weighted_mean():
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    centred = centred_rows(rows(4, 3), weights)
    torch.testing.assert_close(weights.sqrt() @ centred, torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-12)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ShapeError, match="same items; got 5 and 6"):
        linear_cka(rows(5, 2), rows(6, 2))
    with pytest.raises(DataError, match="one of the two representations is constant"):
        linear_cka(torch.ones(5, 2), rows(5, 2))
    with pytest.raises(SettingError, match="1 to n − 1 neighbours"):
        shared_neighbours(rows(5, 2), rows(5, 2), neighbours=5)
    with pytest.raises(ShapeError, match="with weights"):
        centred_rows(rows(5, 2), torch.ones(4))
