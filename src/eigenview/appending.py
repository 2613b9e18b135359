"""Files that grow at their end, such as logs: each piece is there whole, or not at all."""

import errno
import os
from pathlib import Path

from eigenview.files import explained


def append_line(path: Path, line: str, *, lasting: bool = False) -> None:
    """One more line of a file that is read line by line; a link in its place is not followed."""
    append_bytes(path, f"{line}\n".encode(errors="backslashreplace"), lasting=lasting)


def append_bytes(path: Path, data: bytes, *, lasting: bool = False) -> None:
    """At the end of a file, all of it or nothing; ``lasting``: on disk before this returns. No link is followed."""
    with explained(path):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        with os.fdopen(handle, "ab", buffering=0) as file:
            length = file.seek(0, os.SEEK_END)
            try:
                written = file.write(data)
                if written != len(data):  # what the disk still took
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if lasting:
                    os.fsync(file.fileno())
            except OSError:
                file.truncate(length)
                raise
