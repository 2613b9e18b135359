"""Several processes: they agree before the first step, wait for nobody for ever, and say in a line who was lost."""

from __future__ import annotations

import atexit
import os
import signal
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist

from eigenview.cli.entry import main
from eigenview.errors import EigenviewError
from eigenview.runs import RunDirectory
from eigenview.training import Listener, processes
from tests.processes import exit_codes_of
from tests.training.runs import as_one_of, run_on, run_quietly, settings

TRAIN = ["train", "images.npz", "--encoder", "small", "--batch-size", "16", "--workers", "0", "--no-look"]


def write_images(file: Path, count: int, *, seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    file.parent.mkdir(parents=True, exist_ok=True)
    labels = random.integers(0, 3, count)
    np.savez(file, images=random.integers(0, 256, (count, 16, 16, 3), dtype=np.uint8), labels=labels)


def speaking_into(file: Path) -> None:
    for descriptor in (1, 2):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)


def command(rank: int, folder: str, arguments: list[list[str]], wait: float) -> None:
    """The command of one process, in a folder of its own, as torchrun would start it."""
    speaking_into(Path(folder) / f"said-{rank}")
    os.chdir(Path(folder) / str(rank))
    as_one_of(rank, len(arguments))
    processes.LONGEST_WAIT = timedelta(seconds=wait)
    os._exit(main(arguments[rank]))


def said(folder: Path, rank: int) -> list[str]:
    """The errors of a process: one line, and nothing of any library."""
    text = (folder / f"said-{rank}").read_text()
    assert "Traceback" not in text, text
    assert "gloo" not in text, text
    return [line for line in text.splitlines() if line.startswith("eigenview: ")]


@pytest.mark.parametrize(
    ("count", "seed", "more", "message"),
    [
        (96, 0, [], "process 1 sees 96 images at images.npz, process 0 160: every process needs the same data"),
        (
            160,
            1,
            [],
            "process 1 sees other images or labels at images.npz than process 0: every process needs the same",
        ),
        (160, 0, ["--seed", "1"], "process 1 was started with other settings than process 0: give all the same"),
    ],
)
def test_processes_that_do_not_agree_refuse_together(count, seed, more, message, tmp_path):
    write_images(tmp_path / "0" / "images.npz", 160)
    write_images(tmp_path / "1" / "images.npz", count, seed=seed)
    arguments = [*TRAIN, "--epochs", "1", "--out", str(tmp_path / "run")]
    assert exit_codes_of(2, command, str(tmp_path), [arguments, [*arguments, *more]], 60.0) == [2, 2]
    for rank in range(2):
        (line,) = said(tmp_path, rank)
        assert message in line
    assert not (tmp_path / "run" / "config.json").exists()


def refused_run(rank: int, folder: str) -> None:
    """Where the second process should write there is a file."""
    as_one_of(rank, 2)
    try:
        run_quietly(settings("simclr", Path(folder) / ("run" if rank == 0 else "file")))
    except EigenviewError as error:
        (Path(folder) / f"said-{rank}").write_text(str(error))
        os._exit(2)


def test_what_one_process_refuses_all_refuse(tmp_path):
    (tmp_path / "file").touch()
    assert exit_codes_of(2, refused_run, str(tmp_path)) == [2, 2]
    assert (tmp_path / "said-0").read_text() == "another process refused what it was given; its message says why"
    assert "cannot write to the run directory" in (tmp_path / "said-1").read_text()


def test_a_process_that_never_comes_is_not_waited_for_for_ever(tmp_path):
    write_images(tmp_path / "0" / "images.npz", 96)
    as_two = [[*TRAIN, "--epochs", "1", "--out", str(tmp_path / "run")], []]
    assert exit_codes_of(1, command, str(tmp_path), as_two, 3.0) == [2]
    (line,) = said(tmp_path, 0)
    assert "not all of 2 processes met within 3 seconds: were all started, and can they reach each other?" in line


class Struck(Listener):
    """A signal to a process of the run after its fifth step."""

    def __init__(self, number: int, sent: signal.Signals) -> None:
        self.number, self.sent = number, sent

    def stepped(self, step: int, seconds: float) -> None:
        if step == 5:
            os.kill(self.number, self.sent)


def struck_run(rank: int, folder: str, lost: int, name: str) -> None:
    """Two processes of which one gets a signal; how the other ends is written down."""
    speaking_into(Path(folder) / f"said-{rank}")
    as_one_of(rank, 2)
    processes.LONGEST_WAIT = timedelta(seconds=10)
    numbers = Path(folder) / "numbers"
    numbers.mkdir(exist_ok=True)
    (numbers / str(rank)).write_text(str(os.getpid()))

    class When(Listener):
        def started(self, plan):
            self.strikes = Struck(int((numbers / str(lost)).read_text()), signal.Signals[name])

        def stepped(self, step, seconds):
            self.strikes.stepped(step, seconds)

    given = {**settings("simclr", Path(folder) / "run"), "steps": None, "epochs": 4}
    try:
        run_on(given, listeners=[When()])
    except processes.ProcessLost as error:
        print(f"eigenview: {error}", flush=True)
        if name == "SIGSTOP":
            os.kill(int((numbers / str(lost)).read_text()), signal.SIGKILL)
        os._exit(2)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_killed_process_is_named_by_the_other_and_the_run_goes_on(lost, tmp_path):
    codes = exit_codes_of(2, struck_run, str(tmp_path), lost, "SIGKILL")
    assert codes[lost] == -signal.SIGKILL
    assert codes[1 - lost] == 2
    (line,) = said(tmp_path, 1 - lost)
    again = "the last checkpoint is kept: start all again, with --resume"
    assert line == f"eigenview: process {lost} of 2 was lost; {again}"
    run = RunDirectory(tmp_path / "run")
    assert run.checkpoints.load("last").state["progress"]["step"] == 3
    run_quietly({**settings("simclr", tmp_path / "run"), "steps": None, "epochs": 2}, resume=True)


def test_a_process_that_stands_still_is_not_waited_for_for_ever(tmp_path):
    assert exit_codes_of(2, struck_run, str(tmp_path), 1, "SIGSTOP") == [2, -signal.SIGKILL]
    (line,) = said(tmp_path, 0)
    assert "one of 2 processes was lost, or did not answer for 10 seconds" in line


def run_to_the_end(rank: int, folder: str) -> None:
    """What the interpreter calls as it ends is called here: processes of tests end without it."""
    as_one_of(rank, 2)
    run_quietly(settings("simclr", Path(folder) / "run"))
    met = dist.is_initialized()
    atexit._run_exitfuncs()
    os._exit(3 if met and not dist.is_initialized() else 1)


def test_a_finished_process_leaves_the_others_before_its_interpreter_ends(tmp_path):
    # gloo's threads, which may hold tensors of a last call, would abort it at times
    assert exit_codes_of(2, run_to_the_end, str(tmp_path)) == [3, 3]
