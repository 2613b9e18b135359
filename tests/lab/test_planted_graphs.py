"""Planted graphs, and where free embeddings meet the eigenvectors: exactly when small, closely when trained."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from eigenview.errors import SettingError
from eigenview.graph import CosineKernel, Coupling, GaussianKernel, from_graph
from eigenview.graph.laplacian import laplacian
from eigenview.lab.descent import minimised
from eigenview.lab.figures import interval
from eigenview.lab.graph_coupling import cross_entropy_of_graphs
from eigenview.lab.planted import detectable_mixing, eigenvectors, planted_graph, row_normalised
from eigenview.lab.planted_graphs import BLOCKS, KERNELS, descend, learned
from eigenview.lab.similarity import clusters_of, leading_directions, principal_angles, rand_index

SEEDS = range(4)


def small(nodes: int, width: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(nodes, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def target_laplacian(weights: Tensor) -> Tensor:
    """L of (P + Pᵀ)/2, P the row-normalised graph: the Laplacian inside H."""
    walk = row_normalised(weights)
    return laplacian((walk + walk.T) / 2, normalization="unnormalized")


def uniform_laplacian(nodes: int) -> Tensor:
    """U: of the complete graph with weights 1/(n−1)."""
    complete = torch.full((nodes, nodes), 1 / (nodes - 1), dtype=torch.float64).fill_diagonal_(0)
    return laplacian(complete, normalization="unnormalized")


def test_a_planted_graph_has_the_degrees_and_the_mixing_asked_for():
    graph = planted_graph(blocks=4, size=250, degree=20, mixing=0.3, seed=0)
    assert torch.equal(graph.weights, graph.weights.T)
    assert float(graph.weights.diagonal().sum()) == 0
    assert float(graph.weights.sum()) / 1000 == pytest.approx(20, rel=0.03)
    leaving = graph.weights[graph.labels[:, None] != graph.labels].sum() / graph.weights.sum()
    assert float(leaving) == pytest.approx(0.3, abs=0.01)


def test_no_node_is_left_alone():
    graph = planted_graph(blocks=2, size=40, degree=0.5, mixing=0.0, seed=0)
    assert int(graph.weights.sum(dim=1).min()) >= 1
    assert float(graph.weights[graph.labels[:, None] != graph.labels].sum()) == 0


def test_the_limit_of_detection_is_kesten_and_stigums():
    blocks, degree = 4, 12.0
    mixing = detectable_mixing(blocks=blocks, degree=degree)
    inside, outside = blocks * degree * (1 - mixing), blocks * degree * mixing / (blocks - 1)
    assert (inside - outside) ** 2 == pytest.approx(blocks * (inside + (blocks - 1) * outside))


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_small_embeddings_see_the_quadratic_form_of_two_laplacians(temperature):
    """H(εZ) = n·log(n−1) + (ε²/τ)·tr(Zᵀ(L − U)Z) + O(ε⁴): the error falls a hundredfold for a tenth of ε."""
    graph, rows = planted_graph(blocks=2, size=10, degree=5, mixing=0.2, seed=0).weights, small(20)
    form = target_laplacian(graph) - uniform_laplacian(20)
    expected = float((rows.T @ form @ rows).trace()) / temperature
    errors = []
    for size in (1e-1, 1e-2, 1e-3):
        rise = float(cross_entropy_of_graphs(size * rows, graph, temperature)) - 20 * math.log(19)
        errors.append(abs(rise / size**2 - expected) / abs(expected))
    assert errors[1] < errors[0] / 50
    assert errors[2] < errors[1] / 50


def test_their_gradient_is_that_matrix_times_the_embeddings():
    graph, rows = planted_graph(blocks=2, size=10, degree=5, mixing=0.2, seed=0).weights, small(20)
    tiny = (1e-5 * rows).requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy_of_graphs(tiny, graph, 0.5), tiny)
    expected = (2 / 0.5) * (target_laplacian(graph) - uniform_laplacian(20)) @ rows
    torch.testing.assert_close(gradient / 1e-5, expected, rtol=1e-6, atol=1e-6)


def test_descent_from_a_small_start_comes_to_the_eigenvectors_and_leaves_them():
    graph = planted_graph(blocks=BLOCKS, size=15, degree=9, mixing=0.05, seed=0)
    measured = descend(graph, steps=400, seed=0, start=1e-12)
    assert min(measured.angle) < 1e-3
    assert measured.angle[0] > 0.3
    assert measured.angle[-1] > 10 * min(measured.angle)
    assert measured.size[-1] > 0.1


def test_cosine_and_gaussian_learn_the_same_on_the_sphere():
    """The same walk, so the same loss and gradient anywhere."""
    graph, rows = planted_graph(blocks=2, size=10, degree=5, mixing=0.2, seed=0).weights, small(20)
    target, values = from_graph(graph), []
    for kernel in (GaussianKernel(0.3), CosineKernel(0.3)):
        free = rows.clone().requires_grad_()
        loss = Coupling(kernel)(free, target=target)
        values.append((loss.detach(), *torch.autograd.grad(loss, free)))
    torch.testing.assert_close(values[0], values[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", KERNELS)
def test_separate_blocks_are_found_by_every_kernel(name):
    graph = planted_graph(blocks=BLOCKS, size=12, degree=9, mixing=0.0, seed=1)
    rows = learned(graph, KERNELS[name], steps=60, seed=1)
    assert rand_index(clusters_of(rows, BLOCKS), graph.labels) == 1


def test_at_a_low_mixing_free_embeddings_agree_with_the_eigenvectors_over_seeds():
    angles, agreement = [], []
    for seed in SEEDS:
        graph = planted_graph(blocks=BLOCKS, size=15, degree=9, mixing=0.05, seed=seed)
        rows, vectors = (
            learned(graph, KERNELS["Gaussian"], steps=60, seed=seed),
            eigenvectors(graph.weights, BLOCKS - 1),
        )
        angles.append(float(principal_angles(leading_directions(rows, BLOCKS - 1), vectors).max()))
        agreement.append(rand_index(clusters_of(rows, BLOCKS), clusters_of(vectors, BLOCKS)))
    assert interval(agreement)["mean"] > 0.95
    assert interval(angles)["high"] < math.radians(60)
    assert interval(angles)["low"] > math.radians(1)  # close, and not the same


def test_angles_are_right_where_an_arccosine_is_not():
    first = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    second = torch.tensor([[1.0], [1e-10]], dtype=torch.float64)
    assert float(principal_angles(first, second)) == pytest.approx(1e-10, rel=1e-6)


def test_the_minimiser_finds_the_bottom_of_a_bowl():
    wanted = small(4)
    measured = minimised(lambda rows: (rows - wanted).square().sum(), torch.zeros(4, 3))
    torch.testing.assert_close(measured, wanted, rtol=0, atol=1e-8)


def test_intervals_hold_the_mean_and_stay_where_they_may():
    measured = interval([1.0, 0.9, 1.0], within=(-1, 1))
    assert measured["low"] < measured["mean"] == pytest.approx(29 / 30)
    assert measured["high"] == 1
    with pytest.raises(SettingError, match="at least two repeats; got 1"):
        interval([1.0])


def test_degrees_that_do_not_fit_are_refused():
    with pytest.raises(SettingError, match="do not fit into blocks of 5"):
        planted_graph(blocks=2, size=5, degree=9, mixing=0.0, seed=0)
    with pytest.raises(SettingError, match=r"mixing in \[0, 1\]"):
        planted_graph(blocks=2, size=5, degree=2, mixing=1.5, seed=0)
