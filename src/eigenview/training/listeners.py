"""Who wants to know how a run goes: progress on a terminal, TensorBoard, a user's own; and what they are told."""

import io
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from eigenview.appending import append_bytes
from eigenview.diagnostics import Diagnosis
from eigenview.errors import WriteError
from eigenview.extras import extra_module
from eigenview.files import inside
from eigenview.names import printable
from eigenview.runs import MetricsFile

FOLDER = "tensorboard"  # in a run
EVENTS, SUMMARIES = "tensorboard.compat.proto.event_pb2", "tensorboard.compat.proto.summary_pb2"
RECORDS, TEXTS = "tensorboard.summary.writer.record_writer", "torch.utils.tensorboard.summary"


@dataclass(frozen=True)
class Plan:
    """What a run is going to do. ``total_steps`` is None for a run measured in minutes."""

    folder: Path
    method: str
    encoder: str
    items: int | None  # None: a stream
    views: int  # of each item
    batch_size: int  # items of an optimizer step, over all processes
    steps_per_epoch: int
    total_steps: int | None
    minutes: float | None
    done_steps: int  # where a resumed run goes on
    chance: float | None


class Listener:
    """Override what you want to hear; the first process of a run calls it. It must not change the run."""

    def started(self, plan: Plan) -> None: ...

    def stepped(self, step: int, seconds: float) -> None:
        """After each optimizer step; ``seconds`` of training so far."""

    def measured(self, line: Mapping[str, Any]) -> None:
        """A line of ``metrics.jsonl`` was written."""

    def told(self, message: str) -> None:
        """Something a user should read: an alarm, a checkpoint that was passed over."""

    def ended(self) -> None:
        """The run is over, whether it finished, was interrupted or failed."""

    def diagnosed(self, diagnosis: Diagnosis) -> None:
        """The finished run was looked at."""


class Record:
    """What a run says about itself as it goes, to its file and its listeners; only the first process speaks."""

    def __init__(self, file: MetricsFile, listeners: Sequence[Listener], *, is_first: bool) -> None:
        self._file, self._listeners, self._is_first = file, tuple(listeners) if is_first else (), is_first

    def each(self, say: Callable[[Listener], None]) -> None:
        """Something that every listener hears."""
        for listener in self._listeners:
            say(listener)

    def write(self, line: Mapping[str, Any]) -> None:
        """A line of ``metrics.jsonl``; its alarms are told too."""
        if self._is_first:
            self._file.append(line)
        self.each(lambda listener: listener.measured(line))
        for message in line.get("alarms", []):
            self.tell(message)

    def tell(self, message: str) -> None:
        self.each(lambda listener: listener.told(message))

    def forget_after(self, step: int) -> None:
        """A resumed run writes these lines again."""
        if self._is_first:
            self._file.cut(step)


class TensorBoard(Listener):
    """Every number of a line of metrics becomes a point at its step. A resumed run purges what it repeats.

    Records are written as they come: TensorBoard's own writer does so in a thread, which a full disk ends unheard.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._step = run, 0
        self._file: Path | None = None

    def started(self, plan: Plan) -> None:
        for name in (EVENTS, SUMMARIES, RECORDS, TEXTS):  # one that is missing is told now, and not at the first alarm
            _library(name)
        log = _library(EVENTS).SessionLog
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        folder = inside(self._run, FOLDER)
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise WriteError(f"cannot write {printable(folder)}: {error.strerror or error}") from None
        self._file, self._step = folder / name, plan.done_steps
        self._write(file_version="brain.Event:2")
        self._write(step=plan.done_steps + 1, session_log=log(status=log.START))

    def measured(self, line: Mapping[str, Any]) -> None:
        summary = _library(SUMMARIES).Summary
        self._step = line["step"]
        values = {name: value for name, value in line.items() if isinstance(value, (int, float)) and name != "step"}
        points = [summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=self._step, summary=summary(value=points))

    def told(self, message: str) -> None:
        self._write(step=self._step, summary=_library(TEXTS).text("alarms", message))

    def _write(self, **fields: Any) -> None:
        if self._file is None:  # told before it started
            return
        record, event = io.BytesIO(), _library(EVENTS).Event(wall_time=time.time(), **fields)
        _library(RECORDS).RecordWriter(record).write(event.SerializeToString())
        append_bytes(self._file, record.getvalue())


def _library(name: str) -> ModuleType:
    return extra_module(name, extra="tensorboard", purpose="writing events")
