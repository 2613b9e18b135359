"""The run's figures for TensorBoard: ``tensorboard --logdir RUN``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenview.errors import SettingError
from eigenview.training.listeners import Listener, Plan

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"  # in a run


class TensorBoard(Listener):
    """Every number of a line of metrics becomes a point at its step. A resumed run purges what it repeats."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._writer: SummaryWriter | None = None

    def started(self, plan: Plan) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SettingError("tensorboard is not installed: pip install 'eigenview[tensorboard]'") from None
        self._writer = SummaryWriter(str(self._folder), purge_step=plan.done_steps + 1)

    def measured(self, line: Mapping[str, Any]) -> None:
        if self._writer is None:
            return
        for name, value in line.items():
            if isinstance(value, (int, float)) and name != "step":
                self._writer.add_scalar(name, value, line["step"])

    def told(self, message: str) -> None:
        if self._writer is not None:
            self._writer.add_text("alarms", message)

    def ended(self) -> None:
        if self._writer is not None:
            self._writer.close()
