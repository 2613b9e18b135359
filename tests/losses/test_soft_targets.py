"""Soft targets: the streamed coupling with a target graph of caption similarity equals the formula, by loops."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import log_softmax, normalize

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph import Coupling, LaplacianKernel, from_graph, from_vectors
from eigenview.graph.kernels import CosineKernel
from eigenview.losses import clip_loss


def rows(count, width, seed):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_formula(image, text, about, temperature, target_temperature):
    scores = normalize(image) @ normalize(text).T / temperature
    target = (about @ about.T / target_temperature).softmax(dim=1)
    loss = 0.0
    for i in range(len(image)):
        for j in range(len(text)):
            loss -= target[i, j] * log_softmax(scores, dim=1)[i, j] / len(image) / 2
            loss -= target[j, i] * log_softmax(scores.T, dim=1)[j, i] / len(text) / 2
    return loss


def test_value_and_gradient_are_those_of_the_formula():
    image, text, about = rows(7, 5, 0).requires_grad_(), rows(7, 5, 1).requires_grad_(), normalize(rows(7, 3, 2))
    expected = by_formula(image, text, about, 0.07, 0.3)
    loss = clip_loss(image, text, image_vectors=about, text_vectors=about, target_temperature=0.3)
    torch.testing.assert_close(loss, expected)
    ours, theirs = (torch.autograd.grad(value, (image, text)) for value in (loss, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kernel", [CosineKernel(0.2), LaplacianKernel(0.3)])
@pytest.mark.parametrize("block_size", [3, 512])
def test_blocks_give_what_the_whole_graph_gives(kernel, block_size):
    anchors, candidates = rows(8, 4, 0).requires_grad_(), rows(11, 4, 1).requires_grad_()
    ours, theirs = normalize(rows(8, 3, 2)), normalize(rows(11, 3, 3))
    coupling = Coupling(kernel, partition="all", block_size=block_size)
    soft = coupling(anchors, candidates, target=from_vectors(ours, theirs, temperature=0.5))
    whole = coupling(anchors, candidates, target=from_graph((ours @ theirs.T / 0.5).exp()))
    torch.testing.assert_close(soft, whole)
    torch.testing.assert_close(torch.autograd.grad(soft, anchors), torch.autograd.grad(whole, anchors))


def test_cold_targets_are_identity():
    image, text, about = rows(6, 5, 0), rows(6, 5, 1), torch.eye(6, dtype=torch.float64)
    soft = clip_loss(image, text, image_vectors=about, text_vectors=about, target_temperature=1e-3)
    torch.testing.assert_close(soft, clip_loss(image, text))


def test_constant_embeddings_sit_at_chance_whatever_the_target():
    ones, about = torch.ones(6, 5, dtype=torch.float64), normalize(rows(6, 3, 0))
    loss = clip_loss(ones, ones, image_vectors=about, text_vectors=about)
    torch.testing.assert_close(loss, torch.tensor(6.0, dtype=torch.float64).log())


def test_what_are_no_soft_targets_is_refused():
    image, about = rows(6, 5, 0), rows(6, 3, 0)
    coupling = Coupling(CosineKernel(0.1), partition="all")
    with pytest.raises(ShapeError, match="a vector for each embedding of two sides"):
        coupling(image, image.clone(), target=from_vectors(about[:5], about))
    with pytest.raises(ShapeError, match=r"vectors \(n, p\) and \(m, p\)"):
        from_vectors(about, rows(6, 4, 0))
    with pytest.raises(SettingError, match="must be positive"):
        from_vectors(about, about, temperature=0.0)
    with pytest.raises(DataError, match="must be finite"):
        from_vectors(about * torch.nan, about)
