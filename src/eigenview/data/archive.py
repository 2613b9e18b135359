"""Archives unpacked with care: nothing is written outside the folder, no links are made, nothing half done remains."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from eigenview.errors import DataError
from eigenview.names import printable

Member = tuple[str, IO[bytes] | None]  # a name and its content; None for a folder


def escapes(name: str) -> bool:
    """Whether a member's name is absolute or climbs out of its archive, on any system."""
    path, windows = PurePosixPath(name), PureWindowsPath(name)
    return path.is_absolute() or bool(windows.anchor) or ".." in path.parts or ".." in windows.parts


def unpack(archive: str | Path, directory: str | Path) -> None:
    """Unpack a .tar(.gz) or .zip into ``directory``: first aside, then moved into place when all of it is there.

    Members that are already there are replaced. A name that leads out, a link or a device ends it with nothing moved.
    """
    archive, directory = Path(archive), Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=directory))
    try:
        with _members(archive) as members:
            for name, content in members:
                _write(aside, name, content, archive)
        for path in sorted(aside.iterdir()):
            target = directory / path.name
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            os.replace(path, target)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{printable(archive)} cannot be unpacked: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write(aside: Path, name: str, content: IO[bytes] | None, archive: Path) -> None:
    if escapes(name):
        raise DataError(
            f"{printable(archive)} holds {name!r}, a path that leads out of the archive; nothing was unpacked"
        )
    target = aside / name
    if content is None:
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            yield ((facts.filename, None if facts.is_dir() else packed.open(facts)) for facts in packed.infolist())
    else:
        with tarfile.open(archive, "r:*") as unrolled:
            yield _tar_members(unrolled, archive)


def _tar_members(unrolled: tarfile.TarFile, archive: Path) -> Iterator[Member]:
    for facts in unrolled:
        if facts.isdir():
            yield facts.name, None
        elif facts.isreg():
            yield facts.name, unrolled.extractfile(facts)
        else:
            raise DataError(f"{printable(archive)} holds {facts.name!r}, a link or device; nothing was unpacked")
