"""A run whose length nobody gave: minutes, not hours, by the speed of a few steps, and said beforehand."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from eigenview.training import trial
from eigenview.training.start import prepare

SMALL = {"encoder": {"name": "small", "width": 0.25}, "workers": 0, "precision": "32"}
SOURCE = "shapes?count=96&size=24"


@pytest.fixture
def speed(monkeypatch):
    """How long a batch takes, as measured."""
    given = {"seconds": 1.0}
    monkeypatch.setattr(trial, "seconds_a_batch", lambda *_, **__: given["seconds"])
    return given


def last_choice(**given):
    prepared = prepare({"source": SOURCE, **SMALL, **given})
    return prepared.config, prepared.choices[-1]


def test_a_short_run_keeps_its_epochs_and_says_how_long_they_take(speed, tmp_path):
    speed["seconds"] = 0.1
    config, choice = last_choice(out=tmp_path / "run")
    assert (config.epochs, config.minutes) == (250, None)  # 3,000 steps of 8 images
    assert str(choice) == "epochs = 250: 3,000 steps: a first result, about 5 minutes here"


def test_a_long_run_becomes_ten_minutes(speed, tmp_path):
    config, choice = last_choice(out=tmp_path / "run")
    assert (config.epochs, config.steps, config.minutes) == (None, None, 10)
    assert choice.name == "minutes"
    assert choice.reason == "250 epochs would take about 50 minutes here; --epochs, --steps or --minutes say otherwise"
    _, choice = last_choice(out=tmp_path / "run", accumulate=4, batch_size=32)  # 400 epochs of three batches
    assert "400 epochs would take about 20 minutes here" in choice.reason


@pytest.mark.parametrize("length", [{"epochs": 4000}, {"steps": 10**6}, {"minutes": 900}])
def test_a_length_that_was_given_is_kept_and_nothing_measured(length, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "seconds_a_batch", None)
    config, _ = last_choice(out=tmp_path / "run", precision="32", compile=False, **length)
    assert config.model_dump(include={*length}) == length


def test_steps_of_the_rate_need_epochs(speed, tmp_path):
    config, _ = last_choice(out=tmp_path / "run", optimizer={"schedule": "step", "milestones": [9]})
    assert config.epochs == 250


def test_several_processes_are_given_minutes_since_each_would_measure_something_else(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setattr(trial, "seconds_a_batch", None)
    config, _ = last_choice(out=tmp_path / "run")
    assert config.minutes == 10


def test_a_module_of_ones_own_is_measured_and_left_as_it_is(tmp_path):
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    prepared = prepare({"source": SOURCE, "out": tmp_path / "run", "workers": 0}, encoder=module)
    assert "encoder.name" not in [choice.name for choice in prepared.choices]
    assert re.search(r"about \d+ (seconds|minutes)", prepared.choices[-1].reason)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


TILES = "shapes?count=960&size=64"


def fitted(out, **given):
    prepared = prepare({"source": TILES, "workers": 0, "out": out, "precision": "32", "compile": False, **given})
    return prepared.config.views, [str(choice) for choice in prepared.choices if choice.name == "views.size"]


def test_views_are_made_smaller_where_the_time_would_do_for_few_epochs(speed, tmp_path):
    speed["seconds"] = 4.0 / (1 - 0.7 * (1 - 0.75**2))  # 64 images, all of one size; 960 take a minute
    views, reasons = fitted(tmp_path / "run", minutes=3)
    assert (views.size, views.early_size) == (48, 36)  # 64 · √(3/5) = 49.6
    assert reasons == ["views.size = 48: at 64 pixels the time would do for 3.0 epochs"]
    views, _ = fitted(tmp_path / "run", minutes=0.2)
    assert (views.size, views.early_size) == (32, 24)  # not below


@pytest.mark.parametrize(
    "given",
    [
        {"minutes": 5},
        {"minutes": 60, "source": "shapes?count=960&size=50"},  # no multiple of eight
        {"minutes": 1, "views": {"size": 64}},
        {"minutes": 1, "views": {"early_size": 60}},
        {"minutes": 1, "views": {"preset": "simclr-imagenet", "size": 64}},
        {"minutes": 1, "encoder": {"name": "small"}},
        {"steps": 3},
    ],
)
def test_views_stay_where_time_is_enough_or_somebody_chose(given, speed, tmp_path):
    speed["seconds"] = 5.7
    views, reasons = fitted(tmp_path / "run", **given)
    assert (views.size in (None, 64), reasons) == (True, [])


def test_views_that_cannot_be_smaller_are_not_timed(monkeypatch, tmp_path):
    monkeypatch.setattr(trial, "seconds_a_batch", None)
    views, reasons = fitted(tmp_path / "run", source="shapes?count=960&size=32", minutes=1)
    assert (views.size, reasons) == (None, [])
