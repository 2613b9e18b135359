"""Checkpoints survive a kill at any point of a save, and a second one while the first is mended."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from eigenview.runs import Checkpoint
from eigenview.runs.checkpoints import Checkpoints
from tests.processes import exit_codes_of
from tests.runs.kills import was_stopped

SAVES = [["best", "epoch-00001"], ["epoch-00002"], ["best", "epoch-00003"]]  # under which names each is kept too
CALLS = 200  # more than a save makes


def save(folder: Path, number: int) -> None:
    """The save with this number, from 1 on; what it holds is its number."""
    checkpoint = Checkpoint({"w": torch.full((3,), float(number))}, {"step": number})
    Checkpoints(folder).save(checkpoint, also=SAVES[number - 1])


def contents(folder: Path) -> dict[str, tuple[float, int]]:
    """What every checkpoint holds; each must be whole and hold one and the same in both of its files."""
    checkpoints = Checkpoints(folder)
    loaded = {name: checkpoints.load(name) for name in checkpoints.names()}
    for name, checkpoint in loaded.items():  # readers see what a resume sees
        assert torch.equal(checkpoints.weights(name)["w"], checkpoint.weights["w"])
    return {name: (checkpoint.weights["w"][0].item(), checkpoint.state["step"]) for name, checkpoint in loaded.items()}


def make_stopped(rank: int, base: str, made: str, number: int) -> None:
    """For every call of a save, ``made/CALL``: what is left of ``base`` when the process ends before it."""
    for call in range(1, CALLS):
        folder = Path(shutil.copytree(base, Path(made) / f"{call:03d}"))
        if not was_stopped(partial(save, folder, number), call):
            return


def finish(folder: Path, last: int) -> dict[str, tuple[float, int]]:
    """What a resumed run makes of it: from ``last`` on, the same saves again."""
    for number in range(last + 1, len(SAVES) + 1):
        save(folder, number)
        assert {path.name for path in folder.iterdir()} == set(Checkpoints(folder).names()), "something was left over"
    return contents(folder)


@pytest.fixture
def place():
    """In memory where that can be had: thousands of calls wait for the disk."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() and os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def whole(place):
    """By number of saves, a folder in which they were made without a kill."""
    folders = [place / "whole" / str(count) for count in range(len(SAVES) + 1)]
    for count, folder in enumerate(folders):
        folder.mkdir(parents=True)
        for number in range(1, count + 1):
            save(folder, number)
    return folders


@pytest.fixture
def made(place):
    folder = place / "made"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "number", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3]
)
def test_a_kill_before_any_call_of_a_save_loses_nothing(number, whole, made):
    assert exit_codes_of(1, make_stopped, str(whole[number - 1]), str(made), number) == [0]
    before, after, end = contents(whole[number - 1]), contents(whole[number]), contents(whole[-1])
    stopped = sorted(made.iterdir())
    assert len(stopped) > 20
    for folder in stopped:
        left = contents(folder)
        last = left.get("last", (0, 0))[1]
        assert last in (number - 1, number)
        for name in before:  # nothing that was there is gone, and nothing is older than it was
            assert left[name] in (before[name], after[name], before.get("last"))
        if last == number:  # once last has moved on, everything that belongs to it is there
            assert left == after
        assert finish(folder, last) == end


def make_stopped_twice(rank: int, base: str, made: str, stride: int) -> None:
    """``made/FIRST-SECOND``: killed in the second save, and again in the save that a resume makes."""
    for first in range(1, CALLS, stride):
        once = Path(shutil.copytree(base, Path(made) / "once"))
        if not was_stopped(partial(save, once, 2), first):
            shutil.rmtree(once)
            return
        number = Checkpoints(once).load("last").state["step"] + 1
        for second in range(1 + first % stride, CALLS, stride):
            folder = Path(shutil.copytree(once, Path(made) / f"{first:03d}-{second:03d}"))
            if not was_stopped(partial(save, folder, number), second):
                break
        shutil.rmtree(once)


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_second_kill_while_the_first_is_mended_loses_nothing(stride, whole, made):
    assert exit_codes_of(1, make_stopped_twice, str(whole[1]), str(made), stride, timeout=1200) == [0]
    end = contents(whole[-1])
    folders = sorted(made.iterdir())
    assert len(folders) > 1000 / stride**2
    for folder in folders:
        last = contents(folder)["last"][1]
        assert last >= 1
        assert finish(folder, last) == end
