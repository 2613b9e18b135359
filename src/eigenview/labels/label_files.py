"""Labels in files that people fill in: CSV or Parquet with the columns ``name`` and ``label``, and tables written so.

A name is that of an image as embeddings have it, or the end of its path. An empty label is none, and so is −1, here as
everywhere. What names no image, or says two things about one, is refused with its line; nothing is written over unless
that is asked for.
"""

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.data.columns import find_column, listed
from eigenview.data.failures import blamed_on, shown
from eigenview.data.listing import listed_rows
from eigenview.data.source import NO_LABEL
from eigenview.errors import DataError, SettingError, WriteError
from eigenview.extras import extra_module
from eigenview.files import atomic_path
from eigenview.names import counted, printable
from eigenview.search.formats import NAMES
from eigenview.search.stored import Embeddings

TABLES = (".csv", ".parquet")  # that are written
READ = (*TABLES, ".tsv", ".jsonl")
NAMED = ("name", "path", *(name for name in NAMES if name not in ("name", "path")), "image")

Column = Sequence[object] | NDArray[np.generic]
AnyLabels: TypeAlias = "GivenLabels | str | Path | Mapping[Any, object] | Sequence[object] | NDArray[Any] | Tensor"


@dataclass(frozen=True)
class GivenLabels:
    """What is known about some images."""

    labels: Tensor  # (n,) numbers of classes, −1 for none
    classes: tuple[str, ...]  # only those that occur

    @property
    def count(self) -> int:
        return int((self.labels != NO_LABEL).sum())

    def __str__(self) -> str:
        """``12 labels of 3 classes: cat 5, dog 4, gull 3``."""
        sizes = torch.bincount(self.labels[self.labels != NO_LABEL], minlength=len(self.classes)).tolist()
        shown_sizes = [f"{name} {size:,}" for name, size in zip(self.classes, sizes, strict=True)]
        more = f", and {len(shown_sizes) - 12} more" if len(shown_sizes) > 12 else ""
        said = f"{counted(self.count, 'label')} of {len(self.classes)} class{'es' * (len(self.classes) != 1)}"
        return f"{said}: {', '.join(shown_sizes[:12])}{more}" if shown_sizes else "no label yet"


def read_labels(
    files: str | Path | Iterable[str | Path], stored: Embeddings, *, column: str | None = None
) -> GivenLabels:
    """The labels in one or several files, of the images in ``stored``; ``column`` holds them, ``label`` unless given.

    The same said twice is fine. Names that are no image's, and two labels of one image, are refused.
    """
    several = [Path(files)] if isinstance(files, (str, Path)) else [Path(file) for file in files]
    said: dict[int, tuple[str, str]] = {}  # row → label, and where it stands
    unknown: list[tuple[str, str]] = []
    names = _Names(stored)
    for file in several:
        for where, name, label in _entries(file, column):
            row = names.row(name, file)
            if row is None:
                unknown.append((where, name))
            elif label and (before := said.setdefault(row, (label, where)))[0] != label:
                raise DataError(f"{where}: {shown(name)} is {shown(label)}, but {before[1]} says {shown(before[0])}")
    if unknown:
        where, name = unknown[0]
        stored.row_of_name(name)  # which says so where it is not unknown but ambiguous
        more = f" (nor {counted(len(unknown) - 1, 'more name')})" if len(unknown) > 1 else ""
        raise DataError(
            f"{where}: {shown(name)}{more} is no image of {printable(stored.place)}, where the first is called "
            f"{shown(stored.paths[0])}; are they of the same pictures?"
        )
    return numbered({row: label for row, (label, _) in said.items()}, len(stored))


