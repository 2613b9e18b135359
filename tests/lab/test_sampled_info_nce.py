"""Sampled InfoNCE: the batch by loops and by the library, its limit, its bias."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import DataError
from eigenview.graph import Coupling, GaussianKernel, from_graph
from eigenview.lab.descent import drawn_pairs
from eigenview.lab.planted import planted_graph
from eigenview.lab.sampled_info_nce import Population, balanced, measured
from eigenview.losses import info_nce

COPIES = ["apart", "count"]


def population(*, is_balanced: bool = True, size: int = 8, seed: int = 0) -> Population:
    weights = planted_graph(blocks=2, size=size, degree=size / 2, mixing=0.2, seed=seed).weights
    weights = (weights + 0.1).fill_diagonal_(0)
    generator = torch.Generator().manual_seed(seed)
    rows = normalize(torch.randn(2 * size, 3, generator=generator, dtype=torch.float64), dim=1)
    return Population(balanced(weights) if is_balanced else weights / weights.sum(), rows, GaussianKernel(0.2))


def batch_by_loops(of: Population, first: Tensor, second: Tensor, copies: str) -> float:
    views, total = [*first.tolist(), *second.tolist()], 0.0
    pairs, nodes = len(first), len(of.embeddings)
    kernel = [[math.exp(-float((a - b).square().sum()) / 0.4) for b in of.embeddings] for a in of.embeddings]
    for place, i in enumerate(views):
        positive = views[(place + pairs) % len(views)]
        others = [j for other, j in enumerate(views) if other != place and (copies == "count" or j != i)]
        partition = sum(kernel[i][j] for j in others)
        total += -math.log(kernel[i][positive] / partition) + math.log((nodes - 1) / len(others))
    return total / len(views)


@pytest.mark.parametrize("copies", COPIES)
def test_a_batch_is_its_loops(copies):
    of, generator = population(), torch.Generator().manual_seed(1)
    for size in (2, 5, 12):
        first, second = drawn_pairs(of.pairs, size, generator)
        assert of.info_nce(first, second, copies) == pytest.approx(batch_by_loops(of, first, second, copies), rel=1e-12)


def test_with_copies_counted_it_is_the_librarys_info_nce():
    of, generator = population(), torch.Generator().manual_seed(2)
    first, second = drawn_pairs(of.pairs, 20, generator)
    library = float(info_nce(of.embeddings[first], of.embeddings[second], temperature=0.2))
    assert of.info_nce(first, second, "count") == pytest.approx(library + math.log(15 / 39), rel=1e-12)


def test_the_limit_on_a_balanced_graph_is_the_cross_entropy_of_graphs():
    of = population()
    library = Coupling(GaussianKernel(0.2), normalize=False)(of.embeddings, target=from_graph(of.pairs))
    assert of.cross_entropy("apart") == pytest.approx(float(library), rel=1e-12)


def test_copies_move_the_limit_by_oneself_in_the_partition():
    of = population()
    moved = of.weight @ (1 + of.own / of.similarities.sum(dim=1)).log() + math.log(15 / 16)
    assert of.cross_entropy("count") - of.cross_entropy("apart") == pytest.approx(float(moved), rel=1e-9)


@pytest.mark.parametrize("is_balanced", [True, False])
@pytest.mark.parametrize("copies", COPIES)
def test_the_noise_has_mean_zero_exactly(copies, is_balanced):
    """Over all batches of one pair, each weighed by its probability; the mean over more pairs follows."""
    of, total = population(is_balanced=is_balanced, size=4), 0.0
    for i, j in itertools.product(range(8), repeat=2):
        if of.pairs[i, j] > 0:
            total += float(of.pairs[i, j]) * of.noise(torch.tensor([i]), torch.tensor([j]), copies)
    assert total == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("is_balanced", [True, False])
@pytest.mark.parametrize("copies", COPIES)
def test_the_bias_is_the_one_foretold(copies, is_balanced):
    of, generator = population(is_balanced=is_balanced), torch.Generator().manual_seed(3)
    result = measured(of, 128, copies, batches=2000, generator=generator)
    reach = (result.bias["high"] - result.bias["mean"]) / 1.96
    assert abs(result.bias["mean"] - result.foretold) < 4 * reach + 0.05 * abs(result.foretold)
    assert abs(result.foretold) > 8 * reach  # so the sentence above says something


def test_bias_falls_as_one_over_the_batch_and_spread_as_its_root():
    of, generator = population(), torch.Generator().manual_seed(4)
    small, large = (measured(of, size, "apart", batches=600, generator=generator) for size in (64, 1024))
    assert small.bias["mean"] / large.bias["mean"] == pytest.approx(16, rel=0.35)
    assert small.spread / large.spread == pytest.approx(4, rel=0.2)


def test_a_balanced_graph_has_equal_rows():
    pairs = balanced(planted_graph(blocks=3, size=20, degree=10, mixing=0.3, seed=5).weights)
    assert pairs.sum(dim=1).tolist() == pytest.approx([1 / 60] * 60, rel=1e-10)
    torch.testing.assert_close(pairs, pairs.T, rtol=1e-14, atol=0)


def test_a_star_cannot_be_balanced():
    star = torch.zeros(4, 4, dtype=torch.float64)
    star[0, 1:] = star[1:, 0] = 1
    with pytest.raises(DataError, match="keep its rows from equal sums"):
        balanced(star)
