"""Two processes at one run: the second writer is refused in one line; readers and judges may come at any time."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

from eigenview.runs import RunDirectory
from tests.cli.commands import eigenview, succeeded
from tests.processes import forking
from tests.training.runs import assert_equal_runs, run_quietly, settings

SOURCE = "shapes?count=96&size=24"


def train_for_long(given: dict) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    run_quietly({**given, "steps": None, "epochs": 10**6}, looks_back=False)


@contextmanager
def being_trained(given):
    """A run of another process that goes on and on, until SIGTERM at the end."""
    process = forking().Process(target=train_for_long, args=(given,))
    process.start()
    run = RunDirectory(given["out"])
    try:
        deadline = time.monotonic() + 120
        while len(run.metrics.lines) < 8:  # two epochs
            assert process.is_alive(), "it ended"
            assert time.monotonic() < deadline, "it logged no eight lines"
            time.sleep(0.02)
        yield process
        assert process.is_alive()
        os.kill(process.pid, signal.SIGTERM)
        process.join(60)
    finally:
        process.kill()
        process.join()


def test_the_second_is_told_who_writes_and_the_first_loses_nothing(tmp_path):
    given = settings("simclr", tmp_path / "run")
    common = ["--out", "run", "--workers", "0", "--no-look"]
    with being_trained(given) as first:
        for arguments in (["train", SOURCE, "--epochs", "1", *common], ["train", "--resume", *common]):
            answer = eigenview(*arguments, folder=tmp_path)
            assert answer.returncode == 2
            who = rf"run is being written by process {first.pid} on \S+ since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"
            assert re.fullmatch(rf"eigenview: {who}: wait for it, or choose another out\n", answer.stderr)
    run = RunDirectory(tmp_path / "run")
    steps = Counter(line["step"] for line in run.metrics.looks)
    assert steps == Counter(range(1, max(steps) + 1))
    last = run.checkpoints.load("last").state["progress"]["step"]
    assert last == max(steps)
    run_quietly({**given, "steps": None, "epochs": last // 3 + 2}, resume=True)


def test_what_reads_and_judges_a_run_may_come_while_it_is_trained(tmp_path):
    given = settings("simclr", tmp_path / "run")
    with being_trained(given):
        few = ["--items", "60"]
        succeeded(eigenview("diagnose", "run", *few, folder=tmp_path))
        succeeded(eigenview("evaluate", "run", SOURCE, "--protocol", "knn", "--no-baselines", folder=tmp_path))
        succeeded(eigenview("embed", "run", SOURCE, "-o", "run/embeddings.parquet", folder=tmp_path))
        succeeded(eigenview("report", "run", folder=tmp_path))
    run = RunDirectory(tmp_path / "run")
    assert run.diagnosis().figures.n == 60
    assert len(run.sample().names) == 60
    assert run.scores()
    steps = [line["step"] for line in run.metrics.looks]
    assert steps == list(range(1, len(steps) + 1))


def at_once(*commands: list[str], folder: Path) -> list[CompletedProcess[str]]:
    """What real commands that begin together answer; who succeeded comes first."""
    with ThreadPoolExecutor(len(commands)) as all_of_them:
        answers = list(all_of_them.map(lambda command: eigenview(*command, folder=folder), commands))
    return sorted(answers, key=lambda answer: answer.returncode)


def test_of_commands_that_begin_at_once_one_is_refused_and_the_other_is_whole(tmp_path):
    small = ["--encoder", "small", "--encoder.width", "0.25", "--batch-size", "32", "--log-every", "1"]
    begin = ["train", SOURCE, "--epochs", "3", "--workers", "0", "--no-look", *small]
    succeeded(eigenview(*begin, "--out", "alone", folder=tmp_path))
    begun, refused = at_once([*begin, "--out", "run"], [*begin, "--out", "run"], folder=tmp_path)
    succeeded(begun)
    assert refused.returncode == 2
    assert re.fullmatch(r"eigenview: run (is being written by|holds a run already).*\n", refused.stderr)
    assert_equal_runs(tmp_path / "alone", tmp_path / "run", steps=9)
    resume = ["train", "--resume", "--epochs", "5", "--no-look"]
    succeeded(eigenview(*resume, "--out", "alone", folder=tmp_path))
    went_on, other = at_once([*resume, "--out", "run"], [*resume, "--out", "run"], folder=tmp_path)
    succeeded(went_on)
    if other.returncode:  # else it came so late that nothing was left to do
        assert re.fullmatch(r"eigenview: run is being written by .*\n", other.stderr)
    assert_equal_runs(tmp_path / "alone", tmp_path / "run", steps=15)
