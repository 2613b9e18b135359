"""Precision "16": gradients in their true size, overflows left out and said, the scale in the checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenview.runs import RunDirectory
from eigenview.training import Listener, TrainingDiverged
from tests.training.runs import run_quietly, settings

pytestmark = pytest.mark.usefixtures("half_precision")


class Told(Listener):
    def __init__(self):
        self.messages = []

    def told(self, message):
        self.messages.append(message)


class Impatient(Listener):
    def stepped(self, step, seconds):
        if step == 4:
            raise KeyboardInterrupt


def half(out, **changes):
    return settings("simclr", out, precision="16", **changes)


def test_gradients_are_measured_in_their_true_size(tmp_path):
    runs = [run_quietly(settings("simclr", tmp_path / name, precision=name)) for name in ("32", "16")]
    norms = [[norm for _, norm in run.metrics.series("gradient_norm")] for run in runs]
    losses = [[loss for _, loss in run.metrics.series("loss")] for run in runs]
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=0.02)
    np.testing.assert_allclose(*norms, rtol=0.1)
    assert runs[1].metrics.alarms == []


def test_an_overflow_on_a_logged_step_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenview.training.processes.INITIAL_SCALE", 2.0**28)
    told = Told()
    run = run_quietly(half(tmp_path, steps=16), listeners=[told])
    lines = run.metrics.looks
    skipped = lines[-1]["skipped_steps"]
    assert 2 <= skipped < 16
    assert [line["gradient_norm"] is None for line in lines].count(True) == skipped == len(told.messages)
    assert told.messages[0] == (
        "step 1: the gradient overflowed in half precision; the step was left out and the scale lowered to 1.34218e+08"
    )
    assert run.metrics.alarms == []
    assert not run.metrics.has_diverged
    assert all(tensor.isfinite().all() for tensor in run.checkpoints.weights("last").values())


def test_a_gradient_that_no_scale_mends_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenview.training.loop.gradient_norm", lambda module: torch.tensor(float("nan")))
    monkeypatch.setattr("eigenview.training.processes.INITIAL_SCALE", 2.0**-11)
    with pytest.raises(
        TrainingDiverged, match=r"step 0: the loss \(3\.\d+\) or its gradient \(norm nan\) is not finite"
    ):
        run_quietly(half(tmp_path))
    assert RunDirectory(tmp_path).metrics.has_diverged


def test_the_scale_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenview.training.processes.INITIAL_SCALE", 2.0**28)
    whole = run_quietly(half(tmp_path / "whole", steps=None, epochs=4))
    given = half(tmp_path / "broken", steps=None, epochs=4)
    with pytest.raises(KeyboardInterrupt):
        run_quietly(given, listeners=[Impatient()])
    broken = run_quietly(given, resume=True)
    assert broken.metrics.series("skipped_steps") == whole.metrics.series("skipped_steps")
    states = [run.checkpoints.load("last").state["scaling"] for run in (whole, broken)]
    assert states[0] == states[1]
    assert states[0]["scale"] < 2.0**28
    expected, reached = (run.checkpoints.weights("last") for run in (whole, broken))
    assert [name for name in expected if not torch.equal(expected[name], reached[name])] == []


@pytest.mark.accelerator
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_accelerators_generator_goes_on_where_it_was(tmp_path):
    run = run_quietly(half(tmp_path, device="cuda"))
    kept = run.checkpoints.load("last").state["device_generator"]
    torch.cuda.manual_seed(99)
    run_quietly(half(tmp_path, device="cuda"), resume=True)
    assert torch.equal(torch.cuda.get_rng_state(), kept)
