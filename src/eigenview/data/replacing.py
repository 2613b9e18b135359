"""Files that are whole or not there: written beside their place, checked, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigenview.data.decode import printable
from eigenview.errors import DataError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside ``path``, of the same suffix, to write to; it takes that place when all went well.

    Otherwise it is removed, and what stood at ``path`` stays. A disk that is full or read-only: one line that says so.
    """
    beside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        beside.replace(path)
    except OSError as error:
        is_inside_a_file = isinstance(error, (FileExistsError, NotADirectoryError))
        why = "a file is in the place of its folder" if is_inside_a_file else error.strerror or error
        raise DataError(f"cannot write {printable(path)}: {why}; choose another place, or make room there") from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
