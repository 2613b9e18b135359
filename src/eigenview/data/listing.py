"""Lists of image files with captions and labels: CSV (or TSV) and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from eigenview.data.columns import COMMON_NAMES, as_captions, find_column, need_column, numbered_labels
from eigenview.data.failures import reason_of, shown
from eigenview.data.files import FilesSource
from eigenview.data.source import Labels
from eigenview.errors import DataError
from eigenview.names import printable


@dataclass(slots=True)  # there may be millions
class Entry:
    path: str
    captions: tuple[str, ...] = ()
    label: str | int | float | None = None


class ListSource(FilesSource):
    """The images a .csv, .tsv or .jsonl file names, in its order; paths are relative to ``root``, or to the file.

    A CSV has a header. Every column whose name begins with ``caption`` (or the one column named by ``captions``)
    holds captions; in JSON lines a caption may be a string or a list. A path that comes again is the same image: its
    captions are added, and its label must be the same. Labels are whole numbers or names.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        image: str | None = None,
        label: str | None = None,
        captions: str | None = None,
        root: str | Path | None = None,
        channels: int = 3,
    ) -> None:
        file = Path(path)
        entries = _merged(_rows(file), file, image=image, label=label, captions=captions)
        if not entries:
            raise DataError(f"{printable(path)} names no images")
        classes: tuple[str, ...] | None = None
        labels: Labels | None = None
        if any(entry.label not in (None, "") for entry in entries):
            classes, labels = numbered_labels([entry.label for entry in entries], printable(path))
        super().__init__(
            file.parent if root is None else Path(root),
            [entry.path for entry in entries],
            kind="list",
            place=printable(path),
            labels=labels,
            classes=classes,
            captions=[entry.captions for entry in entries],
            channels=channels,
        )


Row = Mapping[str, object]
Roles = tuple[str, list[str], str | None]


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Line numbers and rows; every problem with the file as one line."""
    if not path.is_file():
        raise DataError(f"no such file: {printable(path)}; is the path right?")
    is_table = path.suffix.lower() in (".csv", ".tsv")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _table_rows(file, path) if is_table else _object_rows(file, path)
    except UnicodeDecodeError as error:
        raise DataError(f"{printable(path)} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise DataError(f"{printable(path)} cannot be read: {reason_of(error)}") from error


def _table_rows(file: TextIO, path: Path) -> Iterator[tuple[int, Row]]:
    reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
    try:
        for row in reader:
            if None in row:
                raise DataError(f"{printable(path)}, line {reader.line_num}: more fields than the header names")
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{printable(path)} is not a readable CSV file: {reason_of(error)}") from error


def _object_rows(file: TextIO, path: Path) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, or a list nested as deep
            reason = error.msg if isinstance(error, json.JSONDecodeError) else reason_of(error)
            raise DataError(f"{printable(path)}, line {number}: not JSON: {reason}") from error
        if not isinstance(row, dict):
            raise DataError(f"{printable(path)}, line {number}: each line must be a JSON object")
        yield number, row


def _merged(
    rows: Iterator[tuple[int, Row]], path: Path, *, image: str | None, label: str | None, captions: str | None
) -> list[Entry]:
    entries: dict[str, Entry] = {}
    place = printable(path)
    roles: dict[tuple[str, ...], Roles] = {}  # of a table one, of JSON lines as many as there are kinds of lines
    for number, row in rows:
        present = tuple(row)
        if present not in roles:
            roles = {present: _roles(present, place, image=image, label=label, captions=captions)}
        column, words, labels = roles[present]
        file = row[column]
        if not isinstance(file, str) or not file:
            raise DataError(f"{place}, line {number}: the path of the image is missing")
        if not _is_path(file):
            raise DataError(f"{place}, line {number}: {shown(file)} cannot be a path")
        entry = entries.setdefault(file, Entry(file))
        for word in words:
            entry.captions += as_captions(row[word])
        if labels is not None:
            _set_label(entry, row[labels], f"{place}, line {number}")
    return list(entries.values())


def _roles(present: Sequence[str], place: str, *, image: str | None, label: str | None, captions: str | None) -> Roles:
    """The columns of the path, of captions and of the label."""
    path = need_column("image", image, present, place)
    if captions is None:
        words = [name for name in present if name.startswith("caption") or name in COMMON_NAMES["captions"]]
    else:
        words = [need_column("captions", captions, present, place)]
    return path, words, find_column("label", label, present, place)


def _is_path(text: str) -> bool:
    """Not with half a character (JSON can hold one) or a null byte in it."""
    try:
        return "\0" not in text and bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _set_label(entry: Entry, label: object, where: str) -> None:
    if label is None or label == "":
        return
    if isinstance(label, bool) or not isinstance(label, (str, int, float)):
        raise DataError(f"{where}: a label must be a whole number or a name; got {shown(label)}")
    if entry.label not in (None, label):
        both = f"{shown(entry.label)} above and {shown(label)} here"
        raise DataError(f"{where}: {printable(entry.path)} has label {both}")
    entry.label = label
