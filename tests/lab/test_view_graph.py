"""The augmentation graph: π by loops, its spectrum against dense solvers, islands, and the loss's exact floor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.laplacian import laplacian
from eigenview.lab.finite_views import digit_views
from eigenview.lab.smoothed_views import nearest_stranger, smoothed_graph, squared_distances
from eigenview.lab.view_graph import ViewGraph, population_loss
from eigenview.losses import spectral_contrastive


def some_graph(images: int = 6, views: int = 9, seed: int = 0) -> ViewGraph:
    choices = np.random.default_rng(seed).random((images, views)) ** 4
    return ViewGraph(sparse.csr_array(choices / choices.sum(axis=1, keepdims=True)))


def islands() -> ViewGraph:
    return ViewGraph(sparse.csr_array(np.kron(np.eye(4), np.full((1, 3), 1 / 3))))


def pair_probabilities(graph: ViewGraph) -> torch.Tensor:
    """π (V, V), by loops: the mean over images of the probability of drawing both views."""
    choices = graph.choices.toarray()
    images, views = choices.shape
    pairs = [[sum(row[x] * row[y] for row in choices) / images for y in range(views)] for x in range(views)]
    return torch.tensor(pairs, dtype=torch.float64)


def test_the_weights_are_the_sums_of_pair_probabilities():
    graph = some_graph()
    pairs = pair_probabilities(graph)
    assert float(pairs.sum()) == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(pairs.sum(dim=1).numpy(), graph.weights, atol=1e-15)


def test_the_spectrum_is_that_of_the_normalised_laplacian_of_views():
    graph = some_graph(seed=1)
    pairs, scale = pair_probabilities(graph), torch.from_numpy(graph.weights).rsqrt()
    whole = torch.eye(9, dtype=torch.float64) - pairs * scale[:, None] * scale
    values = graph.spectrum(6)
    torch.testing.assert_close(values.eigenvalues, torch.linalg.eigvalsh(whole)[:6], rtol=0, atol=1e-12)
    torch.testing.assert_close(whole @ values.of_views, values.of_views * values.eigenvalues, rtol=0, atol=1e-12)
    identity = torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(values.of_views.T @ values.of_views, identity, rtol=0, atol=1e-10)
    assert float(values.functions[:, 0].std()) < 1e-12


def test_without_self_pairs_it_is_the_librarys_laplacian():
    """Where no view is drawn twice but by itself, removing self-pairs only rescales the graph of the library."""
    graph = islands()
    values = torch.linalg.eigvalsh(laplacian(pair_probabilities(graph)))
    assert int((values < 1e-10).sum()) == int((graph.spectrum(4).eigenvalues < 1e-10).sum()) == 4


def test_eigenvalue_zero_counts_the_components():
    assert graph_parts(islands()) == 4
    for side, levels in ((8, 2), (4, 3), (4, 2)):
        graph = digit_views(side=side, levels=levels, items=120).graph()
        zeros = int((graph.spectrum(120).eigenvalues < 1e-9).sum())
        assert zeros == graph_parts(graph)


def graph_parts(graph: ViewGraph) -> int:
    return int(graph.components().max()) + 1


def test_scaled_eigenfunctions_reach_the_floor_of_the_loss():
    graph = some_graph(seed=2)
    values = graph.spectrum(4)
    gamma = 1 - values.eigenvalues[:3]
    best = values.functions[:, :3] * gamma.sqrt()
    floor = -float(gamma.square().sum())
    assert population_loss(best, graph) == pytest.approx(floor, abs=1e-12)
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q
    assert population_loss(best @ turn, graph) == pytest.approx(floor, abs=1e-12)
    for seed in range(20):
        off = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        assert population_loss(best + 0.1 * off, graph) > floor


def test_the_loss_over_all_pairs_is_the_mean_of_sampled_ones():
    views = digit_views(side=4, levels=2, items=200)
    values = torch.randn(len(views.patterns), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    draw = views.pairs(batch=256)
    lookup = {tuple(row): number for number, row in enumerate(views.patterns.tolist())}
    sampled = []
    for step in range(60):
        pair = draw(step)
        first, second = (values[[lookup[tuple(row)] for row in side.tolist()]] for side in (pair.first, pair.second))
        sampled.append(float(spectral_contrastive(first, second, mu=1e6)) * 1e6)
    error = np.std(sampled) / np.sqrt(len(sampled))
    assert abs(np.mean(sampled) - population_loss(values, views.graph())) < 4 * error


def test_every_digit_has_27_views_and_fine_ones_are_islands():
    fine = digit_views(side=8, levels=17, items=100)
    assert fine.place.shape == (100, 27)
    assert graph_parts(fine.graph()) == 100
    assert graph_parts(digit_views(side=2, levels=3, items=100).graph()) == 1
    own = fine.patterns[fine.place[:, 13]].view(100, 8, 8)  # no turn, no shift
    torch.testing.assert_close(fine.patterns[fine.place[:, 9]].view(100, 8, 8)[:, :-1, :-1], own[:, 1:, 1:])


def test_views_of_images_are_averaged():
    views = digit_views(side=4, levels=2, items=20)
    values = torch.arange(len(views.patterns), dtype=torch.float64)[:, None]
    expected = torch.stack([values[views.place[image]].mean(dim=0) for image in range(20)])
    torch.testing.assert_close(views.of_images(values), expected)


def test_smoothing_runs_from_islands_to_one_blob():
    rows = torch.randn(12, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    image = torch.arange(4).repeat(3)
    squared = squared_distances(rows)
    torch.testing.assert_close(squared, torch.cdist(rows, rows).square(), rtol=0, atol=1e-12)
    unit = nearest_stranger(squared, image)
    assert graph_parts(smoothed_graph(squared, image, unit / 20)) == 4
    blob = smoothed_graph(squared, image, 1e4 * unit)
    np.testing.assert_allclose(blob.choices.toarray(), 1 / 12, atol=1e-6)
    assert float(blob.spectrum(2).eigenvalues[1]) == pytest.approx(1, abs=1e-6)


def test_smoothed_choices_are_kernel_sums_by_loops():
    rows = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    image = torch.tensor([0, 1, 0, 1, 0, 1])
    measured = smoothed_graph(squared_distances(rows), image, 0.8).choices.toarray()
    for own in range(2):
        kernel = [0.0] * 6
        for x in range(6):
            for a in range(6):
                if image[a] == own:
                    kernel[x] += float(torch.exp(-(rows[x] - rows[a]).square().sum() / (2 * 0.8**2)))
        np.testing.assert_allclose(measured[own], np.array(kernel) / sum(kernel), rtol=1e-9)


def test_gaps_are_counted_from_where_they_may_begin():
    values = islands().spectrum(4)
    with pytest.raises(SettingError, match="least must be from 1 to 3"):
        values.clusters_by_gap(least=4)
    whole = ViewGraph(sparse.csr_array(np.kron(np.eye(2), np.full((3, 4), 1 / 4)))).spectrum(5)
    assert whole.clusters_by_gap() == 2
    assert sorted(torch.bincount(whole.image_clusters(2)).tolist()) == [3, 3]


def test_what_is_no_graph_is_refused():
    with pytest.raises(DataError, match="sum to 1"):
        ViewGraph(sparse.csr_array(np.ones((2, 3))))
    with pytest.raises(DataError, match="drawn from some image"):
        ViewGraph(sparse.csr_array(np.array([[1.0, 0.0], [1.0, 0.0]])))
    with pytest.raises(SettingError, match="count must be from 1 to 6"):
        some_graph().spectrum(7)
    with pytest.raises(SettingError, match="levels >= 2"):
        digit_views(side=4, levels=1)
    with pytest.raises(SettingError, match="bandwidth must be positive"):
        smoothed_graph(torch.zeros(2, 2), torch.arange(2), 0.0)
    with pytest.raises(ShapeError, match=r"distances must be \(3, 3\)"):
        smoothed_graph(torch.zeros(2, 2), torch.arange(3), 1.0)
