"""A run that is killed for real and resumed equals the uninterrupted one bit for bit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from eigenview.errors import DataError, SettingError
from eigenview.methods import METHODS
from eigenview.runs import RunDirectory
from eigenview.training import Listener
from eigenview.training.start import prepare
from tests.processes import exit_codes_of
from tests.training.runs import as_one_of, assert_equal_runs, run_on, run_quietly, settings, weights

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told its background jobs to ignore it
sys.path.insert(0, {root!r})
from tests.training.runs import run_on
run_on(json.loads({given!r}))
"""
EPOCHS = {"steps": None, "epochs": 3}  # of three steps


class KilledAt(Listener):
    """SIGKILL to the run's own process after a step, in the middle of an epoch: nothing can be tidied up."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int, seconds: float) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def train_until_killed(rank: int, world: int, given: dict, step: int) -> None:
    if world > 1:
        as_one_of(rank, world)
    run_on(given, listeners=[KilledAt(step)])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_killed_and_resumed_equals_uninterrupted(method, tmp_path):
    given = {**settings(method, tmp_path / "whole"), **EPOCHS}
    if method == "moco":
        given["method_settings"] = {"queue": 96, "splits": 4}  # split batch norm, as on one process by default
    run_quietly(given)
    broken = {**given, "out": str(tmp_path / "broken")}
    for step in (5, 8):  # within the second epoch, and after a resume within the third
        assert exit_codes_of(1, train_until_killed, 1, broken, step) == [-signal.SIGKILL]
    run_quietly(broken, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken", steps=9)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_on_two_processes_killed_and_resumed_equals_uninterrupted(method, tmp_path):
    given = {**settings(method, tmp_path / "whole"), **EPOCHS}
    assert exit_codes_of(2, train_until_killed, 2, given, -1) == [0, 0]
    broken = {**given, "out": str(tmp_path / "broken")}
    first, second = exit_codes_of(2, train_until_killed, 2, broken, 5)
    assert first == -signal.SIGKILL
    assert second != 0  # it cannot go on alone
    assert exit_codes_of(2, train_until_killed, 2, broken, -1) == [0, 0]
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken", steps=9)


def command(given: dict, processes: int, folder: Path) -> list[str]:
    script = folder / f"train-{Path(given['out']).name}.py"
    script.write_text(SCRIPT.format(root=str(ROOT), given=json.dumps(given)))
    if processes == 1:
        return [sys.executable, str(script)]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [sys.executable, *launcher, str(script)]


def start(given: dict, processes: int, folder: Path) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command(given, processes, folder), env=environment, start_new_session=True, **quiet)


def has_logged(process: subprocess.Popen, run: RunDirectory, lines: int) -> bool:
    """Wait until the run logged so many lines; False if it ended before, or after two minutes."""
    deadline = time.monotonic() + 120
    while len(run.metrics.lines) < lines:
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return process.poll() is None


def kill_after(process: subprocess.Popen, run: RunDirectory, lines: int) -> bool:
    """SIGKILL to every process of the run once so many lines were logged; False if it had ended before."""
    was_running = has_logged(process, run, lines)
    family = begun_by(process.pid)
    for pid in (process.pid, *family) if process.poll() is None else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while any(is_alive(pid) for pid in family):  # they hold the run until they are gone
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return was_running


def begun_by(pid: int) -> list[int]:
    """Its children and theirs: torchrun's workers have sessions of their own, and no signal to its group meets them."""
    children: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            children += map(int, file.read_text().split())
    return [each for child in children for each in (child, *begun_by(child))]


