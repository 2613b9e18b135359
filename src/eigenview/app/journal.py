"""What a person did, one line of JSON each, on disk before anybody is told so.

Nothing is ever changed or removed: to take something back is a line too. A line that a kill cut short at the end was
never told to be done, and is cut off; damage anywhere else is refused, with its line.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from eigenview.appending import append_line
from eigenview.errors import DataError
from eigenview.files import atomic_path, from_json, to_disk
from eigenview.names import printable

NAME = "journal.jsonl"
Deed = Literal["ask", "answer", "skip", "strike", "undo"]


@dataclass(frozen=True)
class Entry:
    """One line. ``ask``: rows to ask from now on, in place of those before; ``strike``: are not what they seemed."""

    do: Deed
    at: float  # seconds since 1970
    rows: tuple[int, ...] = ()
    names: tuple[str, ...] = ()  # of the rows: they find them again where pictures have come or gone
    label: str = ""  # given, or struck out; empty: no label
    mode: str = ""  # of the page, in which it was done
    predicted: str = ""  # what the labels so far said about the one row; empty: nothing
    probability: float = 0.0  # of that
    after: int = 0  # of questions: how many lines there were when they were chosen
    stays: int = 0  # of questions: how many, the first, are of those before: what the page shows


class Journal:
    """The lines of a session's folder, of which there is one writer at a time (the caller holds the folder's lock)."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.entries: list[Entry] = self._read() if self.path.exists() else []

    def append(self, entry: Entry) -> None:
        """On disk when this returns, or refused and not there at all."""
        is_new = not self.path.exists()
        append_line(self.path, json.dumps(asdict(entry), ensure_ascii=True, allow_nan=False), lasting=True)
        if is_new:
            to_disk(self.path.parent)
        self.entries.append(entry)

    def _read(self) -> list[Entry]:
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {printable(self.path)}: {error.strerror or error}") from None
        whole, _, torn = data.rpartition(b"\n")
        if torn:
            with atomic_path(self.path) as file:
                file.write_bytes(whole + b"\n" if whole else b"")
        return [self._entry(number, line) for number, line in enumerate(whole.split(b"\n"), start=1) if line.strip()]

    def _entry(self, number: int, line: bytes) -> Entry:
        entry = from_json(Entry, line, f"{self.path}, line {number}")
        if entry.names and len(entry.names) != len(entry.rows):
            raise DataError(f"{printable(self.path)}, line {number}: {len(entry.rows)} rows, {len(entry.names)} names")
        return entry


def rows_now(entry: Entry, names: Sequence[str], rows: dict[str, int]) -> list[int]:
    """The rows that an entry speaks of, as they are numbered now; those whose pictures are gone are left out."""
    now = []
    for row, name in zip(entry.rows, entry.names, strict=True):
        if 0 <= row < len(names) and names[row] == name:
            now.append(row)
        elif name in rows:
            now.append(rows[name])
    return now