def labels_from(given: AnyLabels, stored: Embeddings) -> GivenLabels:
    """Labels in any form: a file or several, {name or row: label}, or one a row; None, −1 or "" for none.

    Several are a sequence in which all are paths, or texts that end as tables do, such as ``("a.csv", "b.csv")``.
    """
    if isinstance(given, GivenLabels):
        return given
    if isinstance(given, (str, Path)):
        return read_labels(given, stored)
    if isinstance(given, Mapping):
        names = _Names(stored)
        rows = {key: int(key) if _is_number(key) else names.row(str(key), Path("here")) for key in given}
        if wrong := [key for key, row in rows.items() if row is None or not 0 <= row < len(stored)]:
            raise DataError(f"{shown(wrong[0])} is no image of {printable(stored.place)}, nor the number of one")
        said = {row: _label(given[key], f"image {key}") for key, row in rows.items() if row is not None}
        if len(said) < len(rows):
            raise DataError("two of the names given are of one image; keep one of them")
        return numbered({row: label for row, label in said.items() if label}, len(stored))
    listed_labels: list[Any] = given.tolist() if isinstance(given, (Tensor, np.ndarray)) else list(given)
    if listed_labels and all(isinstance(each, Path) or _is_table(each) for each in listed_labels):
        return read_labels(listed_labels, stored)
    if len(listed_labels) != len(stored):
        raise DataError(f"labels are needed for {len(stored):,} rows, None for no label; got {len(listed_labels):,}")
    texts = {row: _label(label, f"row {row}") for row, label in enumerate(listed_labels)}
    return numbered({row: label for row, label in texts.items() if label}, len(stored))


def own_labels(stored: Embeddings) -> GivenLabels:
    """The labels that the embeddings have: of class folders, or of a table's column."""
    if stored.labels is None:
        raise DataError(
            f"{printable(stored.place)} has no labels: give them (--labels FILE), or embed images that have some, such "
            "as 'photos/?labelled=yes' where each folder is a class"
        )
    rows = (stored.labels != NO_LABEL).nonzero().flatten().tolist()
    return numbered({row: str(stored.label_name(row)) for row in rows}, len(stored))


def numbered(said: Mapping[int, str], rows: int) -> GivenLabels:
    """Class names of rows as numbers: whole numbers in their order, words in that of the alphabet."""
    classes = sorted(set(said.values()), key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name))
    numbers = {name: number for number, name in enumerate(classes)}
    labels = torch.full((rows,), NO_LABEL)
    for row, name in said.items():
        labels[row] = numbers[name]
    return GivenLabels(labels, tuple(classes))


def write_labels(out: str | Path, stored: Embeddings, given: GivenLabels, *, overwrite: bool = False) -> Path:
    """The labelled rows as :func:`read_labels` reads them."""
    rows = (given.labels != NO_LABEL).nonzero().flatten().tolist()
    columns: dict[str, Column] = {
        "name": [stored.paths[row] for row in rows],
        "label": [given.classes[int(given.labels[row])] for row in rows],
    }
    return write_table(out, columns, overwrite=overwrite)


