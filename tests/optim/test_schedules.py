"""Schedules: pure functions of the step."""

from __future__ import annotations

import math

import pytest
import torch

from eigenview.errors import SettingError
from eigenview.optim import build_schedule, scaled_learning_rate


def test_cosine_is_torchs_cosine_per_step():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.05)
    ours = build_schedule("cosine", total=20, final=0.05)
    for step in range(21):
        assert ours(step) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()


def test_warm_up_then_cosine():
    schedule = build_schedule("cosine", total=14, warmup=4, start=0.2, final=0.1)
    assert [schedule(step) for step in range(4)] == pytest.approx([0.4, 0.6, 0.8, 1.0])
    for step in range(4, 14):
        expected = 0.1 + 0.9 * (1 + math.cos(math.pi * (step - 4) / 10)) / 2
        assert schedule(step) == pytest.approx(expected)
    assert schedule(14) == schedule(99) == pytest.approx(0.1)


def test_steps_decay_at_milestones():
    schedule = build_schedule("step", total=10, milestones=[7, 3], factor=0.2, warmup=2)
    expected = [0.5, 1, 1, 0.2, 0.2, 0.2, 0.2, 0.04, 0.04, 0.04]
    assert [schedule(step) for step in range(10)] == pytest.approx(expected)


def test_constant_after_warm_up():
    assert [build_schedule("constant", total=5, warmup=2)(step) for step in range(5)] == [0.5, 1, 1, 1, 1]
    assert build_schedule("constant", total=1)(0) == 1


@pytest.mark.parametrize("name", ["cosine", "step", "constant"])
def test_no_step_is_without_effect(name):
    schedule = build_schedule(name, total=50, warmup=7)
    assert all(schedule(step) > 0 for step in range(50))
    assert schedule(7) == 1


def test_a_run_that_is_all_warm_up_ends_at_full_rate():
    assert build_schedule("cosine", total=3, warmup=3)(2) == 1


def test_scaling_by_global_batch():
    assert scaled_learning_rate(0.3, batch=4096) == pytest.approx(4.8)
    assert scaled_learning_rate(0.075, batch=4096, rule="sqrt") == pytest.approx(4.8)
    assert scaled_learning_rate(0.3, batch=64, rule="none") == 0.3


def test_wrong_schedules_are_refused():
    with pytest.raises(SettingError, match="schedule must be cosine, step or constant; got 'linear'"):
        build_schedule("linear", total=5)
    with pytest.raises(SettingError, match="a warm-up within it; got total 5, 6"):
        build_schedule("cosine", total=5, warmup=6)
    with pytest.raises(SettingError, match="milestones belong to the step schedule"):
        build_schedule("cosine", total=5, milestones=[3])
    with pytest.raises(SettingError, match="final must be at least 0"):
        build_schedule("cosine", total=5, final=-0.1)
    with pytest.raises(SettingError, match="scaling must be linear, sqrt or none"):
        scaled_learning_rate(0.1, batch=4, rule="cubic")
    with pytest.raises(SettingError, match="at least 1 item; got 0"):
        scaled_learning_rate(0.1, batch=0)
