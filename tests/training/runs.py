"""Small training runs for tests, in this process or in others."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from eigenview.runs import RunDirectory, is_run, read_config
from eigenview.training import Listener, train

SMALL: dict[str, dict[str, Any]] = {
    "swav": {"prototypes": 12, "queue": 64, "queue_from_epoch": 0, "frozen_steps": 1, "head_hidden": 32},
    "deepcluster-v2": {"prototypes": [8, 9], "head_hidden": 32},
    "sela-v2": {"prototypes": [8, 9], "head_hidden": 32},
    "moco": {"queue": 96, "batch_norm": "synchronised"},
    "simsiam": {"head_hidden": 32, "head_output": 32, "predictor_hidden": 16},
    "spectral": {"head_hidden": 32, "head_output": 32},
    "laplacian-eigenmaps": {"head_hidden": 32, "head_output": 8},
    "random-walk": {"head_hidden": 32, "head_output": 32},
    "clip": {"head_output": 16, "text": {"width": 16, "depth": 1}},
    "siglip": {"head_output": 16, "text": {"width": 16, "depth": 1}},
}


def settings(method: str, out: Path, **changes: Any) -> dict[str, Any]:
    return {
        "source": "shapes?count=96&size=24&captioned=yes",
        "out": str(out),
        "method": method,
        "method_settings": SMALL.get(method, {}),
        "encoder": {"name": "small", "width": 0.25},
        "optimizer": {"name": "sgd", "learning_rate": 1e-3, "weight_decay": 1e-4},
        "batch_size": 32,
        "steps": 3,
        "log_every": 1,
        "workers": 0,
        **changes,
    }


def run_quietly(
    given: dict[str, Any], *, resume: bool = False, looks_back: bool = False, listeners: Sequence[Listener] = ()
) -> RunDirectory:
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Fabric, about this machine
        return train(read_config(given), resume=resume, looks_back=looks_back, listeners=listeners)


def run_on(given: dict[str, Any], *, listeners: Sequence[Listener] = ()) -> RunDirectory:
    """Begin the run, or go on with what a killed process left of it."""
    return run_quietly(given, resume=is_run(given["out"]), listeners=listeners)


def weights(folder: Path, name: str = "last") -> dict[str, torch.Tensor]:
    return RunDirectory(folder).checkpoints.weights(name)


def assert_equal_runs(whole: Path, resumed: Path, *, steps: int) -> None:
    """The same weights in every checkpoint and the same losses, bit for bit."""
    assert RunDirectory(whole).checkpoints.names() == RunDirectory(resumed).checkpoints.names()
    for name in RunDirectory(whole).checkpoints.names():
        expected, reached = weights(whole, name), weights(resumed, name)
        assert expected.keys() == reached.keys()
        assert [key for key in expected if not torch.equal(expected[key], reached[key])] == []
    losses = [RunDirectory(folder).metrics.series("loss") for folder in (whole, resumed)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == steps


def as_one_of(rank: int, world: int) -> None:
    """What torchrun puts into the environment."""
    values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    os.environ.update({name: str(value) for name, value in values.items()}, TORCHELASTIC_RUN_ID="test")
