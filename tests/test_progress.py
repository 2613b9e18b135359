"""Progress where there is no terminal: plain lines now and then, with the time left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from eigenview import progress
from eigenview.progress import _PlainLines, about, clock, progress_bar


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(progress, "time", stopped)
    return stopped


def test_short_work_says_nothing(time, capsys):
    with progress_bar("features", total=100) as advance:
        for _ in range(10):
            time.now += 1.4
            advance(10)
    assert capsys.readouterr() == ("", "")


def test_long_work_says_a_line_every_fifteen_seconds_with_the_time_left(time, capsys):
    with progress_bar("features", total=27_000) as advance:
        for _ in range(7):
            time.now += 5
            advance(1_000)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "features: 3,000 of 27,000, 2:00 left",
        "features: 6,000 of 27,000, 1:45 left",
    ]


def test_what_was_done_before_is_counted_but_not_taken_for_speed(time):
    told = _PlainLines("embedding", 100, 90, Console(file=io.StringIO()))
    assert told.line(0) == "embedding: 90 of 100"
    told.advance(5)
    assert told.line(10) == "embedding: 95 of 100, 0:10 left"


def test_of_a_stream_only_the_count_is_known(time):
    told = _PlainLines("embedding", None, 0, Console(file=io.StringIO()))
    told.advance(1234)
    assert told.line(61) == "embedding: 1,234, 1:01 so far"


def test_the_last_batch_does_not_count_beyond_the_end(time):
    told = _PlainLines("embedding", 100, 0, Console(file=io.StringIO()))
    told.advance(128)
    assert told.line(10) == "embedding: 100 of 100, 0:00 left"


def test_a_long_title_stays_on_one_line_and_its_marks_are_no_markup(time, capsys):
    with progress_bar("[red] " + "x" * 200, total=10) as advance:
        time.now += 20
        advance(5)
    assert capsys.readouterr().err == "[red] " + "x" * 200 + ": 5 of 10, 0:20 left\n"


def test_what_is_not_to_be_shown_is_not(time, capsys):
    with progress_bar("features", total=10, shown=False) as advance:
        time.now += 100
        advance(5)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar_that_disappears(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda stderr: Console(file=written, force_terminal=True, width=80, legacy_windows=False)
    )
    with progress_bar("features", total=10) as advance:
        advance(10)
    assert "features" in written.getvalue()
    assert "10/10" in written.getvalue()
    assert written.getvalue().rstrip().endswith("\x1b[2K")  # the line is erased


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (-3, "0:00"), (59.6, "1:00"), (61, "1:01"), (3600, "1:00:00"), (36061, "10:01:01")],
)
def test_a_clock_shows_hours_only_where_there_are_some(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "about 1 second"),
        (1, "about 1 second"),
        (7, "about 7 seconds"),
        (43, "about 45 seconds"),
        (89, "about 90 seconds"),
        (100, "about 2 minutes"),
        (89 * 60, "about 89 minutes"),
        (90 * 60, "about 1.5 hours"),
        (7200, "about 2 hours"),
    ],
)
def test_a_time_to_wait_is_said_as_people_say_it(seconds, text):
    assert about(seconds) == text
