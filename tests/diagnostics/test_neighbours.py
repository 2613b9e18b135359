"""Nearest neighbours, their preservation, hubness and near-duplicates against all pairs in loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenview.diagnostics import duplicate_share, hubness, matched_views, near_duplicates, neighbourhood_preservation
from eigenview.diagnostics.neighbours import all_nearest
from eigenview.diagnostics.rows import open_rows
from eigenview.errors import SettingError, ShapeError
from tests.diagnostics.clouds import cosines_by_loops, gaussian, nearest_by_loops, rotated


def small_blocks(monkeypatch):
    monkeypatch.setattr("eigenview.graph.nearest.BANK_ROWS", 5)
    monkeypatch.setattr("eigenview.diagnostics.neighbours.QUERY_ROWS", 7)
    monkeypatch.setattr("eigenview.diagnostics.neighbours.BLOCK_ROWS", 11)


def test_all_rows_of_all_sources_are_searched_as_one(monkeypatch):
    small_blocks(monkeypatch)
    rows = gaussian(30, 3)
    blocks = list(all_nearest([open_rows(rows[:13]), open_rows(rows[13:])], 3))
    assert torch.cat([near.index for near in blocks]).tolist() == nearest_by_loops(rows, 3)


def test_preservation_is_the_mean_overlap_of_neighbourhoods():
    a = gaussian(40, 4)
    b = a + 0.5 * gaussian(40, 4, seed=1)
    in_a, in_b = nearest_by_loops(a, 5), nearest_by_loops(b, 5)
    expected = sum(len(set(x) & set(y)) / 5 for x, y in zip(in_a, in_b, strict=True)) / 40
    assert neighbourhood_preservation(a, b, neighbours=5).value == pytest.approx(expected)
    assert neighbourhood_preservation(a, rotated(a), neighbours=5).value == 1
    assert neighbourhood_preservation(a[:2], b[:2], neighbours=1).value == 1


def test_sampled_preservation_covers_the_exact_one():
    a = gaussian(900, 4)
    b = a + 0.2 * gaussian(900, 4, seed=1)
    exact = neighbourhood_preservation(a, b).value
    figures = [neighbourhood_preservation(a, b, anchors=60, seed=seed) for seed in range(40)]
    assert sum(estimate.low <= exact <= estimate.high for estimate in figures) >= 34  # 38 expected


def test_matched_views_are_those_found_first():
    a = gaussian(40, 3)
    b = a + 0.6 * gaussian(40, 3, seed=1)
    line = cosines_by_loops(a, b)
    expected = sum(max(range(40), key=lambda j: line[i][j]) == i for i in range(40)) / 40
    assert 0 < expected < 1
    assert matched_views(a, b).value == pytest.approx(expected)
    assert matched_views(a, -a).value == 0


def test_hubness_counts_how_often_each_row_is_a_neighbour():
    rows = gaussian(50, 6) + 0.5
    counts = [0] * 50
    for near in nearest_by_loops(rows, 4):
        for j in near:
            counts[j] += 1
    spread = math.sqrt(sum((count - 4) ** 2 for count in counts) / 50)
    hubs = hubness(rows, neighbours=4)
    assert hubs.skewness.value == pytest.approx(sum((count - 4) ** 3 for count in counts) / 50 / spread**3)
    assert hubs.antihubs.value == counts.count(0) / 50
    assert (hubs.rows, hubs.skewness.anchors) == (50, None)


def test_one_row_near_all_others_is_a_hub():
    rows = torch.cat([torch.full((1, 200), 0.1), torch.eye(200)])
    hubs = hubness(rows.double(), neighbours=1)
    assert hubs.skewness.value > 10
    assert hubs.antihubs.value > 0.9
    assert hubness(torch.eye(2) + 0.1, neighbours=1).skewness.value == 0


def test_hubness_of_many_rows_is_the_mean_over_sets(monkeypatch):
    monkeypatch.setattr("eigenview.diagnostics.neighbours.EXACT_ROWS", 500)
    monkeypatch.setattr("eigenview.diagnostics.neighbours.SET_ROWS", 200)
    rows = gaussian(1700, 8)
    hubs = hubness(rows)
    order = torch.randperm(1700, generator=torch.Generator().manual_seed(0))[:1600].view(8, 200)
    each = [hubness(rows[drawn.sort().values]) for drawn in order]
    assert hubs.skewness.value == pytest.approx(sum(figures.skewness.value for figures in each) / 8)
    assert hubs.antihubs.value == pytest.approx(sum(figures.antihubs.value for figures in each) / 8)
    assert hubs.skewness.low < hubs.skewness.value < hubs.skewness.high
    assert (hubs.rows, hubs.skewness.anchors) == (200, 1600)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cosine", [0.5, 0.97, 0.9999])
def test_near_duplicates_are_all_pairs_above_the_cosine(cosine: float, dtype: torch.dtype, monkeypatch, tmp_path):
    small_blocks(monkeypatch)
    base = gaussian(40, 4)
    rows = torch.cat([base, base[:9] + 1e-4 * gaussian(9, 4, seed=1), base[3:6]]).to(dtype)
    line = cosines_by_loops(rows.double())
    expected = {(i, j) for i in range(52) for j in range(i + 1, 52) if line[i][j] >= cosine}
    pairs = near_duplicates(rows, cosine=cosine)
    assert {tuple(pair) for pair in pairs.pairs.tolist()} == expected
    assert pairs.is_complete
    assert pairs.cosines.tolist() == sorted(pairs.cosines.tolist(), reverse=True)
    monkeypatch.setattr("eigenview.diagnostics.neighbours.HELD_ELEMENTS", 0)
    np.save(tmp_path / "rows.npy", rows.numpy())
    assert near_duplicates(tmp_path / "rows.npy", cosine=cosine).pairs.tolist() == pairs.pairs.tolist()


def test_equal_rows_are_found_at_cosine_one_whatever_their_length():
    rows = gaussian(30, 5).float()
    pairs = near_duplicates(torch.cat([rows, 4 * rows[:7]]), cosine=1.0)
    assert sorted(pairs.pairs.tolist()) == [[i, i + 30] for i in range(7)]
    assert pairs.rows == 14


def test_a_search_among_too_many_pairs_stops_and_says_so():
    pairs = near_duplicates(torch.ones(600, 3), most=1000)
    assert len(pairs.pairs) == 1000
    assert not pairs.is_complete
    assert near_duplicates(torch.eye(4)).pairs.shape == (0, 2)


def test_the_share_of_duplicates_counts_rows_that_are_unusually_close():
    base = gaussian(400, 32)
    rows = torch.cat([base, base[:40] + 1e-3 * gaussian(40, 32, seed=1)])
    share = duplicate_share(rows)
    assert share.share.value == pytest.approx(80 / 440)
    assert share.pairs.tolist() == [[i, i + 400] for i in range(40)]
    sampled = duplicate_share(rows, anchors=200)
    assert sampled.share.low < 80 / 440 < sampled.share.high


def test_a_dense_cloud_has_no_duplicates_though_all_rows_are_close():
    dense = torch.ones(300, 16) + 1e-3 * gaussian(300, 16)
    assert duplicate_share(dense, apart=1).share.value == 1
    assert duplicate_share(dense).share.value == 0
    assert duplicate_share(torch.ones(50, 4)).share.value == 1


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_intrinsic_dimension_is_that_of_a_curved_surface(dimension: int):
    latent = torch.rand(4000, dimension, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = torch.cos(4 * latent @ gaussian(dimension, 48) + 6 * gaussian(1, 48, seed=1))
    share = duplicate_share(rows)
    assert share.dimension == pytest.approx(dimension, rel=0.1)
    assert share.share.value <= 1.2 * share.by_chance
    assert duplicate_share(torch.ones(50, 4)).dimension is None
    assert duplicate_share(gaussian(5, 4)).dimension is None


def test_bad_settings_are_refused():
    rows = gaussian(6, 3)
    with pytest.raises(SettingError, match="neighbours must be a whole number from 1 to 5 for 6 rows; got 6"):
        hubness(rows, neighbours=6)
    with pytest.raises(SettingError, match="neighbours must be a whole number"):
        neighbourhood_preservation(rows, rows, neighbours=0)
    with pytest.raises(SettingError, match=r"at most 1; got 1\.5"):
        near_duplicates(rows, cosine=1.5)
    with pytest.raises(SettingError, match="apart must be from 0 to 1; got 2"):
        duplicate_share(rows, apart=2)
    with pytest.raises(SettingError, match="most must be at least 1"):
        near_duplicates(rows, most=0)
    with pytest.raises(ShapeError, match="at least 2 rows"):
        near_duplicates(rows[:1])
