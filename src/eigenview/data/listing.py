"""Lists of image files with captions and labels: CSV (or TSV) and JSON lines."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain
from typing import TextIO

from eigenview.data.columns import as_captions, caption_columns, find_column, listed_texts, need_column, numbered_labels
from eigenview.data.failures import blamed_on, shown
from eigenview.data.folder import FilesSource
from eigenview.data.places import Place, folder_of, open_place
from eigenview.data.source import Labels
from eigenview.errors import DataError
from eigenview.names import printable, reason_of


@dataclass(slots=True)  # there may be millions
class Entry:
    path: str
    captions: tuple[object, ...] = ()  # as they are written, blank ones too
    label: str | int | float | None = None


class ListSource(FilesSource):
    """The images a .csv, .tsv or .jsonl file names, in its order; paths are relative to ``root``, or to the file.

    A CSV has a header. Every column whose name begins with ``caption`` or ``rewrite`` (or those named by ``captions``,
    with commas between them) holds captions; in JSON lines a caption may be a string or a list. A path that comes again
    is the same image: its captions are added, and its label must be the same. Labels are whole numbers or names.
    """

    def __init__(
        self,
        place: Place,
        *,
        image: str | None = None,
        label: str | None = None,
        captions: str | None = None,
        root: Place | None = None,
        channels: int = 3,
    ) -> None:
        entries = _merged(listed_rows(place), printable(place), image=image, label=label, captions=captions)
        if not entries:
            raise DataError(f"{printable(place)} names no images")
        classes: tuple[str, ...] | None = None
        labels: Labels | None = None
        if any(entry.label not in (None, "") for entry in entries):
            classes, labels = numbered_labels([entry.label for entry in entries], printable(place))
        super().__init__(
            folder_of(place) if root is None else root,
            [entry.path for entry in entries],
            kind="list",
            place=printable(place),
            labels=labels,
            classes=classes,
            captions=[as_captions(entry.captions) for entry in entries],
            channels=channels,
        )


Row = Mapping[str, object]
Check = Callable[[list[str]], object]  # of the names of all columns, as they stand
Roles = tuple[str, list[str], str | None]  # the columns of the path, of captions and of the label


def listed_rows(place: Place, *, check: Check | None = None) -> Iterator[tuple[int, Row]]:
    """Line numbers and rows of a .csv, .tsv or .jsonl file; every problem with the file as one line.

    Of columns that are called alike the last counts, unless ``check``, which sees a table's header, refuses them.
    """
    with blamed_on(place), TextIOWrapper(open_place(place), encoding="utf-8-sig", newline="") as file:
        yield from _table_rows(file, place, check) if _suffix(place) in ("csv", "tsv") else _object_rows(file, place)


def _suffix(place: Place) -> str:
    return str(place).rsplit(".", 1)[-1].lower()


def _table_rows(file: TextIO, place: Place, check: Check | None) -> Iterator[tuple[int, Row]]:
    header = file.readline()
    usual = ";" if header.count(";") > header.count(",") else ","  # spreadsheets of half of Europe write semicolons
    delimiter = "\t" if _suffix(place) == "tsv" else usual
    reader = csv.DictReader(chain([header] if header else [], file), delimiter=delimiter, strict=True)
    with blamed_on(place, "is not a readable CSV file"):
        if check is not None and reader.fieldnames:
            check(list(reader.fieldnames))
        for row in reader:
            if None in row:
                raise DataError(f"{printable(place)}, line {reader.line_num}: more fields than the header names")
            yield reader.line_num, row


def _object_rows(file: TextIO, place: Place) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, or a list nested as deep
            reason = error.msg if isinstance(error, json.JSONDecodeError) else reason_of(error)
            raise DataError(f"{printable(place)}, line {number}: not JSON: {reason}") from error
        if not isinstance(row, dict):
            raise DataError(f"{printable(place)}, line {number}: each line must be a JSON object")
        yield number, row


def _merged(
    rows: Iterator[tuple[int, Row]], place: str, *, image: str | None, label: str | None, captions: str | None
) -> list[Entry]:
    entries: dict[str, Entry] = {}
    roles: dict[tuple[str, ...], Roles] = {}  # of rows like the last one: of a table, of all
    for number, row in rows:
        present = tuple(row)
        if present not in roles:
            path, texts = need_column("image", image, present, place), caption_columns(captions, present, place)
            roles = {present: (path, texts, find_column("label", label, present, place))}
        column, words, labels = roles[present]
        file = row[column]
        if not isinstance(file, str) or not file:
            raise DataError(f"{place}, line {number}: the path of the image is missing")
        if not _is_path(file):
            raise DataError(f"{place}, line {number}: {shown(file)} cannot be a path")
        entry = entries.setdefault(file, Entry(file))
        for word in words:
            entry.captions += tuple(listed_texts(row[word]))
        if labels is None or (said := row[labels]) is None or said == "":
            continue
        where = f"{place}, line {number}"
        if isinstance(said, bool) or not isinstance(said, (str, int, float)):
            raise DataError(f"{where}: a label must be a whole number or a name; got {shown(said)}")
        if entry.label not in (None, said):
            both = f"{shown(entry.label)} above and {shown(said)} here"
            raise DataError(f"{where}: {printable(entry.path)} has label {both}")
        entry.label = said
    return list(entries.values())


def _is_path(text: str) -> bool:
    """Not with half a character (JSON can hold one) or a null byte in it."""
    try:
        return "\0" not in text and bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False
