"""Measures without labels: LiDAR and spanning trees by loops in float64, their limits, and whom they call best."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import linalg

from eigenview.diagnostics.label_free import (
    MEASURES,
    WORTH,
    LabelFree,
    best_by,
    label_free,
    lidar,
    spanning_tree_length,
    tree_dimension,
)
from eigenview.errors import DataError, SettingError, ShapeError
from tests.diagnostics.clouds import clustered, gaussian, rotated

FIGURES = LabelFree(10.0, 1.2, 8.0, 0.5, 0.9, 20.0, 0.3)


def viewed(images: int, views: int, width: int, noise: float = 0.3) -> torch.Tensor:
    return torch.stack([gaussian(images, width) + noise * gaussian(images, width, seed=9 + v) for v in range(views)])


def lidar_by_loops(views: np.ndarray) -> float:
    count, images, width = views.shape
    whole = views.mean(axis=(0, 1))
    between, within = np.zeros((width, width)), np.zeros((width, width))
    for image in range(images):
        mean = views[:, image].mean(axis=0)
        between += np.outer(mean - whole, mean - whole) / images
        for view in range(count):
            off = views[view, image] - mean
            within += np.outer(off, off) / (images * count)
    within += 1e-4 * np.trace(within) / width * np.eye(width)
    root = linalg.inv(linalg.sqrtm(within))
    values = np.linalg.svd(root @ between @ root, compute_uv=False)
    share = values / values.sum()
    return math.exp(-sum(p * math.log(p) for p in share if p > 0))


def tree_by_kruskal(rows: np.ndarray) -> float:
    edges = sorted(
        (float(np.linalg.norm(rows[i] - rows[j])), i, j) for i in range(len(rows)) for j in range(i + 1, len(rows))
    )
    island, total = list(range(len(rows))), 0.0
    for length, i, j in edges:
        if island[i] != island[j]:
            total += length
            old = island[j]
            island = [island[i] if mark == old else mark for mark in island]
    return total


@pytest.mark.parametrize(("images", "views", "width"), [(12, 3, 5), (6, 2, 4), (30, 4, 3)])
def test_lidar_is_the_rank_between_images_over_that_within(images: int, views: int, width: int):
    rows = viewed(images, views, width) * torch.logspace(0, 1, width, dtype=torch.float64)
    assert lidar(rows) == pytest.approx(lidar_by_loops(rows.numpy()), rel=1e-8)


def test_lidar_knows_no_scale_nor_rotation_and_its_limits():
    rows = viewed(40, 4, 6)
    assert lidar(100 * rows) == pytest.approx(lidar(rows), rel=1e-6)
    turned = torch.stack([rotated(view) for view in rows])
    assert lidar(turned) == pytest.approx(lidar(rows), rel=1e-6)
    line = torch.outer(torch.arange(20.0).double(), torch.tensor([1.0, 0, 0]).double())
    assert lidar(line + 0.01 * viewed(20, 5, 3, 1.0) * 0 + 1e-3 * gaussian(20 * 5, 3).view(5, 20, 3)) < 1.1
    assert lidar(torch.ones(3, 8, 4)) == 0
    assert 1 <= lidar(torch.stack([gaussian(30, 4)] * 2)) <= 4  # views that are all the same


def test_a_tree_is_as_long_as_kruskals_and_copies_cost_nothing():
    rows = gaussian(25, 3)
    assert spanning_tree_length(rows) == pytest.approx(tree_by_kruskal(rows.numpy()), rel=1e-12)
    assert spanning_tree_length(torch.cat([rows, rows])) == pytest.approx(spanning_tree_length(rows), rel=1e-12)
    assert spanning_tree_length(torch.ones(5, 2)) == 0


def test_the_slope_of_trees_is_the_dimension():
    for dimension in (2, 4):
        flat = torch.zeros(1600, 12, dtype=torch.float64)
        flat[:, : dimension + 1] = gaussian(1600, dimension + 1)  # directions on a sphere of that dimension
        assert tree_dimension(rotated(flat)) == pytest.approx(dimension, rel=0.2)
    small = gaussian(40, 3)
    unit = torch.nn.functional.normalize(small[torch.randperm(40, generator=torch.Generator().manual_seed(0))], dim=1)
    lengths = [tree_by_kruskal(unit[:size].numpy()) for size in (40, 20, 10)]
    slope = np.polyfit(np.log([40, 20, 10]), np.log(lengths), 1)[0]
    assert tree_dimension(small) == pytest.approx(1 / (1 - slope), rel=1e-9)
    assert math.isnan(tree_dimension(torch.ones(50, 3)))


def test_all_measures_of_features_and_of_views():
    rows = clustered(4, 60, 16, noise=0.15)
    views = torch.stack([rows, rows + 0.01 * gaussian(240, 16)])
    figures = label_free(rows, views)
    assert figures.modularity == pytest.approx(0.75, abs=0.03)  # four groups alike and apart: 1 − 1/4
    assert figures.agreement > 0.95
    assert figures.neighbours_kept > 0.8
    assert figures.lidar == pytest.approx(lidar_by_loops(views.numpy()), rel=1e-8)
    bare = label_free(rows)
    assert bare == replace(figures, lidar=None, neighbours_kept=None)


def test_the_best_is_told_by_the_measure_worth_most_that_all_have():
    first = max(WORTH, key=lambda title: WORTH[title])
    field = MEASURES[first].field
    better = replace(FIGURES, **{field: getattr(FIGURES, field) + 0.1 * (MEASURES[first].sign or -1)})
    assert best_by({"a": FIGURES, "b": better}) == ("b", first)
    without = replace(FIGURES, lidar=None, neighbours_kept=None)
    assert best_by({"a": without, "b": better})[1] not in ("LiDAR", "neighbours kept")
    assert MEASURES["α-ReQ"].score(replace(FIGURES, alpha_req=0.8)) == pytest.approx(-0.2)
    assert set(WORTH) == set(MEASURES)
    with pytest.raises(SettingError, match="nothing to compare"):
        best_by({})


def test_bad_input_is_refused():
    with pytest.raises(ShapeError, match=r"two or more views of two or more images, \(v, n, d\); got \(1, 4, 3\)"):
        lidar(torch.ones(1, 4, 3))
    with pytest.raises(DataError, match="LiDAR needs finite views"):
        lidar(torch.full((2, 4, 3), torch.nan))
    with pytest.raises(ShapeError, match="at least 20 rows"):
        label_free(gaussian(5, 3))
    with pytest.raises(DataError, match="embeddings must be finite"):
        label_free(gaussian(30, 3).index_fill(0, torch.tensor([1]), torch.nan))
