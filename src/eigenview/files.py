"""Files that are whole or not there: written beside their place, brought to disk, then renamed; and read with care.

Nothing else in the project writes where a reader may look; a download is continued beside its place, and moved there by
:func:`move_into_place` when its checksum is right. A full disk, a read-only folder or a damaged file is one
line of error; what stood in the place stays, and no half-written file is left behind.
"""

import errno
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from itertools import count
from pathlib import Path
from typing import TypeAlias, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from eigenview.errors import DataError, EigenviewError, WriteError
from eigenview.names import first_mistake, printable, slug

JSON: TypeAlias = JsonValue  # text, numbers, lists and objects of them
Kind = TypeVar("Kind")

SWAPS = 20  # of a folder while it is read, after which its reader gives up
CROSSED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EISDIR)  # another process was there too
LARGEST_JSON = 1 << 28  # bytes; the largest of ours, the side file of a million embeddings, has 100 MB


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A new file beside ``path``, of the same suffix, to write to; it takes that place when all went well.

    Otherwise it is removed, and what stood at ``path`` stays. Its name cannot be guessed, so no link planted there is
    followed; what a killed process left of earlier tries is removed.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        handle, name = tempfile.mkstemp(prefix=f"{_begun(path)}{os.getpid()}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        beside = Path(name)
        try:
            os.chmod(beside, 0o666 & ~umask())  # mkstemp's own is for the owner alone
            yield beside
            move_into_place(beside, path)
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A new folder beside ``path`` to fill; it takes that place when all went well. See :func:`restore_folder`."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        beside = Path(tempfile.mkdtemp(prefix=f"{_begun(path)}{os.getpid()}-", dir=path.parent))
        try:
            os.chmod(beside, 0o777 & ~umask())
            yield beside
            move_into_place(beside, path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def move_into_place(beside: Path, path: Path) -> None:
    """A file or folder that is whole takes the place of ``path``, on the same disk."""
    with explained(path):
        if beside.is_file():
            to_disk(beside)
            beside.replace(path)  # refused where a folder is
            return
        for file in beside.iterdir():
            to_disk(file)
        for swap in range(SWAPS):
            try:
                _swap(beside, path)
                break
            except OSError as error:
                if swap == SWAPS - 1 or error.errno not in CROSSED:
                    raise
        to_disk(path.parent)
        with suppress(OSError):
            _remove(_old(path))


def _swap(beside: Path, path: Path) -> None:
    """``beside`` takes the place of ``path``; a crash between the renames leaves what :func:`restore_folder` finds."""
    if os.path.lexists(path):
        _remove(_old(path))
        path.rename(_old(path))
    beside.rename(path)


def restore_folder(path: Path) -> Path:
    """``path``, or what it was before a crash fell between the renames of :func:`atomic_folder`; nothing is changed."""
    return path if path.exists() or not _old(path).exists() else _old(path)


def read_folder(find: Callable[[], Path], read: Callable[[Path], Kind]) -> Kind:
    """``read(find())`` of a folder by :func:`atomic_folder`; again where another one took its place meanwhile."""
    for _ in range(SWAPS):
        place = find()
        before = _which(place)
        try:
            content = read(place)
        except (OSError, EigenviewError):
            if _which(find()) == before:
                raise
        else:
            if _which(find()) == before:
                return content
    return read(find())


def _which(folder: Path) -> tuple[int, int] | None:
    """Tells a folder from the one that takes its place."""
    with suppress(OSError):
        facts = folder.stat()
        return facts.st_ino, facts.st_mtime_ns
    return None


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def check_writable(folder: Path) -> None:
    """Refuse a folder that takes no file, before what is to be kept there is computed."""
    with explained(folder), tempfile.TemporaryFile(dir=folder):
        pass


def write_text(path: Path, text: str) -> Path:
    """UTF-8; half a character, as a file's name may hold, is written as its escape, which JSON reads back."""
    with atomic_path(path) as file:
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def write_json(path: Path, content: object, *, indent: int | None = None) -> Path:
    return write_text(path, json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


def read_object(path: Path) -> dict[str, JSON]:
    """What a JSON file with an object holds; whatever is wrong with it is one line that names the file."""
    content = _parsed(_text(path), path)
    if not isinstance(content, dict):
        raise DataError(f"{printable(path)} must hold a JSON object; it holds {type(content).__name__}")
    return content


def read_as(kind: type[Kind], path: Path) -> Kind:
    """The dataclass or model ``kind`` that a JSON file holds, as :func:`from_json` takes it."""
    return from_json(kind, _text(path), path)


def read_text(path: Path) -> str:
    """What a small text file holds; bytes that are no UTF-8 are refused."""
    try:
        return _text(path).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{printable(path)} is no text in UTF-8") from None


def _text(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_JSON + 1)
    except OSError as error:
        raise DataError(f"cannot read {printable(path)}: {error.strerror or error}") from None
    if len(data) > LARGEST_JSON:
        raise DataError(f"{printable(path)} is too large to be one of ours: over {LARGEST_JSON >> 20} MB")
    return data


def to_json(value: object) -> str:
    """A dataclass of plain values as standard JSON: NaN and infinity are refused, since no other reader takes them."""
    assert is_dataclass(value) and not isinstance(value, type)  # noqa: PT018 (it is for the types)
    return json.dumps(asdict(value), allow_nan=False, indent=1, ensure_ascii=False)


def from_json(kind: type[Kind], text: str | bytes, place: str | Path) -> Kind:
    """The dataclass ``kind`` that :func:`to_json` wrote, found in ``place``.

    A field that is missing has its default, one that is unknown is left out: a file opens with an earlier and a later
    version, too. A mistyped field is refused by its path.
    """
    return as_kind(kind, _parsed(text, place), place)


def as_kind(kind: type[Kind], content: JSON, place: str | Path) -> Kind:
    """The dataclass or model ``kind`` in what was read of ``place``, by the rules of :func:`from_json`."""
    try:
        return TypeAdapter(kind).validate_json(json.dumps(content), strict=True)  # lists and whole numbers still fit
    except ValidationError as error:
        mistake = first_mistake(error)
        raise DataError(f"{printable(place)} is no {kind.__name__}: {mistake}; it was edited or damaged") from None


def _parsed(data: str | bytes, place: str | Path) -> JSON:
    name = printable(place)
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return json.loads(text, parse_constant=_no_number)  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text: it was damaged, or is something else") from None
    except RecursionError:
        raise DataError(f"{name} is nested too deeply to be one of ours") from None
    except ValueError as error:
        raise DataError(f"{name} is not JSON: {error}; it was cut short, or is something else") from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON's")


def inside(folder: Path, name: str) -> Path:
    """``folder/name``, refused where a link leads out of the folder: what came from elsewhere reaches no further."""
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a link that leads to itself
        is_inside = False
    if not is_inside:
        raise DataError(f"{printable(path)} is a link that leads out of {printable(folder)}; it is not followed")
    return path


def free_path(name: str, suffix: str, *, is_free: Callable[[Path], bool] | None = None) -> Path:
    """``NAME.csv`` in the working directory, numbered where that is taken, or where it is not what ``is_free`` says."""
    places = (Path(f"{name}{'' if number == 1 else f'-{number}'}{suffix}") for number in count(1))
    return next(place for place in places if (is_free(place) if is_free else not os.path.lexists(place)))


def file_digest(path: Path, kind: str = "sha256") -> str:
    """A hash of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Trouble with the disk as one line that names the file."""
    try:
        yield
    except OSError as error:
        is_below_a_file = isinstance(error, FileExistsError | NotADirectoryError)
        why = "a file is in the place of its folder" if is_below_a_file else error.strerror or str(error)
        raise WriteError(f"cannot write {printable(path)}: {why}; choose another place, or make room there") from None


def _remove_leftovers(path: Path) -> None:
    """Files and folders beside ``path`` that a process of this machine which is gone began to write."""
    for left in path.parent.glob(f"{glob.escape(_begun(path))}*-*"):
        matched = re.fullmatch(r"(\d+)-.*", left.name.removeprefix(_begun(path)))
        if matched is not None and not is_alive(int(matched[1])):
            with suppress(OSError):
                _remove(left)


def _remove(path: Path) -> None:
    """A file, a folder or a link, if it is there; what a link leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _begun(path: Path) -> str:
    """How the names of what this machine writes beside ``path`` begin; names have at most 255 bytes."""
    return f".{path.name[:40]}.{slug(socket.gethostname())[-40:]}-"


def is_alive(process: int) -> bool:
    """Whether a process of this machine runs; one that is not ours to signal does."""
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return not isinstance(error, ProcessLookupError)
    return True


def umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
