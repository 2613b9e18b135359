"""Commands that are killed, begun again, and held against those that nobody disturbed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reliability_jobs import Embed, Evaluate, Job, Train
from eigenview.search import parts
from tests.runs.kills import CHANGES, STOPPED, stop_before

LONGEST = 600  # seconds by the clock of one command
PART_ITEMS = 16  # images of a part when they are embedded, so that few images have several parts


@dataclass(frozen=True)
class Killed:
    """A command that was killed, once or twice, and what came of it; ``lost`` is empty if nothing was."""

    number: int
    kind: str
    kills: tuple[str, ...]
    lost: tuple[str, ...]


def killed_commands(folder: Path, count: int, seed: int, done: set[int]) -> Iterator[Killed]:
    """``count`` commands that are killed, those ``done`` left out; the undisturbed ones are made first."""
    parts.PART_ITEMS = PART_ITEMS
    jobs: list[Job] = [Train("simclr"), Train("moco"), Train("swav")]
    runs = [_whole(job, folder) for job in jobs]
    trained = runs[0].folder / "run"
    more: list[Job] = [Evaluate(trained), Embed(trained, ".parquet"), Embed(trained, ".npy")]
    wholes = [*runs, *(_whole(job, folder) for job in more)]
    for number in sorted(set(range(count)) - done):
        whole, chance = wholes[number % len(wholes)], random.Random(f"{seed} {number}")
        place = folder / f"broken-{number}"
        whole.job.prepare(place)
        kills, lost = [], []
        for _ in range(1 + (number % 4 == 3)):  # every fourth is killed again while it recovers
            kills.append(_kill(whole, place, chance))
            lost += whole.job.unreadable(place)
        code, said = _command(whole.job.words(place))
        lost += [] if code == 0 else [f"begun again, it ended with {code}: {said[-300:]}"]
        lost += whole.job.differences(whole.folder, place)
        shutil.rmtree(place, ignore_errors=True)
        yield Killed(number, whole.job.name, tuple(kills), tuple(lost))


@dataclass(frozen=True)
class _Whole:
    """A job that nobody disturbed: what it left, how long it took, how many changes to the disk it made."""

    job: Job
    folder: Path
    seconds: float
    changes: int


def _whole(job: Job, folder: Path) -> _Whole:
    place = folder / f"whole-{job.name.replace(' ', '-')}"
    job.prepare(place)
    changes = _changes(job.words(place), folder / "changes")
    job.prepare(place)
    start = time.monotonic()
    code, said = _command(job.words(place))
    assert code == 0, f"{job.name} ends with {code}: {said}"
    return _Whole(job, place, time.monotonic() - start, changes)


def _kill(whole: _Whole, place: Path, chance: random.Random) -> str:
    """Begin or go on, and be killed: after a while, or before one change to the disk."""
    words = whole.job.words(place)
    if chance.random() < 0.5:
        after = chance.random() * whole.seconds
        code, said = _command(words, killed_after=after)
        how, is_killed = f"after {after:.2f} s", code == -signal.SIGKILL
    else:
        before = chance.randrange(1, whole.changes)
        code, said = _command(words, stopped_before=before)
        how, is_killed = f"before change {before}", code == STOPPED
    if is_killed:
        return how
    return "not at all: it had ended" if code == 0 else f"not at all: it ended with {code}: {said[-300:]}"


def _command(
    words: list[str], *, killed_after: float | None = None, stopped_before: int | None = None
) -> tuple[int, str]:
    """The exit code of ``eigenview WORDS`` in a forked child, minus the signal that ended it; and what it said."""
    reading_end, writing_end = os.pipe()
    process = os.fork()
    if process == 0:
        _in_child(words, stopped_before, writing_end)
    os.close(writing_end)
    os.set_blocking(reading_end, False)
    said, status = b"", None
    deadline = time.monotonic() + (LONGEST if killed_after is None else killed_after)
    while status is None and time.monotonic() < deadline:
        said += _read(reading_end)
        ended, code = os.waitpid(process, os.WNOHANG)
        status = code if ended else None
        time.sleep(0.002)
    if status is None:
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
    said += _read(reading_end)
    os.close(reading_end)
    return os.waitstatus_to_exitcode(status), said.decode(errors="replace")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def _in_child(words: list[str], stopped_before: int | None, writing_end: int) -> None:
    """Never returns. What is said as an error is kept, the rest not."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor, target in ((0, null), (1, null), (2, writing_end)):
        os.dup2(target, descriptor)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    from eigenview.cli import main

    if stopped_before is not None:
        stop_before(stopped_before)
    code = 1
    try:
        code = main(words)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _changes(words: list[str], kept: Path) -> int:
    """How many changes to the disk the whole command makes; the count goes through a file that is not its own."""
    process = os.fork()
    if process == 0:
        count, leave = 0, os._exit
        for name in CHANGES:
            change = getattr(os, name)

            def counted(*arguments, change=change, **options):
                nonlocal count
                count += 1
                return change(*arguments, **options)

            setattr(os, name, counted)

        def reporting(code):
            kept.write_text(str(count))
            leave(code)

        os._exit = reporting
        _in_child(words, None, os.open(os.devnull, os.O_WRONLY))
    os.waitpid(process, 0)
    return int(kept.read_text())
