"""LARS and LARC against their formulas, step by step; torch's optimizers where they coincide."""

from __future__ import annotations

import copy
from typing import get_args

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError
from eigenview.nn.normalization import NORMALIZATIONS
from eigenview.nn.resnet import STEMS
from eigenview.nn.settings import EncoderSettings
from eigenview.optim import Apart, build_optimizer, build_schedule, parameter_groups, set_learning_rate
from eigenview.optim.build import OPTIMIZERS
from eigenview.optim.optimizers import LARC, LARS
from eigenview.optim.settings import OptimizerSettings

STEPS, RATE, DECAY, TRUST = 5, 0.3, 0.02, 0.01


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()


def gradients(model: nn.Module, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {
        name: torch.randn(value.shape, dtype=torch.float64, generator=generator)
        for name, value in model.named_parameters()
    }


def run(model: nn.Module, optimizer: torch.optim.Optimizer, steps=range(STEPS), rates=None) -> list[torch.Tensor]:
    for step in steps:
        given = gradients(model, step)
        for name, value in model.named_parameters():
            value.grad = given[name]
        if rates is not None:
            set_learning_rate(optimizer, rates[step])
        optimizer.step()
    return [value.detach().clone() for value in model.parameters()]


def excluded(name: str) -> bool:
    return name.endswith("bias") or name.startswith("1.")  # layer 1 is the batch norm


def oracle(momentum: float, nesterov: bool, rates: list[float], scale) -> list[torch.Tensor]:
    """v ← m·v + lr·ratio·g, entry by entry; ``scale(w, g, rate, free)`` gives lr·ratio·g."""
    model = network()
    values = {name: value.detach().clone().flatten().tolist() for name, value in model.named_parameters()}
    velocity = {name: [0.0] * len(entries) for name, entries in values.items()}
    for step, rate in enumerate(rates):
        given = gradients(model, step)
        for name, entries in values.items():
            moves = scale(entries, given[name].flatten().tolist(), rate, excluded(name))
            for place, move in enumerate(moves):
                velocity[name][place] = momentum * velocity[name][place] + move
                entries[place] -= momentum * velocity[name][place] + move if nesterov else velocity[name][place]
    return [
        torch.tensor(values[name], dtype=torch.float64).view(value.shape) for name, value in model.named_parameters()
    ]


def size(entries: list[float]) -> float:
    return sum(entry * entry for entry in entries) ** 0.5


def lars_move(weights, slopes, rate, free):
    if free:
        return [rate * slope for slope in slopes]
    slopes = [slope + DECAY * weight for slope, weight in zip(slopes, weights, strict=True)]
    return [rate * TRUST * size(weights) / size(slopes) * slope for slope in slopes]


RATES = [1.0, 0.9, 0.5, 0.2, 0.1]


def test_settings_name_every_optimizer():
    assert get_args(OptimizerSettings.model_fields["name"].annotation) == tuple(OPTIMIZERS)
    assert get_args(EncoderSettings.model_fields["normalization"].annotation) == tuple(NORMALIZATIONS)
    assert get_args(EncoderSettings.model_fields["stem"].annotation) == ("auto", *STEMS)


@pytest.mark.parametrize("nesterov", [False, True])
def test_lars_is_its_formula(nesterov):
    model = network()
    with torch.no_grad():
        model[1].bias.add_(1)  # the batch norm's shift starts at zero, where adaptation would not apply
    groups = parameter_groups(model, learning_rate=RATE, weight_decay=DECAY)
    optimizer = build_optimizer("lars", groups, trust=TRUST, nesterov=nesterov)
    expected = oracle(0.9, nesterov, [RATE * rate for rate in RATES], lars_move)
    expected[3] += 1
    for got, want in zip(run(model, optimizer, rates=RATES), expected, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("clip", [False, True])
def test_larc_is_its_formula(clip):
    def move(weights, slopes, rate, free):
        if size(weights) > 0:
            adaptive = TRUST * size(weights) / (size(slopes) + DECAY * size(weights) + 1e-8)
            adaptive = min(adaptive / RATE, 1) if clip else adaptive
            slopes = [adaptive * (s + DECAY * w) for s, w in zip(slopes, weights, strict=True)]
        return [rate * slope for slope in slopes]

    model = network()
    groups = parameter_groups(model, learning_rate=RATE, weight_decay=DECAY, exclude=())
    optimizer = build_optimizer("larc", groups, trust=TRUST, clip=clip)
    expected = oracle(0.9, False, [RATE] * STEPS, move)  # torch keeps the rate outside: the same while it is constant
    for got, want in zip(run(model, optimizer), expected, strict=True):
        torch.testing.assert_close(got, want)
    assert optimizer.param_groups[0]["weight_decay"] == DECAY


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("kind", [LARS, LARC])
def test_without_adaptation_both_are_torchs_sgd(kind, nesterov):
    ours, theirs = network(), network()
    mine = kind(ours.parameters(), lr=RATE, weight_decay=DECAY, adapted=False, nesterov=nesterov)
    reference = torch.optim.SGD(theirs.parameters(), lr=RATE, momentum=0.9, weight_decay=DECAY, nesterov=nesterov)
    for got, want in zip(run(ours, mine), run(theirs, reference), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("sgd", torch.optim.SGD, {"momentum": 0.9}),
        ("adam", torch.optim.Adam, {"betas": (0.9, 0.98), "eps": 1e-6}),
        ("adamw", torch.optim.AdamW, {"betas": (0.9, 0.98), "eps": 1e-6}),
    ],
)
def test_torchs_optimizers_are_torchs(name, kind, options):
    ours, theirs = network(), network()
    mine = build_optimizer(name, parameter_groups(ours, learning_rate=RATE, weight_decay=DECAY, exclude=()), **options)
    reference = kind(theirs.parameters(), lr=RATE, weight_decay=DECAY, **options)
    for got, want in zip(run(ours, mine), run(theirs, reference), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_restored_optimizer_goes_on_exactly(name, tmp_path):
    def build(model):
        apart = {"3": Apart(0.1, is_scheduled=False)}
        return build_optimizer(name, parameter_groups(model, learning_rate=RATE, weight_decay=DECAY, apart=apart))

    whole = network()
    expected = run(whole, build(whole), rates=RATES)
    first = network()
    optimizer = build(first)
    run(first, optimizer, range(2), rates=RATES)
    torch.save({"model": first.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    second = network()
    second.load_state_dict(saved["model"])
    resumed = build(second)
    resumed.load_state_dict(saved["optimizer"])
    for got, want in zip(run(second, resumed, range(2, STEPS), rates=RATES), expected, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_without_gradient_stay_put(name):
    """Frozen prototypes: neither momentum nor weight decay may move them while their gradients are None."""
    model = network()
    optimizer = build_optimizer(name, parameter_groups(model, learning_rate=RATE, weight_decay=DECAY, exclude=()))
    run(model, optimizer, range(2))  # momentum is under way
    before = model[3].weight.detach().clone()
    others = model[0].weight.detach().clone()
    for step in range(2, 4):
        given = gradients(model, step)
        for label, value in model.named_parameters():
            value.grad = None if label.startswith("3.") else given[label]
        optimizer.step()
    assert torch.equal(model[3].weight, before)
    assert not torch.equal(model[0].weight, others)


def test_a_zero_parameter_can_leave_zero():
    for kind in (LARS, LARC):
        value = nn.Parameter(torch.zeros(3))
        value.grad = torch.ones(3)
        kind([value], lr=0.5, weight_decay=0.1).step()
        torch.testing.assert_close(value.data, torch.full((3,), -0.5))
        still = nn.Parameter(torch.ones(3))
        still.grad = torch.zeros(3)
        kind([still], lr=0.5).step()
        torch.testing.assert_close(still.data, torch.ones(3))


def test_a_closure_gives_its_loss_back():
    for kind in (LARS, LARC):
        value = nn.Parameter(torch.ones(3))

        def closure(value=value):
            value.grad = None
            loss = value.square().sum()
            loss.backward()
            return loss.item()

        assert kind([value], lr=0.5).step(closure) == 3.0
        assert bool((value < 1).all())


def test_lars_moves_every_layer_by_its_trust():
    """Whatever the gradient's scale, the first step is lr·η‖w‖ long."""
    for scale in (1e-6, 1.0, 1e6):
        value = nn.Parameter(torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
        before = value.detach().clone()
        value.grad = scale * torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        LARS([value], lr=2.0, trust=0.01).step()
        torch.testing.assert_close((value - before).norm(), 0.02 * before.norm())


def test_rates_follow_the_schedule_unless_they_are_constant():
    model = network()
    groups = parameter_groups(model, learning_rate=RATE, apart={"3": Apart(0.1, is_scheduled=False)})
    optimizer = build_optimizer("sgd", groups)
    schedule = build_schedule("cosine", total=10)
    set_learning_rate(optimizer, schedule(5))
    rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert rates["main"] == pytest.approx(RATE / 2)
    assert rates["3"] == 0.1
    set_learning_rate(optimizer, schedule(0))
    assert optimizer.param_groups[0]["lr"] == RATE


def test_copies_are_independent():
    model = network()
    optimizer = build_optimizer("larc", parameter_groups(model, learning_rate=RATE))
    state = copy.deepcopy(optimizer.state_dict())
    run(model, optimizer, range(1))
    assert optimizer.state_dict()["state"] != state["state"]


def test_wrong_settings_are_refused():
    groups = parameter_groups(network(), learning_rate=RATE)
    with pytest.raises(SettingError, match=r"is no optimizer; did you mean adamw\? It must be one of sgd, "):
        build_optimizer("adamW", groups)
    with pytest.raises(SettingError, match="at least one parameter group"):
        build_optimizer("sgd", [])
    with pytest.raises(SettingError, match="trust must be at least 0"):
        build_optimizer("lars", groups, trust=-1)
    with pytest.raises(SettingError, match="momentum must be at least 0 and finite; got nan"):
        build_optimizer("larc", groups, momentum=float("nan"))
