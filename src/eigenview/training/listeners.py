"""Who wants to know how a run goes: progress on a terminal, TensorBoard, a user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenview.diagnostics import Diagnosis


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


class Listeners(Listener):
    """Several as one."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._all = tuple(listeners)

    def started(self, plan: Plan) -> None:
        for listener in self._all:
            listener.started(plan)

    def stepped(self, step: int, seconds: float) -> None:
        for listener in self._all:
            listener.stepped(step, seconds)

    def measured(self, line: Mapping[str, Any]) -> None:
        for listener in self._all:
            listener.measured(line)

    def told(self, message: str) -> None:
        for listener in self._all:
            listener.told(message)

    def ended(self) -> None:
        for listener in self._all:
            listener.ended()

    def diagnosed(self, diagnosis: Diagnosis) -> None:
        for listener in self._all:
            listener.diagnosed(diagnosis)
