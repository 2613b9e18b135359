"""F̂ = F*·diag(√γ)·R to rounding, and the sampled loss without bias."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from eigenview.lab import LabSettings
from eigenview.lab.spectral_recovery import (
    NO_BALL,
    ideal_factor,
    minimiser,
    normalised_adjacency,
    pair_graph,
    population_loss,
    recovery,
    run,
    sampled_loss,
)
from eigenview.losses import spectral_contrastive


def embeddings(nodes: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(nodes, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_population_loss_is_its_loops():
    pairs, f = pair_graph(6), embeddings(6, 2)
    weight, total = pairs.sum(dim=1), 0.0
    for x in range(6):
        for y in range(6):
            inner = float(f[x] @ f[y])
            total += -2 * float(pairs[x, y]) * inner + float(weight[x] * weight[y]) * inner**2
    assert float(population_loss(f, pairs)) == pytest.approx(total, rel=1e-12)


def test_the_population_loss_is_a_factorisation():
    pairs, f = pair_graph(9), embeddings(9, 3)
    adjacency, scaled = normalised_adjacency(pairs), f * pairs.sum(dim=1).sqrt()[:, None]
    expected = (adjacency - scaled @ scaled.T).square().sum() - adjacency.square().sum()
    torch.testing.assert_close(population_loss(f, pairs), expected, rtol=1e-12, atol=1e-12)


def test_the_sampled_loss_is_unbiased_exactly():
    """All batches of two pairs of a graph of three nodes, each weighed by its probability."""
    pairs, f = pair_graph(3, blocks=2), embeddings(3, 2)
    places = list(itertools.product(range(3), repeat=2))
    mean = 0.0
    for first, second in itertools.product(places, repeat=2):
        rows = torch.tensor([first, second])
        loss = spectral_contrastive(f[rows[:, 0]], f[rows[:, 1]], mu=NO_BALL) * NO_BALL
        mean += float(pairs[first] * pairs[second] * loss)
    assert mean == pytest.approx(float(population_loss(f, pairs)), rel=1e-9)


def test_drawn_batches_average_to_the_population_loss():
    pairs, f, generator = pair_graph(8), embeddings(8, 2), torch.Generator().manual_seed(1)
    values = torch.stack([sampled_loss(f, pairs, items=4, generator=generator) for _ in range(2000)])
    error = float(values.std()) / 2000**0.5
    assert abs(float(values.mean() - population_loss(f, pairs))) < 4 * error


@pytest.mark.parametrize(("width", "seed"), [(1, 0), (2, 1), (3, 2), (4, 3)])
def test_the_minimiser_is_the_scaled_eigenvectors_to_rounding(width, seed):
    pairs = pair_graph(12, seed=seed)
    recovered = recovery(minimiser(pairs, width, seed=seed), pairs)
    assert recovered.error < 1e-13
    assert recovered.widest_angle < 1e-12
    torch.testing.assert_close(recovered.rotation @ recovered.rotation.T, torch.eye(width).double(), rtol=0, atol=1e-13)


def test_a_negative_eigenvalue_is_left_out():
    """Two nodes that only meet each other: γ = 1, −1. The second dimension has nothing to hold."""
    pairs = torch.tensor([[0.0, 0.5], [0.5, 0.0]], dtype=torch.float64)
    ideal = ideal_factor(pairs, 2)
    torch.testing.assert_close(ideal @ ideal.T, torch.full((2, 2), 0.5).double(), rtol=0, atol=1e-15)
    f = minimiser(pairs, 1, seed=0)
    torch.testing.assert_close((f @ f.T), torch.ones(2, 2).double(), rtol=0, atol=1e-12)


def test_other_embeddings_are_not_taken_for_the_minimiser():
    pairs = pair_graph(12)
    assert recovery(embeddings(12, 3), pairs).widest_angle > 0.1


def test_the_experiment_finds_what_it_claims():
    outcome = run(LabSettings(is_quick=True))
    assert max(max(values) for values in outcome.data["errors"].values()) < 1e-13
    assert max(abs(row["deviation"]) for row in outcome.data["sampled_loss"]) < 4
    path = outcome.data["stochastic"]["error"]
    assert path[-1] < path[0] / 1.5
