"""Runs in micro-batches: the same weights as without, on any number of processes, and bit for bit after a kill."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch

from eigenview.errors import SettingError
from eigenview.runs import RunDirectory
from eigenview.training.start import prepare
from tests.processes import exit_codes_of, run_processes
from tests.training.runs import as_one_of, assert_equal_runs, run_quietly, settings, weights
from tests.training.test_resume import EPOCHS, train_until_killed

GROUP = {"name": "small", "width": 0.25, "normalization": "group"}
MICRO = {"micro_batch": 7, "encoder": GROUP}
ALLOWED = {"micro_batch": 16, "micro_batch_norm": "per-micro-batch"}
CASES = {
    "simclr": {},
    "moco": {"method_settings": {"queue": 96, "splits": 4}},
    "accumulate": {"accumulate": 2, "batch_size": 16},
    "contiguous": {"channels_last": False},
}


def given_for(case, out, **changes):
    return settings("moco" if case == "moco" else "simclr", out, **{**CASES[case], **changes})


def train_all(rank: int, group, folder: str) -> None:
    as_one_of(rank, 2)
    for case in CASES:
        run_quietly(given_for(case, f"{folder}/two/{case}", **MICRO))
    run_quietly(settings("simsiam", f"{folder}/two/uneven", batch_size=17, **ALLOWED))  # 9 images here, 8 there


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("micro")
    run_processes(2, train_all, str(folder), timeout=400)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_micro_batches_lead_to_the_same_weights_on_one_process_and_two(case, trained):
    run_quietly(given_for(case, trained / "plain" / case, encoder=GROUP))
    run_quietly(given_for(case, trained / "one" / case, **MICRO))
    plain, alone, two = (weights(trained / kind / case) for kind in ("plain", "one", "two"))
    assert plain.keys() == alone.keys() == two.keys()
    for name in plain:
        torch.testing.assert_close(alone[name], plain[name], rtol=0, atol=1e-5, msg=name)
        torch.testing.assert_close(two[name], plain[name], rtol=0, atol=1e-5, msg=name)


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    given = {**settings("simclr", tmp_path / "whole", **ALLOWED), **EPOCHS}
    run_quietly(given)
    broken = {**given, "out": str(tmp_path / "broken")}
    assert exit_codes_of(1, train_until_killed, 1, broken, 5) == [-signal.SIGKILL]
    run_quietly(broken, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken", steps=9)


def test_batch_norm_is_refused_by_name_of_the_setting_before_anything_is_measured(tmp_path):
    refusal = r"this encoder has batch norms.*have it so by micro_batch_norm=per-micro-batch"
    with pytest.raises(SettingError, match=refusal):
        run_quietly(settings("simclr", tmp_path / "run", micro_batch=8))
    given = {"source": "shapes?count=96&size=24", "out": str(tmp_path / "other"), "micro_batch": 8, "workers": 0}
    with pytest.raises(SettingError, match=refusal):
        prepare(given)


@pytest.mark.parametrize("processes", [1, 2])
def test_running_averages_move_once_a_step(processes, trained):
    """On two processes with other numbers of micro-batches each: nobody waits for the other's statistics."""
    folder = trained / ("one" if processes == 1 else "two") / "uneven"
    if processes == 1:
        run_quietly(settings("simsiam", folder, batch_size=17, **ALLOWED))
    counts = [value for name, value in weights(folder).items() if name.endswith("num_batches_tracked")]
    assert counts
    assert {int(count) for count in counts} == {3}


@pytest.mark.usefixtures("half_precision")
def test_half_precision_keeps_to_the_full_one(tmp_path):
    full = run_quietly(settings("simclr", tmp_path / "32", encoder=GROUP))
    half = run_quietly(settings("simclr", tmp_path / "16", precision="16", **MICRO))
    for name in ("loss", "gradient_norm"):
        values = [[value for _, value in run.metrics.series(name)] for run in (full, half)]
        assert values[0] != values[1]
        np.testing.assert_allclose(*values, rtol=0.1)
    assert half.metrics.looks[-1]["skipped_steps"] == 0


@pytest.mark.slow
def test_a_compiled_encoder_gives_the_same_weights(tmp_path):
    plain = run_quietly(settings("simclr", tmp_path / "plain", encoder=GROUP))
    compiled = run_quietly(settings("simclr", tmp_path / "compiled", compile=True, **MICRO))
    assert RunDirectory(compiled.folder).config.compile is True
    expected, reached = weights(plain.folder), weights(compiled.folder)
    for name in expected:
        torch.testing.assert_close(reached[name], expected[name], rtol=0, atol=1e-5, msg=name)
