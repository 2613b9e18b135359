"""A run that ends in the middle of saving its checkpoints goes on to the same ones, under every name."""

from __future__ import annotations

import shutil

import pytest

from eigenview.runs import RunDirectory, open_run
from eigenview.runs.checkpoints import Checkpoints
from tests.processes import exit_codes_of
from tests.runs.kills import STOPPED, stop_before
from tests.training.runs import assert_equal_runs, run_on, run_quietly, settings

CALLS = (
    66  # that change something in the save after the third epoch, the fourth of all: best, a kept epoch, previous, last
)


class StoppedInASave(Checkpoints):
    """Checkpoints whose fourth save ends the process before its n-th change to the disk."""

    call, saves = 0, 0

    def save(self, checkpoint, *, also=()):
        type(self).saves += 1
        if self.saves == 4:
            stop_before(self.call)
        super().save(checkpoint, also=also)


def train_stopped(rank: int, given: dict, call: int) -> None:
    StoppedInASave.call = call
    from eigenview.runs import directory

    directory.Checkpoints = StoppedInASave
    run_on(given)


@pytest.mark.parametrize("call", range(1, CALLS + 1, 13))
def test_a_run_stopped_within_a_save_goes_on_to_the_same_checkpoints(call, made_whole, tmp_path):
    given = options(tmp_path / "broken")
    assert exit_codes_of(1, train_stopped, given, call) == [STOPPED]
    broken = RunDirectory(tmp_path / "broken")
    step = broken.checkpoints.load("last").state["progress"]["step"]
    opened = open_run(broken)  # a reader sees what a resume sees
    assert opened.tensors.keys() == broken.checkpoints.load("last").weights.keys()
    assert step in (6, 9)
    run_on(given)
    assert_equal_runs(made_whole, broken.folder, steps=12)
    assert {path.name for path in (broken.folder / "checkpoints").iterdir()} == set(broken.checkpoints.names())
    shutil.rmtree(broken.folder)


def options(out):
    return {**settings("simclr", out), "steps": None, "epochs": 4, "keep_every": 1}


@pytest.fixture(scope="module")
def made_whole(tmp_path_factory):
    return run_quietly(options(tmp_path_factory.mktemp("whole"))).folder
