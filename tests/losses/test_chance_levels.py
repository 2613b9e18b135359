"""Constant embeddings give each objective's declared chance level; known constants and floors are met."""

from __future__ import annotations

import math

import pytest
import torch

from eigenview import losses
from eigenview.errors import SettingError
from eigenview.graph.kernels import CosineKernel, GaussianKernel, LaplacianKernel, concatenated

N, D, K = 16, 8, 31
CONSTANT = torch.linspace(-1, 2, D, dtype=torch.float64).repeat(N, 1)
QUEUE = CONSTANT[:1].repeat(K, 1)
SCORES = torch.full((N, K), 0.3, dtype=torch.float64)
CODES = torch.rand(N, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(1)


def assert_chance(value, declared, tolerance=1e-12):
    torch.testing.assert_close(value.item(), declared, rtol=0, atol=tolerance * max(1, abs(declared)))


@pytest.mark.parametrize("views", [2, 3])
@pytest.mark.parametrize("keep", [True, False])
def test_info_nce(views, keep):
    module = losses.InfoNCE(temperature=0.1, positive_in_denominator=keep)
    level = module.chance_level(N, views=views)
    assert_chance(module(*[CONSTANT] * views), level)
    assert level == math.log(views * N - 1 if keep else views * (N - 1))


def test_info_nce_with_given_negatives():
    module = losses.InfoNCE(temperature=0.19)
    assert_chance(module(CONSTANT, CONSTANT, negatives=QUEUE), module.chance_level(N, negatives=K))
    assert module.chance_level(N, negatives=K) == math.log(K + 1)


@pytest.mark.parametrize(
    "kernel",
    [
        LaplacianKernel(0.1),
        GaussianKernel(0.1) + LaplacianKernel(0.1),
        concatenated(GaussianKernel(0.1), LaplacianKernel(0.1)),
        0.3 * GaussianKernel(0.1),
    ],
    ids=repr,
)
def test_kernel_info_nce(kernel):
    module = losses.KernelInfoNCELoss(kernel)
    assert_chance(module(CONSTANT, CONSTANT), module.chance_level(N))


def test_loss_sums():
    module = losses.KernelInfoNCELoss(losses.simple_sum_of_authors(weight=0.3), form="loss-sum")
    assert_chance(module(CONSTANT, CONSTANT), module.chance_level(N))
    assert module.chance_level(N) == pytest.approx(math.log(2 * N - 1))
    unweighted = losses.KernelInfoNCELoss(GaussianKernel(0.1) + LaplacianKernel(0.1), form="loss-sum")
    assert_chance(unweighted(CONSTANT, CONSTANT), 2 * math.log(2 * N - 1))
    assert unweighted.chance_level(N) == 2 * math.log(2 * N - 1)


def test_supervised_contrastive():
    module = losses.SupervisedContrastive()
    labels = torch.arange(N) % 3
    assert_chance(module(CONSTANT, CONSTANT, labels=labels), module.chance_level(N))


@pytest.mark.parametrize("form", ["absolute", "squared"])
@pytest.mark.parametrize("views", [2, 4])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_random_walk(form, views, reduction):
    module = losses.RandomWalkLaplacian(form=form, reduction=reduction)
    assert_chance(module(*[CONSTANT] * views), module.chance_level(N, views=views))


def test_random_walk_at_the_published_size():
    assert losses.RandomWalkLaplacian().chance_level(512) == pytest.approx(2046.0, abs=0.05)
    assert losses.RandomWalkLaplacian(form="squared").chance_level(512) == pytest.approx(1023.0, abs=0.05)


def test_align_uniform():
    module = losses.AlignUniformLoss(contrastive_weight=0.5)
    assert_chance(module(CONSTANT, CONSTANT), module.chance_level(N))
    assert_chance(losses.AlignUniformLoss()(CONSTANT, CONSTANT), 0.0)


def test_momentum_contrast():
    for denominator, level in (("key_and_queue", math.log(K + 1)), ("queue", math.log(K))):
        module = losses.MomentumContrast(denominator=denominator)
        assert_chance(module(CONSTANT, CONSTANT, QUEUE), level)
        assert module.chance_level(K) == level
    assert losses.MomentumContrast().chance_level(65536) == pytest.approx(11.09, abs=0.005)
    module = losses.MomentumAlignUniform()
    assert_chance(module(CONSTANT, CONSTANT, QUEUE), module.chance_level())


def test_prototypes():
    module = losses.SwappedAssignment()
    assert_chance(module([SCORES] * 4, [CODES] * 2), module.chance_level(K))
    summed = losses.SwappedAssignment(form="summed")
    assert_chance(summed([SCORES] * 4, [CODES] * 2), summed.chance_level(K, crops=4))
    assert module.chance_level(3000) == pytest.approx(8.006, abs=0.0005)
    clusters = losses.ClusterAssignment()
    assert_chance(clusters([SCORES] * 3, torch.arange(N) % K), clusters.chance_level(K))


@pytest.mark.parametrize(
    "kernel", [LaplacianKernel(0.1), 0.3 * GaussianKernel(0.1) + LaplacianKernel(0.1), CosineKernel(0.2)], ids=repr
)
def test_siglip_with_a_kernel(kernel):
    module = losses.SigLIPLoss(kernel=kernel, bias=-1.5)
    assert_chance(module(CONSTANT, CONSTANT), module.chance_level(N))


def test_captions():
    module = losses.CLIPLoss()
    assert_chance(module(CONSTANT, CONSTANT), module.chance_level(N))
    assert module.log_scale.item() == pytest.approx(2.659, abs=0.0005)
    sigmoid = losses.SigLIPLoss(temperature=0.5, bias=-1.0).double()
    assert_chance(sigmoid(CONSTANT, CONSTANT), sigmoid.chance_level(N))


def test_closed_forms():
    for mu in (0.5, 1.0, 10.0):
        module = losses.SpectralContrastive(mu=mu)
        assert_chance(module(100 * CONSTANT, 100 * CONSTANT), module.chance_level())
    module = losses.LaplacianEigenmapsLoss(decorrelation_weight=0.7)
    assert_chance(module(CONSTANT, CONSTANT), module.chance_level())
    assert_chance(losses.SimSiamLoss()(CONSTANT, CONSTANT, CONSTANT, CONSTANT), losses.SimSiamLoss().chance_level())


@pytest.mark.parametrize(
    ("dimension", "t", "floor"),
    [(2, 2, -1.5750), (3, 2, -2.0798), (128, 2, -3.9375), (128, 3, -5.8595), (2048, 2, -3.9961)],
)
def test_the_uniformity_floor_has_its_known_values(dimension, t, floor):
    assert losses.uniformity_floor(dimension, t=t) == pytest.approx(floor, abs=5e-5)


@pytest.mark.parametrize("dimension", [2, 3, 16])
def test_uniform_points_approach_the_floor_and_respect_the_finite_bound(dimension):
    n = 4000
    points = torch.randn(n, dimension, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    value = losses.uniformity(points).item()
    assert value == pytest.approx(losses.uniformity_floor(dimension), abs=0.02)
    assert value >= losses.uniformity_floor(dimension, items=n)


def test_equally_spaced_points_on_the_circle_almost_reach_the_finite_bound():
    n = 64
    angle = torch.arange(n, dtype=torch.float64) * 2 * math.pi / n
    value = losses.uniformity(torch.stack([angle.cos(), angle.sin()], dim=1)).item()
    bound = losses.uniformity_floor(2, items=n)
    assert bound <= value + 1e-12
    assert value == pytest.approx(bound, abs=1e-10)
    assert losses.uniformity_floor(128, items=20) == -math.inf


def test_the_floor_refuses_what_is_no_sphere():
    with pytest.raises(SettingError, match="dimension >= 1"):
        losses.uniformity_floor(0)
