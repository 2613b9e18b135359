"""Ctrl-C and SIGTERM end a run between two steps, where everything is whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from eigenview.distributed import Group, any_process

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While entered, the first SIGINT or SIGTERM is only remembered; a second one acts at once.

    Outside the main thread, where Python allows no handlers, signals keep their ordinary effect.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if handler is not signal.SIG_IGN:  # a shell told its background job not to listen
                    self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True

    def is_asked_anywhere(self, group: Group, device: Any) -> bool:
        """True on all processes once one of them was asked; a collective call."""
        return any_process(self.is_asked, group, device)
