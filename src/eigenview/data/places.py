"""Where bytes lie: files of this machine, or addresses (s3://, gs://, hf://, https://, …) that fsspec can read."""

import glob
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from eigenview.data.failures import blamed_on
from eigenview.errors import DataError, SettingError
from eigenview.extras import extra_module
from eigenview.names import printable, reason_of

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
DRIVERS = {  # what fsspec needs for a protocol, where it is not the protocol's name
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
    "abfs": "adlfs",
    "az": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "sftp": "paramiko",
    "ssh": "paramiko",
}

Place = str | Path


def is_address(place: Place) -> bool:
    """Whether a text names a place by protocol. A ``Path`` never does."""
    return isinstance(place, str) and ADDRESS.match(place) is not None


def open_place(place: Place) -> IO[bytes]:
    """The file there, to be read; whatever hinders that is one line."""
    if not is_address(place):
        if not Path(place).is_file():
            raise DataError(f"no such file: {printable(place)}; is the path right?")
        with _explained(place):
            return open(place, "rb")
    system, path = file_system(str(place))
    with _explained(place):
        opened: IO[bytes] = system.open(path, "rb")
        return opened


def size_of(place: Place) -> int:
    """Bytes of the file there; 0 where an address does not tell."""
    if not is_address(place):
        with _explained(place):
            return os.stat(place).st_size
    system, path = file_system(str(place))
    with _explained(place):
        return int(system.size(path) or 0)


def matching(pattern: Place) -> list[str]:
    """The files that a pattern with * or ? matches, sorted; a place that is there, or has none of these, is itself."""
    if not is_address(pattern):
        return [str(pattern)] if os.path.exists(pattern) else sorted(glob.glob(str(pattern)))
    if not glob.has_magic(str(pattern)):
        return [str(pattern)]
    system, path = file_system(str(pattern))
    with _explained(pattern):
        return sorted(system.unstrip_protocol(name) for name in system.glob(path))


def files_below(address: str) -> list[str]:
    """Names of the files below an address, relative to it, sorted."""
    system, path = file_system(address)
    with _explained(address):
        names = [str(name) for name in system.find(path)]
    start = path.rstrip("/") + "/"
    return sorted(name.removeprefix(start).lstrip("/") for name in names if name.startswith(start))


def folder_of(place: Place) -> Place:
    """The folder, or the address, that a file lies in."""
    return str(place).rsplit("/", 1)[0] if is_address(place) else Path(place).parent


def inside(folder: Place, name: str) -> Place:
    """A file by its name in a folder. From an address no name leads elsewhere: not up, nor to another address."""
    if not is_address(folder):
        return Path(folder) / name
    if escapes(name) or is_address(name):
        raise DataError(f"{printable(name)} leads out of {printable(str(folder))}")
    return f"{str(folder).rstrip('/')}/{name}"


def escapes(name: str) -> bool:
    """Whether a name is absolute or climbs out of its folder or archive, on any system."""
    path, windows = PurePosixPath(name), PureWindowsPath(name)
    return path.is_absolute() or bool(windows.anchor) or ".." in path.parts or ".." in windows.parts


def name_of(place: Place) -> str:
    return printable(str(place).rstrip("/").rsplit("/", 1)[-1])


def file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it: anew each time, since a forked process needs its own."""
    matched = ADDRESS.match(address)
    protocol = matched[1].lower() if matched else address
    core = extra_module("fsspec.core", extra="remote", purpose=f"reading {protocol}:// addresses")
    try:
        system, path = core.url_to_fs(address)
    except ImportError:
        driver = DRIVERS.get(protocol, protocol)
        needed = f"reading {protocol}:// addresses needs {driver}, which is not installed"
        raise SettingError(f"{needed}: pip install {driver}") from None
    except Exception as error:
        why = f"{reason_of(error)}; known are s3://, gs://, hf://, https:// and what else fsspec knows"
        raise DataError(f"{printable(address)} cannot be read: {why}") from error
    return system, str(path)


@contextmanager
def _explained(place: Place) -> Iterator[None]:
    with blamed_on(place):  # each protocol's library has its own errors
        try:
            yield
        except FileNotFoundError:
            raise DataError(f"no such file: {printable(place)}; is the address right?") from None
