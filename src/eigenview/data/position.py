"""What every loader keeps: which epoch it is in, how far it has come, and what it could not read."""

from __future__ import annotations

from pathlib import Path

from eigenview.data.failures import FailureLog
from eigenview.errors import SettingError


def replaces_unreadable(unreadable: str) -> bool:
    if unreadable not in ("replace", "skip"):
        raise SettingError(f"unreadable is 'replace' or 'skip'; got {unreadable!r}")
    return unreadable == "replace"


class Positioned:
    """Epoch ``epoch``, of which ``_step`` batches have been handed out."""

    def __init__(self, log: str | Path | None) -> None:
        self._failures = FailureLog(log)
        self._epoch = self._step = 0

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def unreadable(self) -> dict[str, str]:
        """The items that could not be read so far, by name, and why."""
        return self._failures.reasons

    def set_epoch(self, epoch: int) -> None:
        """What the next iteration shuffles by. A restored position is kept when it lies in this epoch."""
        if epoch < 0:
            raise SettingError(f"epoch must be at least 0; got {epoch}")
        if epoch != self._epoch:
            self._epoch = epoch
            self._begin()

    def _begin(self) -> None:
        """Forget any position within the epoch."""
        self._step = 0
