"""Laplacians by loops, spectra against scikit-learn and closed forms, and graphs in pieces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph import eigen as module
from eigenview.graph.laplacian import eigengap, laplacian, laplacian_trace, spectral_clustering, spectral_embedding

KINDS = ["unnormalized", "symmetric", "random_walk"]


def random_graph(n: int, *, seed: int = 0, density: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(n, n, generator=generator, dtype=torch.float64)
    weights = weights * (torch.rand(n, n, generator=generator) < density)
    return weights + weights.T


def cycle(n: int) -> sparse.csr_array:
    here, there = np.arange(n), (np.arange(n) + 1) % n
    return sparse.csr_array((np.ones(2 * n), (np.r_[here, there], np.r_[there, here])), shape=(n, n))


def torus(side: int) -> sparse.csr_array:
    line, same = cycle(side), sparse.eye_array(side)
    return sparse.csr_array(sparse.kron(line, same) + sparse.kron(same, line))


def blocks(*sizes: int, bridge: float = 0.0) -> Tensor:
    """Complete graphs side by side, every node of one joined to every node of the others by weight ``bridge``."""
    label = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    weights = torch.where(label[:, None] == label, 1.0, bridge).double()
    return weights.fill_diagonal_(0)


def widest_angle(a: Tensor | np.ndarray, b: Tensor | np.ndarray) -> float:
    """Between two column spaces, in radians."""
    return float(linalg.subspace_angles(np.asarray(a), np.asarray(b)).max())


def laplacian_by_loops(graph: Tensor, kind: str) -> Tensor:
    n = len(graph)
    degree = [sum(float(graph[i, j]) for j in range(n) if j != i) for i in range(n)]
    expected = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        if degree[i] == 0:
            continue
        for j in range(n):
            if i == j:
                expected[i, i] = degree[i] if kind == "unnormalized" else 1.0
            elif graph[i, j] > 0:
                by = {"unnormalized": 1.0, "symmetric": (degree[i] * degree[j]) ** 0.5, "random_walk": degree[i]}[kind]
                expected[i, j] = -graph[i, j] / by
    return expected


@pytest.mark.parametrize("kind", KINDS)
def test_dense_and_sparse_equal_the_loop(kind):
    graph = random_graph(9, density=0.4)
    graph[4] = graph[:, 4] = 0  # a node without edges
    graph[2, 2] = 5.0  # a self-edge, to be ignored
    expected = laplacian_by_loops(graph, kind)
    torch.testing.assert_close(laplacian(graph, normalization=kind), expected, rtol=0, atol=1e-14)
    for form in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        measured = laplacian(form(graph.numpy()), normalization=kind)
        assert isinstance(measured, sparse.csr_array)
        np.testing.assert_allclose(measured.toarray(), expected.numpy(), rtol=0, atol=1e-14)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 12), st.integers(0, 10_000), st.sampled_from([0.2, 0.6, 1.0]))
def test_the_quadratic_form_sums_squared_differences(n, seed, density):
    graph = random_graph(n, seed=seed, density=density)
    x = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    half_sum = 0.5 * sum(float(graph[i, j] * (x[i] - x[j]) ** 2) for i in range(n) for j in range(n))
    assert float(x @ laplacian(graph, normalization="unnormalized") @ x) == pytest.approx(half_sum, abs=1e-11)
    assert float(laplacian_trace(x[:, None], graph)) == pytest.approx(half_sum, abs=1e-11)
    assert float(laplacian_trace(x[:, None], sparse.csr_array(graph.numpy()))) == pytest.approx(half_sum, abs=1e-11)
    symmetric = laplacian(graph, normalization="symmetric")
    assert float(torch.linalg.eigvalsh(symmetric).min()) > -1e-12
    assert float(torch.linalg.eigvalsh(symmetric).max()) < 2 + 1e-12
    walk = laplacian(graph, normalization="random_walk")
    torch.testing.assert_close(walk.sum(dim=1), torch.zeros(n, dtype=torch.float64), rtol=0, atol=1e-13)


def test_the_trace_is_differentiable_in_embeddings_and_weights():
    rows = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    graph = random_graph(6).requires_grad_()
    edges = sparse.csr_array(graph.detach().numpy())
    assert torch.autograd.gradcheck(laplacian_trace, (rows, graph))
    assert torch.autograd.gradcheck(lambda z: laplacian_trace(z, edges), (rows,))
    (slope,) = torch.autograd.grad(laplacian_trace(rows, graph), rows)
    torch.testing.assert_close(slope, 2 * laplacian(graph, normalization="unnormalized") @ rows)


def test_the_trace_of_a_lopsided_graph_is_that_of_its_symmetric_part():
    lopsided, rows = random_graph(5).tril(), torch.eye(5, 2, dtype=torch.float64)
    expected = laplacian_trace(rows, (lopsided + lopsided.T) / 2)
    torch.testing.assert_close(laplacian_trace(rows, lopsided), expected)
    torch.testing.assert_close(laplacian_trace(rows, sparse.csr_array(lopsided.numpy())), expected)


def test_the_trace_keeps_its_digits_far_from_the_origin():
    rows = 1000 + torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    exact = laplacian_trace(rows.double(), random_graph(20))
    torch.testing.assert_close(laplacian_trace(rows, random_graph(20)).double(), exact, rtol=1e-5, atol=0)


def test_gradient_flows_through_the_laplacian_past_isolated_nodes():
    graph, others = random_graph(5), [0, 1, 2, 4]
    graph[3] = graph[:, 3] = 0
    alone = graph[others][:, others].requires_grad_()
    graph.requires_grad_()
    for kind in KINDS:
        (slope,) = torch.autograd.grad(laplacian(graph, normalization=kind).square().sum(), graph)
        (expected,) = torch.autograd.grad(laplacian(alone, normalization=kind).square().sum(), alone)
        torch.testing.assert_close(slope[others][:, others], expected)
        assert bool(slope.isfinite().all())


def scikit_embedding(graph: np.ndarray, dimensions: int) -> np.ndarray:
    return SpectralEmbedding(dimensions, affinity="precomputed", random_state=0).fit_transform(graph)


def test_equals_scikit_learn_where_eigenvalues_are_distinct():
    graph = random_graph(40, density=0.3)
    graph.fill_diagonal_(1.0)
    expected = scikit_embedding(graph.numpy(), 4)
    for form in (graph, sparse.csr_array(graph.numpy())):
        np.testing.assert_allclose(spectral_embedding(form, 4).numpy(), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("graph", [cycle(30), torus(6)], ids=["cycle", "torus"])
def test_spans_what_scikit_learn_spans_where_eigenvalues_repeat(graph):
    expected = scikit_embedding(graph.toarray(), 4)  # cycle: 2 + 2 equal; torus: 4 equal
    assert widest_angle(spectral_embedding(graph, 4), expected) < 1e-7
    dense = torch.from_numpy(graph.toarray())
    assert widest_angle(spectral_embedding(dense, 4), expected) < 1e-7


def test_each_normalisation_solves_its_own_problem():
    graph = random_graph(25, density=0.4)
    for kind in KINDS:
        matrix = laplacian(graph, normalization=kind)
        vectors = spectral_embedding(graph, 5, normalization=kind, drop_first=False)
        values = eigengap(graph, most=4, normalization=kind).eigenvalues
        torch.testing.assert_close(matrix @ vectors, vectors * values, rtol=0, atol=1e-12)
        metric = torch.diag(graph.sum(dim=1) - graph.diagonal() if kind == "random_walk" else torch.ones(25).double())
        torch.testing.assert_close(vectors.T @ metric @ vectors, torch.eye(5).double(), rtol=0, atol=1e-12)
        largest = vectors.gather(0, vectors.abs().argmax(dim=0)[None])
        assert bool((largest > 0).all())


def test_the_iterative_solvers_equal_the_dense_one(monkeypatch):
    path = cycle(120).tolil()
    path[0, 119] = path[119, 0] = 0.001
    for graph in (torus(12), cycle(120), sparse.csr_array(path), random_graph(120, density=0.05)):
        for count in (2, 5, 9, 10, 14, 20):
            for kind in ("unnormalized", "symmetric"):
                monkeypatch.setattr(module, "DENSE_SIZE", 1000)
                exact = eigengap(graph, most=count, normalization=kind)
                monkeypatch.setattr(module, "DENSE_SIZE", 10)
                measured = eigengap(graph, most=count, normalization=kind)
                torch.testing.assert_close(measured.eigenvalues, exact.eigenvalues, rtol=0, atol=1e-11)


def test_a_long_cycle_is_solved_by_factorisation(monkeypatch):
    monkeypatch.setattr(module, "RESTARTS", 2)  # Lanczos alone cannot resolve gaps of 1e-6 so soon
    values = eigengap(cycle(3000), most=6).eigenvalues
    expected = torch.tensor([1 - np.cos(2 * np.pi * k / 3000) for k in (0, 1, 1, 2, 2, 3, 3)], dtype=torch.float64)
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-12)
    dense = eigengap(torch.from_numpy(cycle(1100).toarray()), most=2).eigenvalues
    assert float(dense[1]) == pytest.approx(1 - np.cos(2 * np.pi / 1100), abs=1e-12)


def test_a_large_sparse_spectrum_has_all_copies_of_repeated_eigenvalues():
    measured = eigengap(torus(40), most=20).eigenvalues  # 1600 nodes: Lanczos alone misses one here
    wave = 1 - np.cos(2 * np.pi * np.arange(40) / 40)
    expected = np.sort((wave[:, None] + wave).ravel() / 2)[:21]
    np.testing.assert_allclose(measured.numpy(), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("sparsely", [False, True])
def test_components_are_told_apart_and_the_constant_vector_dropped(sparsely):
    dense = blocks(6, 4, 3, 1)  # the last node has no edges
    graph = sparse.csr_array(dense.numpy()) if sparsely else dense
    for kind in KINDS:
        first = spectral_embedding(graph, 4, normalization=kind, drop_first=False)
        rest = spectral_embedding(graph, 3, normalization=kind)
        assert bool(first.isfinite().all())
        torch.testing.assert_close(first[:, 1:], rest, rtol=0, atol=0)
        if kind != "symmetric":
            torch.testing.assert_close(first[:, 0], first[:1, 0].expand(14), rtol=1e-12, atol=0)
        starts = [0, 6, 10, 13]
        for start, end in zip(starts, [6, 10, 13, 14], strict=True):
            torch.testing.assert_close(
                rest[start:end], rest[start : start + 1].expand(end - start, 3), rtol=0, atol=1e-12
            )
        assert float(torch.pdist(rest[starts]).min()) > 0.05
    values = eigengap(graph, most=6).eigenvalues
    np.testing.assert_allclose(values[:4].numpy(), np.zeros(4), rtol=0, atol=0)
    assert float(values[4]) > 1


@pytest.mark.parametrize(
    ("sizes", "bridge"),
    [((6, 4, 3), 0.0), ((6, 4, 3), 0.01), ((5, 5), 0.0), ((5, 5), 0.01), ((7, 1, 1), 0.0), ((2, 2, 2, 2), 0.01)],
)
def test_clusters_are_the_blocks_and_the_gap_counts_them(sizes, bridge):
    graph, labels = blocks(*sizes, bridge=bridge), np.repeat(np.arange(len(sizes)), sizes)
    assert eigengap(graph, most=6).clusters == len(sizes)
    for form in (graph, sparse.csr_array(graph.numpy())):
        measured = spectral_clustering(form, len(sizes), seed=1)
        assert adjusted_rand_score(labels, measured.numpy()) == 1.0


@pytest.mark.parametrize("bridge", [1e-12, 1e-17, 1e-30])
def test_blocks_joined_by_less_than_rounding_stay_clean(bridge):
    graph = blocks(6, 4, 3, bridge=bridge)
    vectors = spectral_embedding(graph, 3, normalization="symmetric", drop_first=False)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(3).double(), rtol=0, atol=1e-12)
    root = graph.sum(dim=1).sqrt()
    torch.testing.assert_close(vectors[:, 0], root / root.norm(), rtol=0, atol=1e-12)
    assert adjusted_rand_score(np.repeat([0, 1, 2], [6, 4, 3]), spectral_clustering(graph, 3).numpy()) == 1.0


def test_rings_that_kmeans_cannot_part_are_parted():
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    points = np.concatenate([radius * np.stack([np.cos(angle), np.sin(angle)], axis=1) for radius in (1.0, 3.0)])
    graph = torch.exp(-torch.cdist(torch.from_numpy(points), torch.from_numpy(points)).square() / (2 * 0.3**2))
    measured = spectral_clustering(graph, 2)
    assert adjusted_rand_score(np.repeat([0, 1], 60), measured.numpy()) == 1.0


def test_more_components_than_clusters_leave_the_small_ones_together():
    measured = spectral_clustering(blocks(8, 6, 2, 1, 1), 3).numpy()
    assert adjusted_rand_score(np.repeat([0, 1, 2], [8, 6, 4]), measured) == 1.0


def test_a_graph_without_edges_is_all_zeros():
    graph = torch.zeros(5, 5, dtype=torch.float64)
    for kind in KINDS:
        torch.testing.assert_close(laplacian(graph, normalization=kind), graph, rtol=0, atol=0)
        assert bool(spectral_embedding(graph, 2, normalization=kind).isfinite().all())
    measured = eigengap(sparse.csr_array((5, 5)), most=3)
    assert measured.clusters == 3
    assert measured.gaps.tolist() == [0.0, 0.0, 0.0]


def test_the_precision_and_kind_of_the_graph_come_back():
    graph = random_graph(12).float()
    assert spectral_embedding(graph, 2).dtype == torch.float32
    exact = spectral_embedding(graph.double(), 2)
    torch.testing.assert_close(spectral_embedding(graph, 2).double(), exact, rtol=0, atol=1e-6)
    assert laplacian(graph.half().float()).dtype == torch.float32
    assert not spectral_embedding(random_graph(12).requires_grad_(), 2).requires_grad


@pytest.mark.parametrize(
    ("graph", "kind", "message"),
    [
        (torch.ones(3, 2), ShapeError, r"square matrix of at least one node; got \(3, 2\)"),
        (torch.ones(0, 0), ShapeError, "at least one node"),
        (np.ones((3, 3)), ShapeError, "dense torch tensor or a scipy sparse matrix; got ndarray"),
        (torch.ones(3, 3).to_sparse(), ShapeError, "must be a scipy matrix; got a torch.sparse_coo tensor"),
        (torch.ones(3, 3).triu(), DataError, "must be symmetric; W and its transpose differ by 1"),
        (sparse.csr_array(np.triu(np.ones((3, 3)))), DataError, "must be symmetric"),
        (-torch.ones(3, 3), DataError, "non-negative; they run from -1"),
        (sparse.csr_array(-np.ones((3, 3))), DataError, "non-negative"),
        (torch.full((3, 3), torch.nan), DataError, "must be finite"),
        (sparse.csr_array(np.full((3, 3), np.inf)), DataError, "must be finite"),
    ],
)
def test_bad_graphs_are_refused(graph, kind, message):
    for ask in (laplacian, eigengap, lambda graph: spectral_embedding(graph, 1)):
        with pytest.raises(kind, match=message):
            ask(graph)


def test_bad_settings_are_refused():
    graph = random_graph(5)
    with pytest.raises(SettingError, match=r"normalization must be unnormalized.*got 'both'"):
        laplacian(graph, normalization="both")
    with pytest.raises(SettingError, match="dimensions must be 1 to 4 for 5 nodes without the first vector; got 5"):
        spectral_embedding(graph, 5)
    with pytest.raises(SettingError, match="1 to 5 for 5 nodes; got 6"):
        spectral_clustering(graph, 6)
    with pytest.raises(SettingError, match="restarts must be at least 1"):
        spectral_clustering(graph, 2, restarts=0)
    with pytest.raises(SettingError, match="most >= 1 and at least two nodes; got 0 and 5"):
        eigengap(graph, most=0)
    with pytest.raises(ShapeError, match=r"graph \(n, n\); got \(4, 2\) and \(5, 5\)"):
        laplacian_trace(torch.ones(4, 2), graph)
