"""What a run says about itself as it goes: lines of its metrics, heard by whoever listens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eigenview.runs import MetricsFile
from eigenview.training.listeners import Listener


class Record:
    """Writes lines and passes them on; on processes other than the first it does nothing."""

    def __init__(self, file: MetricsFile, listener: Listener, *, is_first: bool) -> None:
        self._file, self._listener, self._is_first = file, listener, is_first

    def write(self, line: Mapping[str, Any]) -> None:
        """A line of ``metrics.jsonl``; its alarms are told too."""
        if not self._is_first:
            return
        self._file.append(line)
        self._listener.measured(line)
        for message in line.get("alarms", []):
            self._listener.told(message)

    def tell(self, message: str) -> None:
        if self._is_first:
            self._listener.told(message)

    def forget_after(self, step: int) -> None:
        """A resumed run writes these lines again."""
        if self._is_first:
            self._file.cut(step)
