"""The progress of a run: plain lines with the time left, or one that renews itself."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from eigenview.training import Plan, shown_progress


def told(*, is_terminal: bool, done: int, minutes: float | None = None) -> str:
    """What is shown of 40 steps of a second each; ``done`` earlier ones of 100 took nine seconds each."""
    file = io.StringIO()
    listener = shown_progress(Console(file=file, force_terminal=is_terminal, width=200))
    total = 100 if minutes is None else None
    listener.started(Plan(Path("run"), "simclr", "small", 640, 2, 64, 10, total, minutes, done, None))
    for step in range(done + 1, done + 41):
        listener.measured({"step": step, "loss": 2.0})
        listener.stepped(step, 9.0 * done + step - done)
    listener.ended()
    return file.getvalue()


def test_plain_lines_come_now_and_then_with_the_time_left():
    assert told(is_terminal=False, done=0).splitlines() == [
        "epoch 0.0/10  0%  0:00  loss 2.000",
        "epoch 1.5/10  15%  0:15, 1:25 left  loss 2.000",
        "epoch 3.0/10  30%  0:30, 1:10 left  loss 2.000",
    ]


def test_a_run_that_goes_on_is_judged_by_its_new_steps_alone():
    assert told(is_terminal=False, done=50).splitlines()[::2] == [
        "epoch 5.0/10  50%  0:00  loss 2.000",
        "epoch 6.6/10  66%  7:46, 0:34 left  loss 2.000",
    ]
    assert "1:00 left" in told(is_terminal=True, done=0)  # after 40 steps
    assert "0:10 left" in told(is_terminal=True, done=50)


def test_a_run_of_minutes_is_over_when_they_are():
    assert "epoch 1.5  12%  0:15, 1:45 left" in told(is_terminal=False, done=0, minutes=2)