def is_alive(pid: int) -> bool:
    """Dead ones that nobody has waited for yet hold nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill_twice(given: dict, processes: int, folder: Path) -> None:
    """Start the run and kill it twice on its way. If it ended unseen, on a busy machine, it begins anew."""
    for _ in range(5):
        shutil.rmtree(given["out"], ignore_errors=True)
        if all(
            kill_after(start(given, processes, folder), RunDirectory(Path(given["out"])), lines) for lines in (5, 14)
        ):
            return  # four lines an epoch: within the second, and within the fourth
    pytest.fail("the run always ended before it could be killed")


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_from_outside_at_any_moment_and_resumed_equals_uninterrupted(processes, tmp_path):
    given = {**settings("moco", tmp_path / "whole"), "steps": None, "epochs": 6}
    assert start(given, processes, tmp_path).wait(timeout=300) == 0
    broken = {**given, "out": str(tmp_path / "broken")}
    kill_twice(broken, processes, tmp_path)
    assert start(broken, processes, tmp_path).wait(timeout=300) == 0
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken", steps=18)


def test_the_same_seed_repeats_bit_for_bit_and_another_does_not(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run_quietly(settings("simclr", tmp_path / name, seed=seed))
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


def test_ctrl_c_saves_and_the_run_goes_on(tmp_path):
    given = {**settings("simclr", tmp_path / "run"), "steps": None, "epochs": 100}
    process = start(given, 1, tmp_path)
    run = RunDirectory(tmp_path / "run")
    is_running = has_logged(process, run, 5)
    os.killpg(process.pid, signal.SIGINT if is_running else signal.SIGKILL)
    assert is_running, "it logged no five lines"
    assert process.wait(timeout=60) != 0
    assert run.checkpoints.load("last").state["progress"]["step"] >= 4  # one of the five lines looks back at an epoch


def test_a_finished_run_can_be_made_longer(tmp_path):
    run_quietly({**settings("simclr", tmp_path), "steps": 3})
    run = run_quietly({**settings("simclr", tmp_path), "steps": 5}, resume=True)
    assert [line["step"] for line in run.metrics.lines if "loss" in line] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 500}, "larger than the source .96 images.: lower batch_size"),
        ({"source": "no/such/folder"}, "no such folder or file"),
        ({"encoder": {"name": "resnet19"}}, "did you mean resnet18"),
        ({"views": {"preset": "simclr-cifr"}}, "did you mean simclr-cifar"),
        ({"method": "swav", "method_settings": {"head": "swaw"}}, "did you mean swav"),
        ({"method": "kernel-infonce", "method_settings": {"kernel": "Gauss(1)"}}, "did you mean Gaussian"),
        ({"out": "/proc/no/run"}, "cannot write to the run directory"),
    ],
)
def test_wrong_settings_are_refused_before_any_work(changes, message, tmp_path):
    with pytest.raises((SettingError, DataError), match=message):
        run_quietly({**settings("simclr", tmp_path / "run"), **changes})
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_an_address_that_only_the_run_names_is_not_fetched(tmp_path):
    out, address = tmp_path / "run", "memory://bucket/photos"
    run_quietly(settings("simclr", out))
    text = (out / "config.json").read_text()
    (out / "config.json").write_text(text.replace("shapes?count=96&size=24", address))
    with pytest.raises(DataError, match="is an address that only a file names; give it yourself"):
        prepare({"out": str(out)}, resume=True)
    with pytest.raises(DataError, match="no images in memory://bucket/photos"):
        prepare({"out": str(out), "source": address}, resume=True)


def test_a_folder_with_another_run_is_refused(tmp_path):
    run_quietly(settings("simclr", tmp_path))
    with pytest.raises(SettingError, match="holds a run with another batch_size: choose another out"):
        run_quietly(settings("simclr", tmp_path, batch_size=16), resume=True)
    with pytest.raises(SettingError, match="holds a run already: go on with it"):
        run_quietly(settings("simclr", tmp_path))


def test_a_loss_that_is_not_finite_stops_the_run_with_its_checkpoint(tmp_path):
    from eigenview.training import TrainingDiverged

    given = settings("spectral", tmp_path, steps=None, epochs=50)
    given["optimizer"] = {"name": "sgd", "learning_rate": 1e20}
    with pytest.raises(TrainingDiverged, match=r"lower optimizer\.learning_rate"):
        run_quietly(given)
    assert "finite" in RunDirectory(tmp_path).metrics.lines[-1]["alarms"][0]
