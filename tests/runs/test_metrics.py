"""Metrics: written line by line, read whatever a crash left of them."""

from __future__ import annotations

import json

import pytest

from eigenview.errors import DataError
from eigenview.runs import MetricsFile, number
from eigenview.runs.metrics import Metrics

LINES = [
    {"step": 1, "epoch": 0, "loss": 3.0, "chance": 4.0, "alarms": []},
    {"step": 2, "epoch": 0, "loss": 2.5, "chance": 4.0, "alarms": ["step 2: too warm"]},
    {"step": 2, "epoch": 1, "epoch_loss": 2.75},
    {"step": 3, "epoch": 1, "loss": 2.0, "chance": 4.0, "alarms": []},
]


@pytest.fixture
def file(tmp_path):
    written = MetricsFile(tmp_path / "metrics.jsonl")
    for line in LINES:
        written.append(line)
    return written


def test_lines_come_back_in_order(file):
    assert list(file.read().lines) == LINES
    assert file.read().last == LINES[-1]
    assert file.read().series("loss") == [(1, 3.0), (2, 2.5), (3, 2.0)]
    assert file.read().alarms == [(2.0, "step 2: too warm")]
    assert len(file.read().looks) == 3


@pytest.mark.parametrize(
    "damage", [b'{"step": 4, "lo', b"\xff\xfe\x00\n", b"[1, 2]\n", b"[" * 100_000 + b"\n", b'"text"\n', b"\n\n"]
)
def test_what_a_crash_left_of_a_line_is_passed_over(file, damage):
    with file.path.open("ab") as stream:
        stream.write(damage)
    assert list(file.read().lines) == LINES


def test_damaged_lines_are_counted_and_the_last_that_a_crash_cut_is_not(file):
    good = file.path.read_bytes()
    assert file.read().damaged == 0
    file.path.write_bytes(good + b'{"step": 4, "lo')
    assert file.read().damaged == 0
    file.path.write_bytes(b"\xff\xfe\n[1]\n" + good)
    assert file.read().damaged == 2
    assert list(file.read().lines) == LINES


def test_a_cut_forgets_later_lines_alone(file):
    file.cut(2)
    assert list(file.read().lines) == LINES[:3]
    assert json.loads(file.path.read_text().splitlines()[0])["format"] == 1
    file.cut(-1)
    assert list(file.read().lines) == []


def test_a_run_says_how_far_it_came_and_whether_it_diverged(file):
    progress = file.read().progress()
    assert (progress.loss, progress.chance, progress.steps, progress.epochs) == (2.0, 4.0, 3, 1)
    assert not progress.has_diverged
    file.append({"step": 4, "epoch": 1, "loss": float("nan"), "alarms": ["not finite"]})
    assert file.path.read_text().splitlines()[-1] == '{"step": 4, "epoch": 1, "loss": null, "alarms": ["not finite"]}'
    assert file.read().has_diverged
    assert file.read().progress().loss == 2.0


def test_a_run_without_metrics_has_none(tmp_path):
    assert list(MetricsFile(tmp_path / "none.jsonl").read().lines) == []
    assert Metrics([]).last == {}
    assert Metrics([]).progress().steps is None


@pytest.mark.parametrize("value", [True, None, "3", float("nan"), float("inf"), [1]])
def test_only_finite_numbers_are_numbers(value):
    assert number(value) is None
    assert number(3) == 3.0


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(DataError, match=r"cannot write .*metrics.jsonl: .*then go on with --resume"):
        MetricsFile(tmp_path / "missing" / "metrics.jsonl").append({"step": 1})
