"""Work in forked children with limits of memory and time: what each case gave, or how it ended.

A child does many cases; one that crashed, hung or grew is replaced by a fresh one.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import selectors
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eigenview.errors import EigenviewError

Ending = Literal["fine", "refused", "traceback", "crash", "memory", "timeout"]
SECONDS = 60  # of CPU time, which a busy machine does not use up; ten times as long by the clock
GIGABYTE = 10**9
MOST_CASES = 300  # of one child
GROWN = 3 * 10**8  # bytes beyond what it began with, after which a child is replaced


@dataclass(frozen=True)
class Case:
    """Work to be done in a child; what it returns is short text, the same for the same result."""

    number: int
    kind: str
    work: Callable[[], str]


@dataclass(frozen=True)
class Ended:
    """How a case ended. ``text``: what the work gave, the refusal, or the end of the traceback."""

    number: int
    kind: str
    ending: Ending
    text: str
    megabytes: int  # of memory at its peak, above what a fresh child begins with
    seconds: float


def endings(cases: Sequence[Case], *, at_once: int, limit: int = GIGABYTE) -> Iterator[Ended]:
    """Every case in some child, ``at_once`` at a time, in the order in which they end.

    What another case left in a child's memory is not held against a case: one that is over the ``limit`` is tried again
    in a fresh child, and that counts.
    """
    known = {case.number: case for case in cases}
    gc.freeze()  # what is there now is no child's to collect, nor to copy
    waiting = list(reversed(cases))
    children: list[_Child] = []
    with selectors.DefaultSelector() as selector:
        while waiting or children:
            while waiting and len(children) < at_once:
                children.append(_Child(known, children))
                children[-1].begin(waiting.pop())
                selector.register(children[-1].answers, selectors.EVENT_READ, children[-1])
            for key, _ in selector.select(timeout=1):
                child: _Child = key.data
                ended = child.ended(limit)
                if ended is None:
                    continue
                if ended.ending == "memory" and child.begun > 1:
                    waiting.append(known[ended.number])
                else:
                    yield ended
                if waiting and child.can_go_on(ended):
                    child.begin(waiting.pop())
                else:
                    selector.unregister(child.answers)
                    child.stop()
                    children.remove(child)
            for child in children:
                child.kill_if_late()


class _Child:
    def __init__(self, known: Mapping[int, Case], others: Sequence[_Child]) -> None:
        self.answers, answering = os.pipe()
        asked, self._asking = os.pipe()
        self.begun = 0
        self._process = os.fork()
        if self._process == 0:
            for child in (self, *others):  # so that it ends when the parent does
                os.close(child._asking)
                os.close(child.answers)
            _serve(known, asked, answering)
        os.close(asked)
        os.close(answering)

    def begin(self, case: Case) -> None:
        self.begun += 1
        self._case, self._since, self._said = case, time.monotonic(), b""
        os.write(self._asking, f"{case.number}\n".encode())

    def ended(self, limit: int) -> Ended | None:
        """How its case ended, once all of the answer is there or there will be none."""
        said = os.read(self.answers, 1 << 16)
        self._said += said
        if said and not self._said.endswith(b"\n"):
            return None
        number, kind, seconds = self._case.number, self._case.kind, round(time.monotonic() - self._since, 3)
        if not said:
            code = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
            self._process = 0
            if code in (-signal.SIGXCPU, -signal.SIGALRM):
                return Ended(number, kind, "timeout", f"over {SECONDS} s", 0, seconds)
            return Ended(number, kind, "crash", f"ended with {code}", 0, seconds)
        answer = json.loads(self._said)
        ending = "memory" if answer["peak"] > limit else answer["ending"]
        self._grown = answer["grown"]
        return Ended(number, kind, ending, answer["text"], answer["peak"] // 10**6, seconds)

    def can_go_on(self, ended: Ended) -> bool:
        is_sound = ended.ending in ("fine", "refused", "traceback") and self._process != 0
        return is_sound and self._grown < GROWN and self.begun < MOST_CASES

    def kill_if_late(self) -> None:
        if time.monotonic() - self._since > 10 * SECONDS:
            os.kill(self._process, signal.SIGALRM)

    def stop(self) -> None:
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        os.close(self._asking)
        os.close(self.answers)


def _serve(known: Mapping[int, Case], asked: int, answering: int) -> None:
    """In the child: a number comes in, how that case ended goes out. Never returns."""
    fresh = _resident("VmRSS")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = _resident("VmSize") + 4 * GIGABYTE  # so that no case endangers the machine
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with os.fdopen(asked) as numbers:
        while line := numbers.readline():
            Path("/proc/self/clear_refs").write_text("5")  # the peak is this case's own
            used = resource.getrusage(resource.RUSAGE_SELF)
            resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, -1))
            ending, text = _tried(known[int(line)].work)
            answer = {"ending": ending, "text": text[-2000:], "peak": _resident("VmHWM") - fresh}
            os.write(answering, json.dumps({**answer, "grown": _resident("VmRSS") - fresh}).encode() + b"\n")
    os._exit(0)


def _tried(work: Callable[[], str]) -> tuple[Ending, str]:
    try:
        return "fine", work()
    except EigenviewError as error:
        is_one_line = str(error).isprintable()
        return ("refused", str(error)) if is_one_line else ("traceback", f"not one plain line: {error!r}")
    except MemoryError:
        return "memory", traceback.format_exc()
    except BaseException:
        return "traceback", traceback.format_exc()


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
