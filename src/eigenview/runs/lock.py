"""A run's folder: one writer, by a lock that no killed process leaves behind; removed again if the run is refused."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigenview.errors import EigenviewError, SettingError
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


class RunIsWritten(SettingError):
    """Another process writes in the run directory."""


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
            raise RunIsWritten(
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

    def __exit__(self, *_: object) -> None:
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


_made: dict[Path, tuple[Path, set[str]]] = {}  # folder → the highest one made for it; files that may go with it


def make_folder(folder: Path, files: set[str]) -> None:
    """Make a run's folder; if it was not there, :func:`remove_unused` may remove it with no more in it than these."""
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if new:
        _made[folder.absolute()] = new[-1].absolute(), {*files, NAME}


def remove_unused() -> None:
    """Remove what this process made for runs that never came to be."""
    while _made:
        folder, (highest, removable) = _made.popitem()
        with suppress(OSError):  # whatever is not empty stays
            files = list(folder.iterdir())
            if all(file.name in removable and file.is_file() for file in files):
                for file in files:
                    file.unlink()
                while folder != highest.parent:
                    folder.rmdir()
                    folder = folder.parent


@contextmanager
def removing_unused() -> Iterator[None]:
    """A refusal leaves no folder behind that it found none of."""
    try:
        yield
    except EigenviewError:
        remove_unused()
        raise
