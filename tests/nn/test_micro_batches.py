"""Micro-batches give the gradients of the whole batch; what an encoder draws and remembers stays in order."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError
from eigenview.nn import build_encoder, check_micro_batches, in_micro_batches
from eigenview.nn.batch_norm import keep_statistics

IMAGES, SIDE = 10, 16
ENCODERS = {
    "resnet": {"name": "resnet18", "width": 0.125, "normalization": "group"},
    "vit": {"name": "vit-tiny"},
    "small": {"name": "small", "width": 0.25, "normalization": "group"},
}


def encoder(name, **options):
    torch.manual_seed(0)
    return build_encoder(image_size=SIDE, **{**ENCODERS[name], **options}).double().train()


def images():
    return torch.randn(IMAGES, 3, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def loss_of(features):
    """Every row meets every other; something is drawn on the way."""
    torch.rand(1)
    return (features @ features.T / 10).logsumexp(dim=1).sum() + features[0].sum()


def gradients(module, encode):
    module.zero_grad()
    loss_of(encode(images())).backward()
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters()}


def one_after_the_other(module, sizes):
    """The same micro-batches in one graph: all their memory at once."""
    return lambda whole: torch.cat([module(batch) for batch in whole.split(sizes)])


def assert_close(measured, expected):
    assert measured.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(measured[name], expected[name], rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("size", [1, 3, 5, 64])
def test_gradients_are_those_of_the_whole_batch(name, size):
    module = encoder(name)
    with torch.no_grad():
        torch.testing.assert_close(in_micro_batches(module, images(), size), module(images()), rtol=0, atol=1e-12)
    assert_close(gradients(module, lambda whole: in_micro_batches(module, whole, size)), gradients(module, module))


def test_only_so_many_images_pass_at_a_time():
    seen = []

    class Counting(nn.Linear):
        def forward(self, rows):
            seen.append((len(rows), torch.is_grad_enabled()))
            return super().forward(rows)

    module = Counting(4, 2)
    features = in_micro_batches(module, torch.randn(10, 4), 4)
    assert seen == [(4, False), (3, False), (3, False)]
    features.sum().backward()
    assert seen[3:] == [(4, True), (3, True), (3, True)]


def test_parameters_that_stay_or_are_not_used_get_no_gradient():
    module = encoder("small")
    module.spare = nn.Parameter(torch.ones(1, dtype=torch.float64))
    still = next(module.parameters()).requires_grad_(False)
    loss_of(in_micro_batches(module, images(), 3)).backward()
    assert still.grad is None
    assert module.spare.grad is None
    assert all(p.grad is not None for p in module.parameters() if p is not still and p is not module.spare)


def test_two_parameters_with_one_gradient_are_not_mixed_up():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (nn.Parameter(torch.ones(4, 3, dtype=torch.float64)) for _ in range(2))

        def forward(self, rows):
            return rows @ (self.a + self.b)

    module, rows = Sum(), torch.randn(6, 4, dtype=torch.float64)
    loss_of(in_micro_batches(module, rows, 2)).backward()
    shared = (module.a + module.b).detach().requires_grad_()
    loss_of(rows @ shared).backward()
    torch.testing.assert_close(module.a.grad, shared.grad)
    torch.testing.assert_close(module.b.grad, shared.grad)


def test_what_is_drawn_is_drawn_again():
    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, 32), nn.Dropout(0.5), nn.Linear(32, 8))

        def forward(self, whole):
            return self.layers(whole)

    torch.manual_seed(0)
    module = Dropping().double()
    torch.manual_seed(5)
    expected = gradients(module, one_after_the_other(module, [4, 3, 3]))
    after = torch.get_rng_state()
    torch.manual_seed(5)
    assert_close(gradients(module, lambda whole: in_micro_batches(module, whole, 4)), expected)
    assert torch.equal(torch.get_rng_state(), after)


def test_generators_end_where_they_would_have_in_one_batch():
    module, states = encoder("resnet"), []
    for size in (None, 3):
        torch.manual_seed(5)
        gradients(module, lambda whole, size=size: in_micro_batches(module, whole, size))
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_batch_norm_in_an_encoder_is_refused_unless_allowed():
    module = encoder("resnet", normalization="batch")
    with pytest.raises(SettingError, match=r"this encoder has batch norms.*micro_batch_norm=per-micro-batch"):
        check_micro_batches(module, 4, allows_batch_norm=False)
    check_micro_batches(module, 4, allows_batch_norm=True)
    check_micro_batches(module, None, allows_batch_norm=False)
    check_micro_batches(encoder("resnet"), 4, allows_batch_norm=False)
    check_micro_batches(keep_statistics(module), 4, allows_batch_norm=False)  # of no batch


def test_kept_statistics_give_the_whole_batchs_gradients():
    module = encoder("resnet", normalization="batch")
    module(images())
    keep_statistics(module)
    assert_close(gradients(module, lambda whole: in_micro_batches(module, whole, 3)), gradients(module, module))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_allowed_batch_norm_sees_micro_batches_and_its_averages_move_once(momentum):
    module = encoder("resnet", normalization="batch")
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = momentum
    module(images())  # averages that have seen something
    start = deepcopy(module)
    reference = deepcopy(start)
    expected = gradients(reference, one_after_the_other(reference, [4, 3, 3]))
    moved = []
    for batch in images().split([4, 3, 3]):
        alone = deepcopy(start)
        alone(batch)
        moved.append(dict(alone.named_buffers()))
    measured = gradients(module, lambda whole: in_micro_batches(module, whole, 4))
    assert_close(measured, expected)
    for name, buffer in module.named_buffers():
        mean = torch.stack([buffers[name].double() for buffers in moved]).mean(dim=0)
        torch.testing.assert_close(buffer.double(), mean, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.usefixtures("half_precision")
def test_half_precision_adds_gradients_in_full():
    torch.manual_seed(0)
    module, whole = nn.Linear(16, 8), torch.randn(64, 16)

    def encode(rows):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return in_micro_batches(module, rows, 1)

    features = encode(whole)
    assert features.dtype == torch.bfloat16
    features.float().square().sum().backward()
    measured = module.weight.grad.clone()
    assert measured.dtype == torch.float32
    module.zero_grad()
    for row in whole:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            alone = module(row[None])
        alone.float().square().sum().backward()
    torch.testing.assert_close(measured, module.weight.grad, rtol=1e-6, atol=1e-6)