def write_table(out: str | Path, columns: Mapping[str, Column], *, overwrite: bool = False) -> Path:
    """Columns of one length as CSV or Parquet, by the ending; whole or not at all."""
    place = Path(out)
    check_place(place, overwrite=overwrite)
    with atomic_path(place) as file:
        if place.suffix == ".parquet":
            arrow = extra_module("pyarrow", extra="tables", purpose="writing Parquet")
            parquet = extra_module("pyarrow.parquet", extra="tables", purpose="writing Parquet")
            parquet.write_table(
                arrow.table({name: arrow.array(list(values)) for name, values in columns.items()}), file
            )
        else:
            with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as text:
                writer = csv.writer(text, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(zip(*map(_as_text, columns.values()), strict=True))
    return place


def check_place(place: Path, *, overwrite: bool, suffixes: Sequence[str] = TABLES) -> None:
    """Refuse what cannot be written, or would be written over, before anything is computed."""
    if place.suffix not in suffixes:
        raise SettingError(f"a {' or '.join(suffixes)} file is written; got {place.name!r}")
    if place.suffix == ".parquet":
        extra_module("pyarrow", extra="tables", purpose="writing Parquet")
    if os.path.lexists(place) and not overwrite:
        raise WriteError(f"{printable(place)} is there already: name another file, or say --overwrite (overwrite=True)")


class _Names:
    """Which row a name is of: exactly, as a path from here or from the file, or as the end of one row's path."""

    def __init__(self, stored: Embeddings) -> None:
        self.stored = stored
        self.repeated = {name for name, times in Counter(stored.paths).items() if times > 1}

    def row(self, name: str, file: Path) -> int | None:
        stored = self.stored
        for known in (name, printable(os.path.abspath(name)), printable(os.path.abspath(file.parent / name))):
            if known in self.repeated:
                raise DataError(f"{shown(known)} is the name of several images in {printable(stored.place)}")
            if (row := stored.row_of_path(known)) is not None:
                return row
        if stored.has_no_names and name.isdecimal() and int(name) < len(stored):
            return int(name)
        return stored.row_of_tail(name)


def _entries(file: Path, column: str | None) -> Iterator[tuple[str, str, str]]:
    """(where it stands, name, label) of a file's rows."""
    suffix = file.suffix.lower()
    if not file.is_file():
        raise DataError(f"no such file of labels: {printable(file)}; is the path right?")
    if suffix not in READ:
        raise DataError(f"labels are read from {', '.join(READ)}; got {printable(file)}")
    unit = "row" if suffix == ".parquet" else "line"
    roles: tuple[str, str] | None = None
    check = partial(_roles, file=file, column=column)
    for number, row in _table_rows(file, column) if suffix == ".parquet" else listed_rows(file, check=check):
        where = f"{printable(file)}, {unit} {number}"
        roles = roles or check(list(row))
        name, label = _text(row.get(roles[0]), where), _label(row.get(roles[1]), where)
        if not name and label:
            raise DataError(f"{where}: a label, but no name of an image")
        if name:
            yield where, name, label
    if roles is None:
        raise DataError(f"{printable(file)} has no rows: name,label in the first line, then a line for each image")


def _roles(present: list[str], file: Path, column: str | None) -> tuple[str, str]:
    place = printable(file)
    name = next((known for known in NAMED if known in present), None)
    label = find_column("label", column, present, place)
    if name is None or label is None:
        what = "name" if name is None else "label"
        raise DataError(f"{place} has no column {what}; it has {listed(present)}: the first line must read name,label")
    if twice := [role for role in (name, label) if present.count(role) > 1]:
        raise DataError(f"{place} has two columns {twice[0]}: keep one of them, or give it another name")
    return name, label


def _table_rows(file: Path, column: str | None) -> Iterator[tuple[int, dict[str, object]]]:
    parquet = extra_module("pyarrow.parquet", extra="tables", purpose="reading Parquet")
    with blamed_on(file, "is not a readable Parquet file"):
        opened = parquet.ParquetFile(file)
        columns = list(_roles(list(opened.schema_arrow.names), file, column))
        table = opened.read(columns=columns)
        table.validate(full=True)
        yield from enumerate(table.to_pylist(), start=1)


def _label(value: object, where: str) -> str:
    """A cell as text, nothing for no label."""
    text = _text(value, where)
    return "" if text == str(NO_LABEL) else text


def _text(value: object, where: str) -> str:
    """A cell as text; whole numbers without a point, nothing for what is missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, (float, np.floating)) and value.is_integer():
        value = int(value)
    if not isinstance(value, str) and not _is_number(value):
        raise DataError(f"{where}: names and labels are text or whole numbers; got {shown(value)}")
    return str(value).strip()


def _is_number(value: object) -> bool:
    """Whether it is whole, of Python or NumPy; True is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_table(value: object) -> bool:
    return isinstance(value, str) and Path(value).suffix.lower() in READ


def _as_text(column: Column) -> Iterator[object]:
    """Numbers in as many digits as they are good for."""
    for value in column:
        yield f"{float(value):.6g}" if isinstance(value, (float, np.floating)) else "" if value is None else value


def _is_whole(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdecimal()
