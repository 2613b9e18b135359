"""CLIP on a bipartite graph: the library's loss, the trace with its log-partitions, the singular vectors."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import SettingError
from eigenview.graph import GaussianKernel
from eigenview.graph.laplacian import laplacian, laplacian_trace
from eigenview.lab.bipartite import (
    CONCEPTS,
    TEMPERATURE,
    bipartite_graph,
    clip_on_graph,
    co_clusters,
    learned,
    synthetic_pairs,
)
from eigenview.lab.figures import interval
from eigenview.lab.planted import row_normalised
from eigenview.lab.similarity import clusters_of, rand_index
from eigenview.losses import clip_loss


def sides(images: int, texts: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = normalize(torch.randn(images + texts, 4, generator=generator, dtype=torch.float64), dim=1)
    return rows[:images], rows[images:]


def graph(images: int = 7, texts: int = 5, seed: int = 0) -> Tensor:
    return torch.rand(images, texts, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_on_a_graph_it_is_its_loops():
    image, text = sides(4, 3)
    weights = graph(4, 3)
    total = 0.0
    for side, other, edges in ((image, text, weights), (text, image, weights.T)):
        direction = 0.0
        for i in range(len(side)):
            scores = [math.exp(float(side[i] @ other[j]) / TEMPERATURE) for j in range(len(other))]
            share = edges[i] / edges[i].sum()
            direction -= sum(float(share[j]) * math.log(scores[j] / sum(scores)) for j in range(len(other)))
        total += direction / len(side) / 2
    assert float(clip_on_graph(image, text, weights)) == pytest.approx(total, rel=1e-12)


def test_on_a_matching_it_is_the_librarys_clip():
    image, text = sides(6, 6)
    library = clip_loss(image, text, temperature=TEMPERATURE)
    torch.testing.assert_close(clip_on_graph(image, text, torch.eye(6).double()), library, rtol=1e-12, atol=0)


def test_with_several_captions_it_is_the_librarys_clip_by_ids():
    image, text = sides(3, 7)
    image_ids, text_ids = torch.arange(3), torch.tensor([0, 0, 1, 2, 2, 2, 1])
    weights = (image_ids[:, None] == text_ids).double()
    library = clip_loss(image, text, temperature=TEMPERATURE, image_ids=image_ids, text_ids=text_ids)
    torch.testing.assert_close(clip_on_graph(image, text, weights), library, rtol=1e-12, atol=0)


def test_both_directions_together_are_a_trace_and_two_log_partitions():
    """As sums over nodes, with the Gaussian kernel: (1/τ)·tr(ZᵀLZ) + Σ log-partition."""
    image, text = sides(6, 6)
    weights, temperature = graph(6, 6), 0.4
    whole = 2 * 6 * clip_on_graph(image, text, weights, kernel=GaussianKernel(temperature))
    trace = laplacian_trace(torch.cat([image, text]), row_normalised(bipartite_graph(weights))) / temperature
    logits = -torch.cdist(image, text).square() / (2 * temperature)
    partitions = logits.logsumexp(dim=0).sum() + logits.logsumexp(dim=1).sum()
    torch.testing.assert_close(whole, trace + partitions, rtol=1e-12, atol=0)


def test_gaussian_and_cosine_are_one_on_the_sphere():
    image, text = sides(7, 5)
    by_cosine = clip_on_graph(image, text, graph())
    by_gaussian = clip_on_graph(image, text, graph(), kernel=GaussianKernel(TEMPERATURE))
    torch.testing.assert_close(by_cosine, by_gaussian, rtol=1e-12, atol=0)


def test_the_spectrum_is_that_of_the_normalised_pairs_mirrored_at_one():
    weights = graph()
    degrees = weights.sum(dim=1).sqrt()[:, None] * weights.sum(dim=0).sqrt()
    singular = torch.linalg.svdvals(weights / degrees)
    expected = torch.cat([1 - singular, torch.ones(2).double(), 1 + singular]).sort().values
    measured = torch.linalg.eigvalsh(laplacian(bipartite_graph(weights), normalization="symmetric"))
    torch.testing.assert_close(measured, expected, rtol=0, atol=1e-12)


def test_pairs_without_mixing_stay_within_their_concept():
    pairs = synthetic_pairs(captions=5, mixing=0.0, seed=0)
    across = pairs.image_concepts[:, None] != pairs.text_concepts
    assert float(pairs.weights[across].sum()) == 0
    assert pairs.weights.sum(dim=1).tolist() == [5.0] * len(pairs.weights)
    assert float(pairs.weights.sum(dim=0).min()) >= 1


def test_mixing_is_the_share_of_wrong_captions():
    pairs = synthetic_pairs(captions=20, mixing=0.3, seed=0)
    across = pairs.image_concepts[:, None] != pairs.text_concepts
    assert float(pairs.weights[across].sum() / pairs.weights.sum()) == pytest.approx(0.3, abs=0.04)


def test_shared_captions_make_clusters_that_both_find_and_single_ones_do_not():
    many, single = [], []
    for seed in range(3):
        for captions, measured in ((6, many), (1, single)):
            pairs = synthetic_pairs(captions=captions, mixing=0.1, seed=seed, images=12, stock=12)
            rows = learned(pairs, steps=60, seed=seed)
            measured.append(rand_index(clusters_of(rows, CONCEPTS, seed=seed), pairs.concepts))
            if captions == 6:
                assert rand_index(co_clusters(pairs, seed=seed), pairs.concepts) > 0.8
    assert interval(many)["low"] > 0.6
    assert max(single) < 0.4


def test_pairs_that_make_no_sense_are_refused():
    with pytest.raises(SettingError, match="at least one caption"):
        synthetic_pairs(captions=0, mixing=0.1, seed=0)
