"""One writer a run: a lock that a killed process cannot leave behind."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from eigenview.errors import SettingError
from eigenview.names import printable

try:
    import fcntl
except ImportError:  # no POSIX: the lock then says who writes, and hinders nobody
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
_held: set[int] = set()  # descriptors of this process's locks


def _let_go() -> None:
    """In a forked process, such as one that decodes images: it must not hold its parent's locks, or outlive them."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class RunLock:
    """Held while entered; whoever comes second is told who holds it. The system lets go of it when a process ends.

    ``NAME`` in the folder says who: process, machine, since when. It stays, and means nothing unless it is locked.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None

    def __enter__(self) -> RunLock:
        path = self.folder / NAME
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            self._take()
        except BlockingIOError:
            holder = self._holder()
            self._close()
            raise SettingError(
                f"{printable(self.folder)} is being written by {holder}: wait for it, or choose another out"
            ) from None
        except OSError as error:
            self._close()
            raise SettingError(f"cannot lock {printable(self.folder)}: {error.strerror or error}") from None
        _held.add(self._file)
        mine = {"process": os.getpid(), "machine": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(mine).encode(), 0)
        return self

    def check(self) -> None:
        """Refuse, as :meth:`__enter__` does, if another process holds it; leave it as it is."""
        if (self.folder / NAME).exists():
            with self:
                pass

    def _take(self) -> None:
        """Whoever only checks holds it for a moment: it is worth a second try."""
        for wait in (0.02, 0.1, None):
            try:
                if fcntl is not None:
                    fcntl.flock(self._file or 0, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if wait is None:
                    raise
                time.sleep(wait)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            _held.discard(self._file)
            with suppress(OSError):
                os.close(self._file)
            self._file = None

    def _holder(self) -> str:
        try:
            who = json.loads(os.pread(self._file or 0, 4096, 0))
            machine, since = printable(str(who["machine"])), printable(str(who["since"]))
            return f"process {int(who['process'])} on {machine} since {since}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
