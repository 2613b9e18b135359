"""xᵀLx by loops over edges, for any graph that hypothesis thinks of."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eigenview.graph.laplacian import laplacian
from eigenview.lab import LabSettings
from eigenview.lab.laplacian_form import KINDS, edge_energy, named_graphs, quadratic_form, run, spectrum


@st.composite
def graphs_with_vectors(draw) -> tuple[Tensor, Tensor]:
    """Up to 8 nodes, weights 0 or from 1e-3 to 1e3, self-edges too, and a vector."""
    nodes = draw(st.integers(1, 8))
    weight = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
    upper = draw(st.lists(weight, min_size=nodes * nodes, max_size=nodes * nodes))
    graph = torch.tensor(upper, dtype=torch.float64).view(nodes, nodes).triu()
    x = draw(st.lists(st.floats(-100, 100), min_size=nodes, max_size=nodes))
    return graph + graph.triu(1).T, torch.tensor(x, dtype=torch.float64)


def energy_by_loops(graph: Tensor, x: Tensor, kind: str) -> float:
    nodes, total = len(graph), 0.0
    degree = [sum(float(graph[i, j]) for j in range(nodes) if j != i) for i in range(nodes)]
    for i in range(nodes):
        for j in range(nodes):
            if i != j and graph[i, j] > 0:
                scale = [degree[k] ** -0.5 if kind == "symmetric" else 1.0 for k in (i, j)]
                total += float(graph[i, j]) * (float(x[i]) * scale[0] - float(x[j]) * scale[1]) ** 2 / 2
    return total


@settings(deadline=None, max_examples=60)
@given(graphs_with_vectors())
def test_the_form_is_the_sum_over_edges(drawn):
    graph, x = drawn
    for kind in KINDS:
        expected = energy_by_loops(graph, x, kind)
        scale = float(graph.sum() * x.square().max()) if kind != "symmetric" else float(x.square().sum())
        for measured in (quadratic_form, edge_energy):
            assert float(measured(graph, x, normalization=kind)) == pytest.approx(expected, rel=1e-9, abs=1e-13 * scale)


@settings(deadline=None, max_examples=60)
@given(graphs_with_vectors())
def test_no_eigenvalue_is_negative_and_the_normalised_end_at_two(drawn):
    graph, _ = drawn
    for kind in KINDS:
        values = spectrum(graph, kind)
        assert float(values[0]) >= -1e-13 * max(1.0, float(values[-1]))
    assert float(values[-1]) <= 2 + 1e-12


def test_zeros_count_components_and_two_means_bipartite():
    spectra = {name: spectrum(graph, "symmetric") for name, graph in named_graphs().items()}
    zeros = {name: int((values.abs() < 1e-12).sum()) for name, values in spectra.items()}
    assert zeros == {"path": 1, "complete": 1, "two components": 2, "bipartite": 1}
    twos = {name: bool((values[-1] - 2).abs() < 1e-12) for name, values in spectra.items()}
    assert twos == {"path": True, "complete": False, "two components": False, "bipartite": True}


def test_a_constant_vector_costs_nothing():
    for graph in named_graphs().values():
        x = torch.full((len(graph),), 3.0, dtype=torch.float64)
        assert float(quadratic_form(graph, x)) == pytest.approx(0, abs=1e-12)
        assert float(edge_energy(graph, x)) == 0


def test_the_random_walk_shares_the_symmetric_spectrum():
    graph = named_graphs()["path"]
    walk = torch.linalg.eigvals(laplacian(graph, normalization="random_walk")).real.sort().values
    torch.testing.assert_close(walk, spectrum(graph, "random_walk"), rtol=0, atol=1e-12)


def test_the_experiment_finds_what_it_claims():
    outcome = run(LabSettings(is_quick=True))
    assert max(outcome.data["largest_relative_error"].values()) < 1e-11
    assert min(outcome.data["lowest_eigenvalue_over_largest"].values()) > -1e-12
    assert outcome.data["lowest_eigenvalue_with_a_negative_weight"] < -1
