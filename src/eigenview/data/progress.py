"""A progress bar on a terminal; silence everywhere else."""

from __future__ import annotations

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


@contextmanager
def progress_bar(
    title: str, *, total: int | None, done: int = 0, in_bytes: bool = False, shown: bool = True
) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with each step made. The bar disappears when it is through."""
    console = Console(stderr=True)
    counts = [DownloadColumn(), TransferSpeedColumn()] if in_bytes else [MofNCompleteColumn()]
    columns = [TextColumn("{task.description}"), BarColumn(), *counts, TimeRemainingColumn()]
    if not shown or not console.is_terminal:
        yield lambda steps: None
        return
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total, completed=done)
        yield lambda steps: progress.advance(task, steps)
