"""Tensors left on the CPU, found without an accelerator: views, losses and steps on a device that is pretended."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import eigenview as ev
from eigenview.methods import METHODS, MethodContext, ViewedBatch, find_method
from eigenview.nn import Tokenizer
from eigenview.optim import build_optimizer, parameter_groups
from eigenview.optim.build import OPTIMIZERS
from eigenview.training.feed import early_views
from eigenview.views import PRESETS, Crop, Views, preset
from tests.pretended import CAN_PRETEND, moved, pretended_device
from tests.processes import run_processes

pytestmark = pytest.mark.skipif(not CAN_PRETEND, reason="this version of torch cannot pretend a device")

ITEMS, CLASSES, WIDTH = 8, 3, 16
LOSSES = {
    "info_nce": ev.info_nce,
    "kernels": lambda a, b: ev.kernel_info_nce_loss(a, b, kernel=ev.GaussianKernel(0.2) + ev.LaplacianKernel(0.5)),
    "random walk": ev.random_walk_laplacian,
    "align + uniform": ev.align_uniform_loss,
    "clip": ev.clip_loss,
    "siglip": ev.siglip_loss,
    "spectral": ev.spectral_contrastive,
    "eigenmaps": ev.laplacian_eigenmaps_loss,
    "labels": lambda a, b: ev.supervised_contrastive(a, b, labels=torch.arange(len(a), device=a.device)),
    "momentum": lambda a, b: ev.momentum_contrast(a, b, torch.randn(100, WIDTH, device=a.device)),
    "momentum align": lambda a, b: ev.momentum_align_uniform(a, b, torch.randn(100, WIDTH, device=a.device)),
    "simsiam": lambda a, b: ev.simsiam_loss(a, b, a, b),
    "codes": lambda a, b: ev.swapped_assignment([a, b], [ev.sinkhorn(a.detach()), ev.sinkhorn(b.detach())]),
}
SMALL = {
    "moco": {"queue": 7, "splits": 1},
    "swav": {"prototypes": 5},
    "deepcluster-v2": {"prototypes": (4, 5)},
    "sela-v2": {"prototypes": (4, 5)},
    "clip": {"text": {"width": 8, "depth": 1}},
    "siglip": {"text": {"width": 8, "depth": 1}},
}
CROPS = (Crop(24, 2, (0.3, 1.0)), Crop(16, 2, (0.1, 0.3)))
TWO_VIEWS = ("moco", "clip", "siglip")  # of one size, or fewer
CAPTIONS = tuple((f"a {colour} ball",) for colour in "red green blue white black grey brown pink".split())


def devices_of_losses(rank: int, group: object, items: int) -> dict[str, set[str]]:
    """Where each loss and its gradients are."""
    places = {}
    for name, loss in LOSSES.items():
        with pretended_device() as device:
            views = [torch.randn(items, WIDTH, device=device, requires_grad=True) for _ in range(2)]
            value = loss(*views)
            gradients = torch.autograd.grad(value, views, allow_unused=True)
        places[name] = {each.device.type for each in (value, *gradients) if each is not None}
    return places


def devices_of_steps(rank: int, group: object, micro_batch: int | None) -> dict[str, set[str]]:
    """Where the views, the loss and the gradients of a step of each method are."""
    places = {}
    tokens = Tokenizer.trained([text for texts in CAPTIONS for text in texts], vocabulary=300).reading(8)
    for name in METHODS:
        kind, recipe = find_method(name), preset("simclr-cifar", size=24)
        if name not in TWO_VIEWS:
            recipe = recipe.with_crops(CROPS)
        counts = tuple(crop.count for crop in recipe.crops)
        context = MethodContext(ITEMS, CLASSES, counts, steps_per_epoch=10, tokenizer=tokens, micro_batch=micro_batch)
        method = kind(ev.create_encoder("small", width=0.25), kind.settings_type(**SMALL.get(name, {})), context)
        with pretended_device() as device:
            method = moved(method, device)
            optimizer = torch.optim.AdamW(method.parameters(), 1e-3)
            index = torch.arange(ITEMS, device=device)
            pixels = torch.empty(ITEMS, 3, 24, 24, dtype=torch.uint8, device=device)
            views = Views(recipe)(pixels, range(ITEMS), epoch=0)
            batch = ViewedBatch(early_views(views.groups, 0.75), ITEMS, index, index % CLASSES, 0, 0, CAPTIONS)
            method.start_epoch(0, lambda batch=batch: iter([batch]))
            output = method(batch)
            output.loss.backward()
            method.before_update(0)
            optimizer.step()
            method.after_update()
        trained = [parameter.grad for parameter in method.parameters() if parameter.grad is not None]
        places[name] = {each.device.type for each in (*views.groups, output.loss, output.embeddings, *trained)}
        assert len(trained) > 4
    return places


def devices_of_views(rank: int, group: object) -> dict[str, set[str]]:
    """Where the views of each preset are."""
    places = {}
    for name, recipe in PRESETS.items():
        channels = len(recipe.mean)
        with pretended_device() as device:
            views = Views(recipe)(torch.empty(3, channels, 40, 40, dtype=torch.uint8, device=device), range(3), epoch=0)
            places[name] = {group.device.type for group in views.groups}
    return places


def devices_of_updates(rank: int, group: object) -> dict[str, set[str]]:
    """Where the parameters and the state of each optimizer are after two steps."""
    places = {}
    for name in OPTIMIZERS:
        encoder = ev.create_encoder("small", width=0.25)
        with pretended_device() as device:
            encoder = moved(encoder, device)
            optimizer = build_optimizer(name, parameter_groups(encoder, learning_rate=0.1, weight_decay=0.1))
            for _ in range(2):
                encoder(torch.randn(2, 3, 16, 16, device=device)).sum().backward()
                optimizer.step()
        kept = [held for state in optimizer.state.values() for held in state.values()]
        tensors = [each for each in (*encoder.parameters(), *kept) if isinstance(each, Tensor) and each.ndim]
        places[name] = {each.device.type for each in tensors}
    return places


def as_array(rank: int, group: object) -> list[str]:
    with pretended_device() as device:
        there = torch.ones(3, device=device)
        messages = [str(there.cpu().numpy().shape)]
        try:
            there.numpy()
        except TypeError as error:
            messages.append(str(error))
    return messages


def mixed(rank: int, group: object) -> list[str]:
    """What is said of tensors here and there in one operation."""
    messages = []
    with pretended_device() as device:
        here, there = torch.ones(3), torch.ones(3, device=device)
        there[here > 0]  # rows may be asked for from here
        for operation in (lambda: there + here, lambda: torch.equal(there, here), lambda: here[there > 0]):
            try:
                operation()
            except RuntimeError as error:
                messages.append(str(error))
    return messages


def test_a_tensor_left_on_the_cpu_fails_here():
    (messages,) = run_processes(1, mixed)
    assert ["same device" in message for message in messages] == [True] * 3
    (messages,) = run_processes(1, as_array)
    assert messages[0] == "(3,)"
    assert "copy it to the CPU first" in messages[1]


@pytest.mark.parametrize("items", [ITEMS, 5000], ids=["held whole", "in blocks"])
def test_losses_stay_on_their_device(items):
    (places,) = run_processes(1, devices_of_losses, items)
    assert places == {name: {"pretended"} for name in LOSSES}


@pytest.mark.parametrize("micro_batch", [None, 6])
def test_steps_of_methods_stay_on_their_device(micro_batch):
    (places,) = run_processes(1, devices_of_steps, micro_batch)
    assert places == {name: {"pretended"} for name in METHODS}


def test_updates_stay_on_their_device():
    (places,) = run_processes(1, devices_of_updates)
    assert places == {name: {"pretended"} for name in OPTIMIZERS}


def test_views_stay_on_their_device():
    (places,) = run_processes(1, devices_of_views)
    assert places == {name: {"pretended"} for name in PRESETS}
