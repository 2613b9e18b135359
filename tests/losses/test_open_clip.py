"""Losses of images and words against open_clip's: its formulas in loops, and itself where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import normalize

from eigenview import losses
from tests.processes import run_processes

ROWS = 6


def leaves() -> list[Tensor]:
    """Images, texts, scale and bias, as towers and parameters give them."""
    generator = torch.Generator().manual_seed(0)
    towers = [torch.randn(ROWS, 5, generator=generator, dtype=torch.float64) for _ in range(2)]
    scalars = [torch.tensor(value, dtype=torch.float64) for value in (1 / 0.07, -10.0)]
    return [leaf.requires_grad_() for leaf in (*towers, *scalars)]


def clip_by_loops(image: Tensor, text: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Cross-entropy of scale·image·textᵀ with its diagonal, by rows and by columns, their mean."""
    total = 0 * bias
    for first, second in ((image, text), (text, image)):
        for row in range(ROWS):
            logits = [scale * (first[row] * second[column]).sum() for column in range(ROWS)]
            total = total - logits[row] + torch.stack(logits).exp().sum().log()
    return total / (2 * ROWS)


def siglip_by_loops(image: Tensor, text: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """−Σ log σ(±(scale·image·text + bias)) over all pairs, divided by the images."""
    total = 0 * bias
    for row in range(ROWS):
        for column in range(ROWS):
            logit = scale * (image[row] * text[column]).sum() + bias
            total = total + (1 + (-logit if row == column else logit).exp()).log()
    return total / ROWS


LOOPS = {"clip": clip_by_loops, "siglip": siglip_by_loops}


def ours(name: str, given: list[Tensor], group: dist.ProcessGroup | None = None) -> Tensor:
    image, text, scale, bias = given
    if name == "clip":
        return losses.clip_loss(image, text, temperature=1 / scale, group=group) + 0 * bias
    return losses.siglip_loss(image, text, temperature=1 / scale, bias=bias, group=group)


def theirs(name: str, given: list[Tensor], rank: int = 0, world_size: int = 1) -> Tensor:
    """As open_clip trains with them: embeddings on the sphere, each process's own rows against all."""
    from open_clip.loss import ClipLoss, SigLipLoss

    image, text, scale, bias = given
    image, text = normalize(image, dim=1), normalize(text, dim=1)
    if name == "clip":
        loss = ClipLoss(local_loss=True, gather_with_grad=True, rank=rank, world_size=world_size)
        return loss(image, text, scale) + 0 * bias
    return SigLipLoss(rank=rank, world_size=world_size)(image, text, scale, bias)


def compare(value: Tensor, given: list[Tensor], expected: Tensor, leaves_of_expected: list[Tensor]) -> None:
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)
    gradients = torch.autograd.grad(value, given)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, leaves_of_expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LOOPS)
def test_the_loss_is_open_clips_formula(name):
    given, again = leaves(), leaves()
    image, text, scale, bias = again
    expected = LOOPS[name](normalize(image, dim=1), normalize(text, dim=1), scale, bias)
    compare(ours(name, given), given, expected, again)


@pytest.mark.parametrize("name", LOOPS)
def test_the_loss_is_that_of_open_clip(name):
    pytest.importorskip("open_clip", reason="open_clip is not installed", exc_type=ImportError)
    given, again = leaves(), leaves()
    compare(ours(name, given), given, theirs(name, again), again)


def after_averaging(loss: Tensor, given: list[Tensor]) -> list[Tensor]:
    """The value and the gradient of scale and bias as DDP averages them, and that of this process's rows, of 2."""
    image, text, scale, bias = torch.autograd.grad(loss, given)
    means = [loss.detach().clone(), scale.clone(), bias.clone()]
    for value in means:
        dist.all_reduce(value)
        value /= 2
    return [*means, image / 2, text / 2]


def both_losses(rank: int, group: dist.ProcessGroup, name: str, uses_open_clip: bool) -> list[Tensor]:
    whole = leaves()
    own = slice(0, 3) if rank == 0 else slice(3, ROWS)
    given = [leaf.detach()[own] if leaf.ndim else leaf.detach() for leaf in whole]
    given = [leaf.clone().requires_grad_() for leaf in given]
    if uses_open_clip:
        return after_averaging(theirs(name, given, rank, 2), given)
    return after_averaging(ours(name, given, group), given)


@pytest.mark.parametrize("name", LOOPS)
def test_two_processes_give_open_clips_formula(name):
    whole = leaves()
    image, text, scale, bias = whole
    expected = LOOPS[name](normalize(image, dim=1), normalize(text, dim=1), scale, bias)
    gradients = torch.autograd.grad(expected, whole)
    measured = run_processes(2, both_losses, name, False)
    for value, of_scale, of_bias, *_ in measured:
        np.testing.assert_allclose([value, of_scale, of_bias], [expected.detach(), *gradients[2:]], atol=1e-10)
    for place in (0, 1):
        np.testing.assert_allclose(np.concatenate([rows[3 + place] for rows in measured]), gradients[place], atol=1e-10)


@pytest.mark.parametrize("name", LOOPS)
def test_two_processes_of_open_clip_give_the_same(name):
    pytest.importorskip("open_clip", reason="open_clip is not installed", exc_type=ImportError)
    mine, other = (run_processes(2, both_losses, name, uses_open_clip, timeout=300) for uses_open_clip in (False, True))
    for one_process, same_process in zip(mine, other, strict=True):
        for value, expected in zip(one_process, same_process, strict=True):
            np.testing.assert_allclose(value, expected, atol=1e-10)
