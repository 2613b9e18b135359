"""The run's figures for TensorBoard: ``tensorboard --logdir RUN``."""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from eigenview.appending import append_bytes
from eigenview.errors import WriteError
from eigenview.extras import extra_module
from eigenview.files import inside
from eigenview.names import printable
from eigenview.training.listeners import Listener, Plan

FOLDER = "tensorboard"  # in a run
EVENTS, SUMMARIES = "tensorboard.compat.proto.event_pb2", "tensorboard.compat.proto.summary_pb2"
RECORDS, TEXTS = "tensorboard.summary.writer.record_writer", "torch.utils.tensorboard.summary"


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
