"""Groups in a graph and their number: modularity and weights by loops, planted groups, clouds, strays, islands."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_digits

from eigenview.errors import SettingError
from eigenview.graph.clustering import adjusted_rand_index
from eigenview.graph.communities import (
    clear_gap,
    communities,
    cuts,
    modularity,
    self_tuned_weights,
    spectral_groups,
)
from eigenview.graph.nearest import nearest


def graph_of(rows: torch.Tensor, neighbours: int = 15) -> sparse.csr_array:
    unit = torch.nn.functional.normalize(rows - rows.mean(dim=0), dim=1)
    return self_tuned_weights(nearest(unit, unit, k=neighbours, excludes_self=True), neighbours)


def planted(sizes: list[int], width: int, noise: float, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0][: len(sizes)]
    truth = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    rows = centres[truth] + noise * torch.randn(len(truth), width, generator=generator, dtype=torch.float64)
    return rows, truth.numpy()


def agreement(first: np.ndarray, second: np.ndarray) -> float:
    table = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(table, (first, second), 1)
    return adjusted_rand_index(table)


def test_modularity_is_the_sum_over_pairs():
    random = np.random.default_rng(0)
    weights = np.triu(random.random((9, 9)) * (random.random((9, 9)) < 0.6), 1)
    weights += weights.T
    member = random.integers(0, 3, 9)
    degree, total = weights.sum(axis=1), weights.sum()
    expected = sum(
        weights[i, j] / total - degree[i] * degree[j] / total**2
        for i in range(9)
        for j in range(9)
        if member[i] == member[j]
    )
    assert modularity(sparse.csr_array(weights), member) == pytest.approx(expected, abs=1e-12)


def test_weights_are_self_tuned_and_symmetric():
    rows = torch.nn.functional.normalize(torch.randn(12, 4, generator=torch.Generator().manual_seed(1)).double(), dim=1)
    known = nearest(rows, rows, k=3, excludes_self=True)
    weights = self_tuned_weights(known, 3).toarray()
    distance = torch.cdist(rows, rows).numpy()
    reach = np.sort(distance, axis=1)[:, 3]
    for i in range(12):
        for j in range(12):
            is_near = i != j and (distance[i, j] <= reach[i] or distance[i, j] <= reach[j])
            expected = math.exp(-4 * distance[i, j] ** 2 / (reach[i] * reach[j])) if is_near else 0.0
            assert weights[i, j] == pytest.approx(expected, abs=1e-6)


def test_a_gap_is_a_jump_of_the_logarithm():
    values = np.array([0, 0.001, 0.002, 0.2, *np.linspace(0.21, 0.3, 10)])
    assert clear_gap(values) == 3
    assert clear_gap(np.linspace(0, 0.5, 20)) is None
    assert clear_gap(np.array([0.0, 0.3])) is None


@pytest.mark.parametrize(("sizes", "width"), [([200, 200], 8), ([300, 60, 120, 90, 40], 16), ([50] * 20, 64)])
def test_planted_groups_are_counted_and_told(sizes: list[int], width: int):
    rows, truth = planted(sizes, width, 0.12)
    groups = communities(graph_of(rows))
    assert (groups.clusters, groups.certainty) == (len(sizes), "clear")
    assert agreement(groups.member, truth) > 0.95
    assert groups.agreement > 0.9
    assert np.bincount(groups.member).tolist() == sorted(np.bincount(groups.member), reverse=True)


def test_groups_that_run_into_each_other_are_told_as_blurred():
    pixels, digits = load_digits(return_X_y=True)
    groups = communities(graph_of(torch.from_numpy(pixels)))
    assert groups.certainty == "blurred"
    assert 9 <= groups.clusters <= 13  # ones and nines are written in two ways
    assert agreement(groups.member, digits) > 0.75
    assert 0.6 < groups.agreement < 0.95


def test_cuts_are_those_of_the_weakest_place_in_a_chain():
    weights = np.zeros((12, 12))
    for node, weight in enumerate([4, 3, 1, 3, 4, 0.5, 4, 3, 1, 3, 4]):  # two groups of six, each weakest in its middle
        weights[node, node + 1] = weights[node + 1, node] = weight
    through, around = cuts(sparse.csr_array(weights), np.repeat([0, 1], 6))
    assert through == pytest.approx(1 / 15)  # a side of three weighs 4 + 7 + 4
    assert around == pytest.approx(0.5 / 30.5)


@pytest.mark.parametrize("width", [2, 3])
def test_a_ring_and_a_sphere_have_no_groups(width: int):
    rows = torch.randn(2000, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    groups = communities(graph_of(torch.nn.functional.normalize(rows, dim=1)))
    assert (groups.clusters, groups.certainty) == (1, "one cloud")


def test_the_order_of_nodes_does_not_matter():
    rows, _ = planted([80, 70, 60], 8, 0.15)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(3))
    first, second = communities(graph_of(rows)), communities(graph_of(rows[order]))
    assert agreement(first.member[order.numpy()], second.member) == pytest.approx(1)


def test_strays_join_what_they_are_tied_to_and_islands_are_groups():
    rows, truth = planted([100, 100, 100], 8, 0.1)
    graph = graph_of(rows).tolil()
    for stray in (0, 1, 2):  # three nodes that hang together by themselves, and by a thread on the second group
        graph[stray, :] = 0
        graph[:, stray] = 0
    for node, other, weight in ((0, 1, 1.0), (1, 2, 1.0), (0, 2, 1.0), (2, 150, 1e-3)):
        graph[node, other] = graph[other, node] = weight
    groups = communities(sparse.csr_array(graph))
    assert groups.clusters == 3
    assert set(groups.member[:3]) == {groups.member[150]}
    apart = sparse.csr_array(sparse.block_diag([graph_of(rows[truth == group], 10) for group in range(3)]))
    assert agreement(communities(apart).member, truth) == pytest.approx(1)


def test_a_node_without_edges_is_no_group():
    rows, _ = planted([60, 60], 8, 0.1)
    graph = graph_of(rows).tolil()
    graph[5, :] = 0
    graph[:, 5] = 0
    assert communities(sparse.csr_array(graph)).clusters == 2


def test_a_given_number_is_kept_and_few_nodes_are_enough():
    rows, truth = planted([40, 40, 40, 40], 8, 0.1)
    groups = communities(graph_of(rows, 10), clusters=4)
    assert groups.certainty == "given"
    assert agreement(groups.member, truth) == pytest.approx(1)
    assert communities(graph_of(rows[:5], 2)).clusters >= 1
    assert spectral_groups(np.ones((3, 1)), 1).tolist() == [0, 0, 0]


def test_wrong_numbers_are_refused():
    graph = graph_of(planted([10, 10], 4, 0.1)[0], 5)
    with pytest.raises(SettingError, match="clusters must be from 1 to 20, the number of rows; got 21"):
        communities(graph, clusters=21)
    with pytest.raises(SettingError, match="at least two nodes; got 1"):
        communities(sparse.csr_array((1, 1)))


def test_a_small_graph_has_no_more_groups_than_are_asked_for():
    for seed in range(120):
        random = np.random.default_rng(seed)
        nodes = int(random.integers(12, 30))
        weights = random.random((nodes, nodes)) * (random.random((nodes, nodes)) < 0.25)
        weights = np.maximum(weights, weights.T)
        np.fill_diagonal(weights, 0)
        graph = sparse.csr_array(weights)
        communities(graph)  # halves of it may fall into more than the whole does
        for clusters in (2, 3):
            assert communities(graph, clusters=clusters).clusters <= clusters
