"""Random graphs by brute force over all of them, by rejection, and in closed form."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor

from eigenview.lab.planted import row_normalised
from eigenview.lab.random_graphs import (
    acceptance_rate,
    closed_form,
    edge_probabilities,
    entropy,
    expected_total_variation,
    field_sample,
    graph_number,
    sampled_by_rejection,
    side_by_side,
    total_variation,
)
from tests.lab.every_graph import enumerated

PRIORS = ["out_degree", "edges", "bernoulli"]


def weights(nodes: int, seed: int = 0) -> Tensor:
    drawn = torch.rand(nodes, nodes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1
    return (drawn + drawn.T).fill_diagonal_(0) / 2


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_edge_probabilities_are_those_of_all_graphs_weighed(prior, nodes):
    graph = weights(nodes)
    expected = torch.zeros(nodes * nodes, dtype=torch.float64)
    for edges, probability in enumerated(graph, prior).items():
        for edge in edges:
            expected[edge] += probability
    torch.testing.assert_close(edge_probabilities(graph, prior), expected.view(nodes, nodes), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_rows_of_the_out_degree_field_are_independent(nodes):
    graph = weights(nodes, seed=1)
    measured = closed_form(graph)
    for edges, probability in enumerated(graph, "out_degree").items():
        neighbours = torch.tensor([[edge % nodes for edge in edges]])
        assert float(measured[graph_number(neighbours)]) == pytest.approx(probability, rel=1e-12)
    assert float(measured.sum()) == pytest.approx(1, rel=1e-14)


def test_rejection_accepts_as_often_as_foretold_and_draws_the_closed_form():
    graph, generator = weights(4), torch.Generator().manual_seed(0)
    graphs = sampled_by_rejection(graph, 300_000, generator=generator)
    accepted = stats.binomtest(len(graphs), 300_000, acceptance_rate(graph))
    assert accepted.pvalue > 1e-3
    measured = field_sample(graph, graphs, proposals=300_000)
    assert len(measured.expected) == 81
    assert measured.p_value > 1e-3
    assert measured.total_variation[-1] == pytest.approx(measured.noise_alone[-1], rel=0.3)


def test_another_closed_form_would_be_noticed():
    graph, generator = weights(4), torch.Generator().manual_seed(0)
    graphs = sampled_by_rejection(graph, 300_000, generator=generator)
    other = graph.clone()
    other[0, 1] = other[1, 0] = 1.3 * other[0, 1]
    assert field_sample(other, graphs, proposals=300_000).p_value < 1e-6


def test_rows_drawn_by_themselves_are_the_same_field():
    graph, generator = weights(4), torch.Generator().manual_seed(2)
    graphs = torch.multinomial(row_normalised(graph), 20_000, replacement=True, generator=generator).T
    assert field_sample(graph, graphs, proposals=20_000).p_value > 1e-3


def test_acceptance_is_the_field_without_a_prior_summed_over_out_degree_one():
    graph = weights(3)
    allowed = enumerated(graph, "out_degree")
    free = enumerated(graph, "bernoulli")
    assert acceptance_rate(graph) == pytest.approx(sum(free[edges] for edges in allowed), rel=1e-12)


def test_total_variation_of_equal_shares_is_zero_and_of_disjoint_one():
    half = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    assert total_variation(torch.tensor([7.0, 7.0, 0.0], dtype=torch.float64), half) == 0
    assert total_variation(torch.tensor([0.0, 0.0, 3.0], dtype=torch.float64), half) == pytest.approx(1)
    assert expected_total_variation(half, 400) == pytest.approx(expected_total_variation(half, 100) / 2)


def test_under_each_prior_the_loss_falls_towards_its_floor_and_q_keeps_its_marginals():
    reached = {measured.prior: measured for measured in side_by_side(6, seed=0)}
    for measured in reached.values():
        assert measured.floor <= measured.loss < measured.floor + 0.2 * (measured.start - measured.floor)
    rows = reached["out_degree"]
    assert (rows.lowest_row_sum, rows.highest_row_sum) == pytest.approx((1, 1), abs=1e-12)
    assert reached["edges"].total == pytest.approx(1, abs=1e-12)
    assert reached["bernoulli"].highest_row_sum > 1 + 1e-3


def test_entropy_is_the_cross_entropy_with_oneself():
    graph = edge_probabilities(weights(3), "bernoulli")
    off = ~torch.eye(3, dtype=torch.bool)
    expected = torch.nn.functional.binary_cross_entropy(graph[off], graph[off], reduction="sum")
    assert entropy(graph, "bernoulli") == pytest.approx(float(expected), rel=1e-12)
    rows = row_normalised(weights(3))
    assert entropy(rows, "out_degree") == pytest.approx(float(-(rows[off] * rows[off].log()).sum()), rel=1e-12)
