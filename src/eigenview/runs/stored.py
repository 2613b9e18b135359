"""The JSON files of a run, each with the number of its format; the only reader and writer of that number."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from eigenview.errors import DataError
from eigenview.files import JSON, as_kind, read_object, write_json
from eigenview.names import printable

KEY = "format"

Kind = TypeVar("Kind")


def write_stored(file: Path, content: Mapping[str, object], *, version: int = 1, indent: int | None = 2) -> Path:
    return write_json(file, {KEY: version, **content}, indent=indent)


def stored_object(file: Path, *, newest: int = 1) -> tuple[int, dict[str, JSON]]:
    """The format of a file, 1 where it does not say, and what else it holds; a later one than ``newest`` is refused."""
    content = read_object(file)
    return check_format(content.pop(KEY, 1), file, newest), content


def read_stored(kind: type[Kind], file: Path) -> Kind:
    """The dataclass or model ``kind`` that a file holds; fields of other versions are passed over."""
    return as_kind(kind, stored_object(file)[1], file)


def check_format(written: JSON, file: Path, newest: int = 1) -> int:
    if not isinstance(written, int) or written > newest:
        number = printable(str(written))
        raise DataError(f"{printable(file)} has format {number}; this version reads up to {newest}: update eigenview")
    return written
