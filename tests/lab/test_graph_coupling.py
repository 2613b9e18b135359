"""H in its three faces: a coupling, a trace with a log-partition, an expectation over random graphs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.graph import GaussianKernel
from eigenview.lab import LabSettings
from eigenview.lab.finite_views import CROSS, shifted_digits
from eigenview.lab.graph_coupling import (
    along_training,
    convergence_of,
    cross_entropy_of_graphs,
    partition_term,
    sampled_field,
    trace_term,
)
from eigenview.lab.planted import planted_graph, row_normalised
from eigenview.lab.random_graphs import closed_form
from tests.lab.every_graph import enumerated

QUICK = LabSettings(is_quick=True)


def embeddings(nodes: int, seed: int = 0) -> Tensor:
    return torch.randn(nodes, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("is_on_sphere", [True, False])
@pytest.mark.parametrize("temperature", [0.05, 0.5, 4.0])
def test_the_cross_entropy_is_a_trace_and_a_log_partition(temperature, is_on_sphere):
    """On an unbalanced graph, whose row-normalised P is not symmetric."""
    pairs = planted_graph(blocks=3, size=7, degree=4, mixing=0.2, seed=0).weights
    rows = normalize(embeddings(21), dim=1) if is_on_sphere else embeddings(21)
    whole = cross_entropy_of_graphs(rows, pairs, temperature)
    parts = trace_term(rows, pairs, temperature) + partition_term(rows, temperature)
    torch.testing.assert_close(whole, parts, rtol=1e-12, atol=0)


def test_the_cross_entropy_is_the_expectation_over_all_random_graphs():
    """−E[log P(W_Z = W_X)] with both fields enumerated, no use made of rows being independent."""
    pairs = torch.tensor([[0, 2, 1, 3], [2, 0, 5, 1], [1, 5, 0, 1], [3, 1, 1, 0]], dtype=torch.float64)
    rows = embeddings(4)
    kernel = GaussianKernel(0.7)(rows, rows).exp()
    of_data, of_embeddings = (enumerated(graph, "out_degree") for graph in (pairs, kernel))
    expected = -sum(
        probability * torch.tensor(of_embeddings[edges], dtype=torch.float64).log()
        for edges, probability in of_data.items()
    )
    torch.testing.assert_close(cross_entropy_of_graphs(rows, pairs, 0.7), expected, rtol=1e-12, atol=0)


def test_it_is_least_where_both_fields_are_one():
    rows = embeddings(5)
    kernel = GaussianKernel(0.7)(rows, rows).exp().fill_diagonal_(0)
    walk = row_normalised(kernel)
    least = -torch.special.xlogy(walk, walk).sum()
    torch.testing.assert_close(cross_entropy_of_graphs(rows, kernel, 0.7), least, rtol=1e-12, atol=0)
    assert float(cross_entropy_of_graphs(embeddings(5, seed=1), kernel, 0.7)) > float(least)
    assert float(closed_form(kernel[:4, :4]).sum()) == pytest.approx(1)


def test_along_training_the_terms_always_add_up_and_the_loss_falls():
    measured = along_training(QUICK)
    assert len(measured.whole) == 21
    assert max(measured.difference) < 1e-13
    assert measured.whole[-1] < measured.whole[0]


def test_sampled_batches_come_to_the_cross_entropy():
    measured = convergence_of(QUICK, is_trained=True)
    assert measured.limits[0] == pytest.approx(measured.exact, rel=1e-12)
    small, large = measured.of("apart")[0], measured.of("apart")[-1]
    assert abs(large.bias["mean"]) < abs(small.bias["mean"]) / 10
    assert large.bias["low"] - 2 * abs(large.foretold) < large.foretold < large.bias["high"] + 2 * abs(large.foretold)


def test_sampled_graphs_average_to_the_cross_entropy():
    field, exact, sampled = sampled_field(QUICK)
    reach = sampled["high"] - sampled["mean"]
    assert abs(sampled["mean"] - exact) < 2 * reach
    assert field.p_value > 1e-3


def test_shifted_digits_are_the_same_picture_moved_by_a_pixel():
    digits = shifted_digits(7)
    pictures = digits.views.view(len(CROSS), 7, 8, 8)
    assert torch.equal(pictures[1][:, :, :-1], pictures[0][:, :, 1:])  # looked at one pixel further right
    assert torch.equal(pictures[4][:, 1:], pictures[0][:, :-1])
    assert float(digits.pairs.sum()) == pytest.approx(1)
    assert int((digits.pairs > 0).sum()) == 7 * 5 * 4
    first, second = digits.draw(7, torch.Generator().manual_seed(0))
    place = {tuple(view.tolist()): row % 7 for row, view in enumerate(digits.views)}
    assert all(place[tuple(a.tolist())] == place[tuple(b.tolist())] for a, b in zip(first, second, strict=True))
    assert not bool((first == second).all(dim=1).any())
