"""The watchdog speaks when it should, once, and not otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eigenview.training.watchdog import Look, Watchdog

HEALTHY = Look(step=10, loss=4.0, chance=6.2, rank=40.0, gradient=0.3, prototypes_used=0.8)


def kinds(looks):
    watchdog = Watchdog()
    return [kind for look in looks for kind in watchdog(look)]


def test_a_healthy_run_is_left_alone():
    assert kinds([replace(HEALTHY, step=step) for step in range(100)]) == []


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("at-chance", {"loss": 6.2004}),
        ("collapse", {"rank": 1.02}),
        ("empty-prototypes", {"prototypes_used": 0.01}),
        ("vanishing", {"gradient": 1e-9}),
        ("exploding", {"gradient": 1e5}),
    ],
)
def test_each_trouble_is_said_once_after_some_patience(kind, change):
    troubled = replace(HEALTHY, **change)
    assert kinds([troubled] * 4) == []
    assert kinds([troubled] * 20) == [kind]
    assert kinds([troubled] * 6 + [HEALTHY] + [troubled] * 6) == [kind, kind]


def test_a_step_that_was_left_out_says_nothing_of_the_gradient():
    assert kinds([replace(HEALTHY, gradient=None)] * 9) == []


def test_a_method_whose_minimum_is_collapse_is_judged_by_rank():
    assert kinds([replace(HEALTHY, loss=-1.0, chance=None)] * 9) == []
    assert kinds([replace(HEALTHY, loss=-1.0, chance=None, rank=1.0)] * 9) == ["collapse"]
