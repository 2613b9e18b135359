"""Every row of the design's table: the named objective equals the coupling, value and gradient, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from eigenview import losses
from eigenview.graph.coupling import Coupling, log_partition
from eigenview.graph.kernels import (
    CauchyKernel,
    CosineKernel,
    ExponentialKernel,
    GaussianKernel,
    InnerProductKernel,
    LaplacianKernel,
    StudentTKernel,
    concatenated,
)
from eigenview.graph.laplacian import laplacian_trace
from eigenview.graph.pointwise import distance_power
from eigenview.graph.targets import SameItem, from_captions, from_graph, two_views
from eigenview.graph.transport import sinkhorn
from tests import oracle

ITEMS = 5


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


X, Y = draw(ITEMS, 6, seed=0), draw(ITEMS, 6, seed=1)
IDS = torch.arange(ITEMS)


def assert_equal(ours, theirs, inputs=(X, Y), tolerance=1e-10):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
    for mine, other in zip(oracle.gradients(ours, *inputs), oracle.gradients(theirs, *inputs), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=tolerance)


def over_views(**spec):
    indicators = spec.pop("as_indicators", False)
    return Coupling(**spec)(torch.cat([X, Y]), target=two_views(ITEMS, as_indicators=indicators))


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_info_nce_is_the_gaussian_coupling_at_the_same_temperature(temperature):
    ours = losses.info_nce(X, Y, temperature=temperature)
    assert_equal(ours, over_views(kernel=GaussianKernel(temperature)))
    assert_equal(ours, over_views(kernel=CosineKernel(temperature)))
    assert_equal(ours, losses.kernel_info_nce_loss(X, Y, kernel=GaussianKernel(temperature)))
    # the sphere known to the kernel's inner form, or taken on trust as plain distances
    rows = torch.nn.functional.normalize(torch.cat([X, Y]), dim=1)
    assert_equal(ours, Coupling(GaussianKernel(temperature), normalize=False)(rows, target=two_views(ITEMS)))


def test_the_authors_temperature_is_twice_the_cosines():
    authors = losses.kernel_info_nce_loss(X, Y, kernel=ExponentialKernel(gamma=2.0, temperature=0.2))
    assert_equal(losses.info_nce(X, Y, temperature=0.1), authors)


@pytest.mark.parametrize(
    "kernel",
    [
        LaplacianKernel(0.3),
        ExponentialKernel(0.5, 0.4),
        CauchyKernel(0.5),
        StudentTKernel(2.0, 0.5),
        GaussianKernel(0.2) + LaplacianKernel(0.3),
        concatenated(GaussianKernel(0.2), LaplacianKernel(0.3)),
    ],
    ids=repr,
)
def test_kernel_info_nce_is_the_coupling(kernel):
    assert_equal(losses.kernel_info_nce_loss(X, Y, kernel=kernel), over_views(kernel=kernel))


@pytest.mark.parametrize("form", ["absolute", "squared"])
def test_the_random_walk_is_the_coupling_with_indicators(form):
    ours = losses.random_walk_laplacian(X, Y, form=form, temperature=0.4)
    theirs = over_views(kernel=InnerProductKernel(0.4), divergence=form, reduction="sum", as_indicators=True)
    assert_equal(ours, theirs)


@pytest.mark.parametrize(("alpha", "t"), [(2.0, 2.0), (1.0, 3.0), (0.5, 1.0), (3.0, 2.0)])
def test_alignment_and_uniformity_are_the_couplings_two_terms(alpha, t):
    x, y = (torch.nn.functional.normalize(view, dim=1) for view in (X, Y))
    ours = losses.align_uniform_loss(X, Y, align_weight=0.98, uniform_weight=0.96, alpha=alpha, t=t)
    # attraction of the kernel exp(−‖·‖^α) over the positives; repulsion of exp(−t‖·‖²), one log-partition per view
    pull = distance_power((x - y).square().sum(1), alpha).mean()
    if alpha <= 2:
        spec = Coupling(ExponentialKernel(alpha, 1.0), prior="edges")
        torch.testing.assert_close(spec.terms(torch.cat([X, Y]), target=two_views(ITEMS)).attraction, pull)
    count = math.log(ITEMS * (ITEMS - 1))
    push = sum(log_partition(view, GaussianKernel(1 / (2 * t))) - count for view in (X, Y)) / 2
    assert_equal(ours, 0.98 * pull + 0.96 * push)
    one_view = SameItem(torch.zeros(ITEMS, dtype=torch.long))  # any target: only the partition is read
    terms = Coupling(GaussianKernel(1 / (2 * t)), prior="edges").terms(X, target=one_view)
    torch.testing.assert_close(terms.repulsion - count, losses.uniformity(X, t=t), rtol=0, atol=1e-12)


def test_siglip_is_the_bernoulli_coupling():
    ours = losses.siglip_loss(X, Y, temperature=0.2, bias=-3.0)
    spec = Coupling(InnerProductKernel(0.2, -3.0), prior="bernoulli", partition="all")
    assert_equal(ours, spec(X, Y, target=from_captions(IDS, IDS, as_indicators=True)))


def test_clip_is_two_couplings_of_the_bipartite_graph():
    spec = Coupling(InnerProductKernel(0.07), partition="all")
    target = from_captions(IDS, IDS)
    assert_equal(losses.clip_loss(X, Y, temperature=0.07), (spec(X, Y, target=target) + spec(Y, X, target=target)) / 2)


@pytest.mark.parametrize("denominator", ["key_and_queue", "queue"])
def test_moco_is_the_coupling_over_key_and_queue(denominator):
    queue = draw(7, 6, seed=2).detach()
    ours = losses.momentum_contrast(X, Y, queue, temperature=0.2, denominator=denominator)
    partition = {"key_and_queue": "positives_and_extra", "queue": "extra"}[denominator]
    spec = Coupling(CosineKernel(0.2), partition=partition)
    assert_equal(ours, spec(X, Y.detach(), target=from_captions(IDS, IDS), extra=queue), inputs=(X,))


def test_swav_is_the_coupling_to_prototypes_with_transported_codes():
    prototypes = draw(4, 6, seed=3)
    centres = torch.nn.functional.normalize(prototypes, dim=1)
    scores = [torch.nn.functional.normalize(view, dim=1) @ centres.T for view in (X, Y)]
    codes = [sinkhorn(score.detach(), epsilon=0.05) for score in scores]
    ours = losses.swapped_assignment(scores, codes, temperature=0.1)
    spec = Coupling(CosineKernel(0.1), partition="all")
    theirs = (spec(Y, prototypes, target=from_graph(codes[0])) + spec(X, prototypes, target=from_graph(codes[1]))) / 2
    assert_equal(ours, theirs, inputs=(X, Y, prototypes))


@pytest.mark.parametrize("soft", [True, False], ids=["SeLa-v2", "DeepCluster-v2"])
def test_clustering_objectives_are_the_coupling_to_prototypes(soft):
    prototypes = draw(4, 6, seed=4)
    centres = torch.nn.functional.normalize(prototypes, dim=1)
    scores = [torch.nn.functional.normalize(view, dim=1) @ centres.T for view in (X, Y)]
    assignment = torch.tensor([0, 3, 1, 1, 2])
    codes = torch.nn.functional.one_hot(assignment, 4).double()
    if soft:
        codes = 0.7 * codes + 0.3 / 4
    ours = losses.cluster_assignment(scores, codes if soft else assignment, temperature=0.1)
    spec = Coupling(CosineKernel(0.1), partition="all")
    target = from_graph(codes)
    theirs = (spec(X, prototypes, target=target) + spec(Y, prototypes, target=target)) / 2
    assert_equal(ours, theirs, inputs=(X, Y, prototypes))


def test_the_edges_prior_is_alignment_plus_uniformity_over_all_pairs():
    t, views = 2.0, torch.cat([X, Y])
    theirs = t * losses.alignment(X, Y, alpha=2.0) + losses.uniformity(views, t=t)
    count = 2 * ITEMS * (2 * ITEMS - 1)
    assert_equal(over_views(kernel=GaussianKernel(1 / (2 * t)), prior="edges"), theirs + math.log(count))


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_the_gaussian_coupling_is_laplacian_trace_plus_log_partition(temperature):
    z = draw(8, 3, seed=5)
    pi = torch.rand(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(6)).fill_diagonal_(0)
    spec = Coupling(GaussianKernel(temperature), normalize=False, reduction="sum")
    ours = spec(z, target=from_graph(pi))
    p = pi / pi.sum(1, keepdim=True)
    partition = torch.zeros((), dtype=torch.float64)
    for i in range(8):
        partition = (
            partition + sum((-(z[i] - z[j]).square().sum() / (2 * temperature)).exp() for j in range(8) if j != i).log()
        )
    assert_equal(ours, laplacian_trace(z, (p + p.T) / 2) / temperature + partition, inputs=(z,))


def test_the_walks_loss_on_pairs_is_twice_what_misses_the_positive():
    rows = torch.nn.functional.normalize(torch.cat([X, Y]), dim=1)
    transition = (rows @ rows.T).masked_fill(torch.eye(2 * ITEMS, dtype=torch.bool), -torch.inf).softmax(1)
    positive = transition[torch.arange(2 * ITEMS), (torch.arange(2 * ITEMS) + ITEMS) % (2 * ITEMS)]
    assert_equal(losses.random_walk_laplacian(X, Y), 2 * (1 - positive).sum())


def test_the_spectral_loss_is_the_factorisation_it_is_said_to_be():
    small_x, small_y = 0.1 * X, 0.1 * Y  # inside the ball
    inner = small_x @ small_y.T
    off = ~torch.eye(ITEMS, dtype=torch.bool)
    theirs = -2 * inner.diagonal().mean() + inner[off].square().mean()
    assert_equal(losses.spectral_contrastive(small_x, small_y, mu=1.0), theirs)
