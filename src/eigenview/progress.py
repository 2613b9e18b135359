"""Progress with the time left: a bar on a terminal, a plain line now and then where there is none."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

PLAIN_EVERY = 15.0  # seconds between lines where there is no terminal


@contextmanager
def progress_bar(
    title: str, *, total: int | None, done: int = 0, in_bytes: bool = False, shown: bool = True
) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with each step made. The bar disappears when it is through."""
    console = Console(stderr=True)
    if not shown:
        yield lambda steps: None
        return
    if not console.is_terminal:
        yield _PlainLines(title, total, done, console).advance
        return
    counts = [DownloadColumn(), TransferSpeedColumn()] if in_bytes else [MofNCompleteColumn()]
    columns = [TextColumn("{task.description}"), BarColumn(), *counts, TimeRemainingColumn()]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda steps: bar.advance(task, steps)


class _PlainLines:
    """``features: 3,200 of 27,000, 1:23 left``, first after 15 seconds: short work says nothing."""

    def __init__(self, title: str, total: int | None, done: int, console: Console) -> None:
        self.title, self.total, self.done, self.console = title, total, done, console
        self._start, self._at_start = time.monotonic(), done
        self._spoke = self._start

    def advance(self, steps: int) -> None:
        self.done += steps
        now = time.monotonic()
        if now - self._spoke < PLAIN_EVERY:
            return
        self._spoke = now
        self.console.print(self.line(now - self._start), markup=False, highlight=False, soft_wrap=True)

    def line(self, seconds: float) -> str:
        """What is said after so many seconds of work."""
        if self.total is None:
            return f"{self.title}: {self.done:,}, {clock(seconds)} so far"
        left = time_left(seconds, made=self.done - self._at_start, remaining=self.total - self.done)
        return f"{self.title}: {min(self.done, self.total):,} of {self.total:,}{left and f', {left}'}"


def time_left(seconds: float, *, made: float, remaining: float) -> str:
    """``1:23 left`` at the pace at which ``made`` was, in ``seconds``; nothing where nothing was made."""
    return f"{clock(seconds * remaining / made)} left" if made > 0 else ""


def clock(seconds: float) -> str:
    """1:02:03, or 2:03 under an hour."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def about(seconds: float) -> str:
    """A time to wait, as people say it: "about 40 seconds", "about 3 minutes", "about 2 hours"."""
    if seconds < 90:
        shown = max(1, round(seconds / 5) * 5 if seconds >= 10 else round(seconds))
        return f"about {shown} second{'' if shown == 1 else 's'}"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} minutes"
    return f"about {seconds / 3600:.1f} hours".replace(".0 ", " ")
