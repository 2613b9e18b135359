"""Sweeps by real workers: two on one study, one of them killed, its trial tried again and its run gone on with."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import eigenview as ev
from eigenview.runs import RunDirectory
from eigenview.sweeps.results import read_results
from eigenview.training import Listener
from tests.cli.commands import COMMAND, ENVIRONMENT, eigenview, succeeded

pytest.importorskip("optuna")

SHAPES = "shapes?count=120&size=16"
FIXED = [f"source={SHAPES}", "encoder.width=0.25", "workers=0", "batch_size=40"]
EPOCHS = 120  # long enough to be killed in the middle of
SEARCH = ["--search", "optimizer.learning_rate=log:1e-4..1e-1"]


def words(out: str, *more: str) -> list[str]:
    fixed = [word for setting in FIXED for word in ("--set", setting)]
    return ["sweep", "--out", out, *fixed, *SEARCH, "--objective", "knn", "--heartbeat", "1", "--pruner", "none", *more]


def started(folder: Path, arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def wait_for(what, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def kill_one_of_two(folder: Path, more: list[str]) -> str:
    """Start two workers, kill one while both are in the middle of a run; what the other said to its end."""
    arguments = words("sweep", "--set", f"epochs={EPOCHS}", "--trials", "2", *more)
    runs = [RunDirectory(folder / f"sweep/runs/trial-000{number}") for number in (0, 1)]
    killed, other = started(folder, arguments), started(folder, arguments)
    try:
        wait_for(lambda: all(len(run.metrics.lines) > 8 for run in runs))  # a few epochs are done and kept
        killed.kill()
        said, _ = other.communicate(timeout=150)
    finally:
        for worker in (killed, other):
            worker.kill()
            worker.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert other.returncode == 0, said
    return said


def assert_resumed(folder: Path, said: str) -> None:
    """Both trials are done, one of them by going on with the run that the dead worker left."""
    results = read_results(folder / "sweep")
    assert [trial.state for trial in results.trials] == ["complete", "complete"]
    assert sorted(trial.run for trial in results.trials) == ["runs/trial-0000", "runs/trial-0001"]
    assert len({trial.values["optimizer.learning_rate"] for trial in results.trials}) == 2  # not both the same
    (resumed,) = [trial for trial in results.trials if trial.number == 2]
    assert f"trial 2 goes on with {resumed.run}" in said
    run = RunDirectory(folder / "sweep" / resumed.run)
    epochs = [line["epoch"] for line in run.metrics.lines if "epoch_loss" in line]
    assert epochs == list(range(1, EPOCHS + 1))  # no epoch twice, none left out
    assert run.config.optimizer.learning_rate == pytest.approx(resumed.values["optimizer.learning_rate"])


def test_a_killed_workers_trial_is_tried_again_and_goes_on_with_its_run(tmp_path):
    assert_resumed(tmp_path, kill_one_of_two(tmp_path, []))
    with sqlite3.connect(tmp_path / "sweep/study.db") as study:
        states = [state for (state,) in study.execute("select state from trials order by number")]
    assert sorted(states[:2]) == ["COMPLETE", "FAIL"]
    assert states[2:] == ["COMPLETE"]


def test_the_same_command_goes_on_and_ends_with_the_same_results(tmp_path):
    arguments = words("sweep", "--set", "steps=2", "--trials", "2", "--json")
    first = json.loads(succeeded(eigenview(*arguments, folder=tmp_path)))
    again = json.loads(succeeded(eigenview(*arguments, folder=tmp_path)))
    assert first == again
    more = words("sweep", "--set", "steps=2", "--trials", "3", "--json")
    longer = json.loads(succeeded(eigenview(*more, folder=tmp_path)))
    assert longer["trials"][:2] == first["trials"]
    assert len(longer["trials"]) == 3
    page = (tmp_path / "sweep/report.html").read_text(encoding="utf-8")
    assert 'id="plot-parallel"' in page
    assert 'id="plot-slice-0"' in page


def test_python_sweeps_as_the_command_does(tmp_path):
    pyarrow = pytest.importorskip("pyarrow.parquet")
    command = json.loads(
        succeeded(eigenview(*words("sweep", "--set", "steps=2", "--trials", "2", "--json"), folder=tmp_path))
    )
    settings = {"source": SHAPES, "encoder": {"width": 0.25}, "workers": 0, "batch_size": 40, "steps": 2}
    search = {"optimizer.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}}
    results = ev.sweep(
        out=tmp_path / "python",
        search=search,
        settings=settings,
        objective="knn",
        trials=2,
        pruner="none",
        listeners=[],
    )
    assert [trial.value for trial in results.trials] == [trial["value"] for trial in command["trials"]]
    assert [trial.values for trial in results.trials] == [trial["values"] for trial in command["trials"]]
    table = pyarrow.read_table(tmp_path / "python/trials.parquet").to_pylist()
    assert [row["optimizer.learning_rate"] for row in table] == [
        trial.values["optimizer.learning_rate"] for trial in results.trials
    ]
    assert results.best.value == max(trial.value for trial in results.trials)
    with pytest.raises(ev.EigenviewError, match="cannot be opened"):
        ev.sweep(out=tmp_path / "no", search=search, settings=settings, storage="postgresql://u:secret@127.0.0.1:1/x")


class Interrupting(Listener):
    def measured(self, line):
        raise KeyboardInterrupt


def test_a_trial_goes_on_with_images_from_an_address(tmp_path):
    pytest.importorskip("fsspec")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8))
    settings = {"source": f"file://{tmp_path}/x.npy", "encoder": {"width": 0.25}, "workers": 0, "steps": 3}
    search = {"batch_size": [20, 30]}
    given = {"out": tmp_path / "sweep", "search": search, "settings": settings, "objective": "effective-rank"}
    with pytest.raises(KeyboardInterrupt):
        ev.sweep(**given, listeners=[Interrupting()])
    results = ev.sweep(**given, listeners=[])
    assert [(trial.state, trial.note) for trial in results.trials] == [("complete", "")] * 2
    assert "runs/trial-0000" in {trial.run for trial in results.trials}  # the one that was interrupted
    assert {trial.values["batch_size"] for trial in results.trials} == {20, 30}  # not again, though 20 trials may be


def test_a_run_that_falls_behind_ends_early_and_one_that_breaks_is_told(tmp_path):
    settings = {"source": SHAPES, "encoder": {"width": 0.25}, "workers": 0, "batch_size": 40, "epochs": 2}
    search = {"optimizer.learning_rate": [0.001, 1e30]}
    results = ev.sweep(
        out=tmp_path / "sweep",
        search=search,
        settings={**settings, "optimizer": {"name": "sgd"}},
        objective="effective-rank",
        trials=6,
        pruner="none",
        listeners=[],
    )
    by_rate = {trial.values["optimizer.learning_rate"]: trial for trial in results.trials}
    assert by_rate[1e30].state == "failed"
    assert "must be finite" in by_rate[1e30].note
    assert by_rate[0.001].state == "complete"
    behind = ev.sweep(
        out=tmp_path / "behind",
        search={"optimizer.learning_rate": {"low": 1e-5, "high": 0.1, "log": True}},
        settings=settings,
        objective="knn",
        trials=8,
        pruner="asha",
        listeners=[],
    )
    ended = [trial for trial in behind.trials if trial.state == "pruned"]
    assert ended
    lasted = [len(RunDirectory(tmp_path / "behind" / trial.run).metrics.lines) for trial in ended]
    whole = max(len(RunDirectory(tmp_path / "behind" / trial.run).metrics.lines) for trial in behind.ranked)
    assert max(lasted) < whole
