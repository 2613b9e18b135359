"""The image graph against loops, and where rows coincide, are few or have no direction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.graph.principal import projection, two_projections
from eigenview.labels.graph import image_graph


def drawn(n: int = 40, d: int = 5, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 3


def by_loops(rows: Tensor, k: int) -> np.ndarray:
    n = len(rows)
    centred = rows - rows.mean(dim=0)
    unit = [row / row.norm() for row in centred]
    distance = [[float((a - b).norm()) for b in unit] for a in unit]
    nearest = [sorted((j for j in range(n) if j != i), key=lambda j: distance[i][j])[:k] for i in range(n)]
    reach = [distance[i][nearest[i][-1]] for i in range(n)]
    weights = np.zeros((n, n))
    for i in range(n):
        for j in nearest[i]:
            weight = math.exp(-4 * distance[i][j] ** 2 / (reach[i] * reach[j]))
            weights[i, j] = max(weights[i, j], weight)
            weights[j, i] = max(weights[j, i], weight)
    return weights


@pytest.mark.parametrize("k", [1, 4, 25])
def test_weights_are_those_of_the_loops(k: int) -> None:
    rows = drawn()
    graph = image_graph(rows, neighbours=k)
    assert np.allclose(graph.weights.toarray(), by_loops(rows, k), atol=1e-6)


def test_the_normalised_graph_divides_by_the_roots_of_both_degrees() -> None:
    graph = image_graph(drawn(), neighbours=3)
    dense = graph.weights.toarray()
    degree = dense.sum(axis=1)
    for i in range(len(graph)):
        for j in range(len(graph)):
            expected = dense[i, j] / math.sqrt(degree[i] * degree[j])
            assert graph.normalized[i, j] == pytest.approx(expected, rel=1e-5)


def test_density_is_one_over_the_mean_distance_to_twenty_neighbours() -> None:
    rows = drawn()
    unit = projection(rows)(rows)
    density = image_graph(rows, neighbours=3).density
    for i in (0, 17):
        nearest = sorted(float((unit[i] - unit[j]).norm()) for j in range(len(rows)) if j != i)[:20]
        assert float(density[i]) == pytest.approx(20 / sum(nearest))


def test_wide_rows_are_reduced_to_their_principal_directions() -> None:
    rows = drawn(n=300, d=140, seed=1) * torch.linspace(3, 0.1, 140, dtype=torch.float64)
    centred = rows - rows.mean(dim=0)
    unit = torch.stack([row / row.norm() for row in centred])
    unit = unit - unit.mean(dim=0)
    left, sizes, _ = torch.linalg.svd(unit, full_matrices=False)
    expected = left[:, :128] * sizes[:128]
    expected = torch.stack([row / row.norm() for row in expected])
    reduced = projection(rows)(rows)
    assert torch.allclose(reduced @ reduced.T, expected @ expected.T, atol=1e-9)


@pytest.mark.parametrize("columns", [100, 140, 180])  # reduced for neither, for the graph alone, for both
def test_two_projections_are_each_what_it_is_alone(columns: int) -> None:
    rows = drawn(n=300, d=columns)
    wide, (narrow, own) = two_projections(rows, directions=150)
    assert torch.allclose(wide, projection(rows, directions=150)(rows), atol=1e-12)
    assert torch.allclose(own, projection(rows)(rows), atol=1e-12)
    assert torch.allclose(narrow(rows), own, atol=1e-12)


def test_moving_and_scaling_all_rows_changes_nothing() -> None:
    rows = drawn()
    moved = image_graph(rows * 7 - 100).weights.toarray()
    assert np.allclose(image_graph(rows).weights.toarray(), moved, atol=1e-6)


def test_more_copies_than_neighbours_still_hang_together_with_the_rest() -> None:
    rows = torch.cat([drawn()[:1].repeat(6, 1), drawn()])
    weights = image_graph(rows, neighbours=4).weights
    assert np.isfinite(weights.data).all()
    outside = weights[:7].toarray()[:, 7:]
    assert outside.max() > 1e-4


def test_identical_rows_have_a_graph_of_ones() -> None:
    weights = image_graph(torch.full((6, 3), 0.1), neighbours=5).weights.toarray()
    assert np.allclose(weights[~np.eye(6, dtype=bool)], weights[0, 1])
    assert weights[0, 1] > 0


def test_a_set_smaller_than_the_neighbours_joins_everyone() -> None:
    weights = image_graph(drawn(n=5)).weights.toarray()
    assert ((weights > 0) == ~np.eye(5, dtype=bool)).all()


def test_bad_rows_are_refused() -> None:
    with pytest.raises(SettingError, match="at least two images; got 1"):
        image_graph(drawn(n=1))
    with pytest.raises(SettingError, match="neighbours must be at least 1; got 0"):
        image_graph(drawn(), neighbours=0)
    rows = drawn()
    rows[3, 1] = math.nan
    with pytest.raises(DataError, match="3"):
        image_graph(rows)
