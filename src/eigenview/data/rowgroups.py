"""Random access to the rows of Parquet files, which are stored in groups: all held if small, a few if not.

Columns of bytes and text are read as dictionaries, so that a value which comes a million times is held once. What a
file claims about itself, in rows and in bytes, must fit its size (:mod:`eigenview.data.limits`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eigenview.data.failures import reason_of
from eigenview.data.limits import ROOM, most_rows, most_unpacked, room_for_image
from eigenview.errors import DataError, EigenviewError
from eigenview.extras import extra_module
from eigenview.names import printable

HELD_WHOLE = 1 << 31  # bytes unpacked: up to 2 GB a table is held in memory, beyond it a few row groups at a time
ROW_GROUPS_HELD = 4
MOST_AT_ONCE = 1024  # rows read at a time where values are written as differences
LARGEST_DICTIONARY = (1 << 31) - 1  # bytes


class RowGroups:
    """Row i of the files put one after the other; ``columns`` are the ones that can be asked for."""

    def __init__(self, paths: Sequence[Path], columns: Sequence[str]) -> None:
        self.paths, self._columns = list(paths), list(columns)
        facts = [_checked(path, self._columns) for path in self.paths]
        self._groups = [(file, group) for file, (rows, _) in enumerate(facts) for group in range(len(rows))]
        self._starts = np.concatenate([[0], np.cumsum([n for rows, _ in facts for n in rows], dtype=np.int64)])
        self._file_starts = np.concatenate([[0], np.cumsum([sum(rows) for rows, _ in facts], dtype=np.int64)])
        self._rooms = [_room(path, unpacked) for path, (_, unpacked) in zip(self.paths, facts, strict=True)]
        self._held: OrderedDict[int, Any] = OrderedDict()
        is_small = sum(unpacked for _, unpacked in facts) <= HELD_WHOLE
        self._most_held = len(self._groups) if is_small else ROW_GROUPS_HELD
        if is_small:  # now, so that forked workers share one copy
            for number in range(len(self._groups)):
                self._group(number)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_held": OrderedDict()}  # a spawned worker reads its own

    def scalar(self, index: int, column: str) -> Any:
        """The value as pyarrow holds it; ``as_py()`` makes a Python object of it."""
        number = self._group_of(index)
        return self._group(number).column(column)[int(index - self._starts[number])]

    def file_of(self, index: int) -> Path:
        return self.paths[self._groups[self._group_of(index)][0]]

    def room(self, index: int) -> int:
        """Bytes of memory that decoding this row's image may take."""
        return self._rooms[self._groups[self._group_of(index)][0]]

    def name(self, index: int) -> str:
        file = self._groups[self._group_of(index)][0]
        return f"{printable(self.paths[file].name)}[{index - self._file_starts[file]}]"

    def _group_of(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} in a table of {len(self)} rows")
        return int(np.searchsorted(self._starts, index, side="right")) - 1

    def _group(self, number: int) -> Any:
        if number in self._held:
            self._held.move_to_end(number)
            return self._held[number]
        file, group = self._groups[number]
        # opened anew each time: a handle inherited by several workers would share one position in the file
        table = _read_group(self.paths[file], group, self._columns)
        self._held[number] = table
        if len(self._held) > self._most_held:
            self._held.popitem(last=False)
        return table


def column_values(path: Path, column: str) -> list[object]:
    """All values of a column as Python objects, equal words as one."""
    rows, _ = _checked(path, [column])
    return [
        value
        for group in range(len(rows))
        for chunk in _read_group(path, group, [column]).column(column).chunks
        for value in as_objects(chunk)
    ]


def open_parquet(path: Path, *, as_dictionaries: Sequence[str] = ()) -> Any:
    parquet = extra_module("pyarrow.parquet", extra="tables", purpose="reading Parquet tables")
    if not path.is_file():
        raise DataError(f"no such file: {printable(path)}; is the path right?")
    with _reading(path, "is not a readable Parquet file"):
        return parquet.ParquetFile(path, read_dictionary=list(as_dictionaries))


def read_schema(path: Path) -> Any:
    """The names and types of the columns, as pyarrow has them."""
    with _reading(path, "is not a readable Parquet file"):
        schema = open_parquet(path).schema_arrow
        _ = schema.names, schema.metadata, str(schema)  # read on demand, and may be no text
        return schema


@contextmanager
def _reading(path: Path, trouble: str) -> Iterator[None]:
    """Whatever a damaged file makes pyarrow raise, which is nearly anything, as one line."""
    try:
        yield
    except EigenviewError:
        raise
    except Exception as error:
        raise DataError(f"{printable(path)} {trouble}: {reason_of(error)}") from error


def _checked(path: Path, columns: Sequence[str]) -> tuple[list[int], int]:
    """Rows of each group, and the bytes that the columns unpack to; both must fit the size of the file."""
    size, unpacked, values = path.stat().st_size, 0, 0
    rows = []
    with _reading(path, "cannot be read"):
        facts = open_parquet(path).metadata
        for number in range(facts.num_row_groups):
            group = facts.row_group(number)
            rows.append(max(0, group.num_rows))
            for leaf in _leaves(group, columns):
                unpacked += max(0, leaf.total_uncompressed_size)
                values = max(values, leaf.num_values)
    if max(values, sum(rows)) > most_rows(size):
        raise DataError(
            f"{printable(path)} claims {max(values, sum(rows)):,} rows; in a file of {size:,} bytes the limit is "
            f"{most_rows(size):,}"
        )
    if unpacked > most_unpacked(size):
        raise DataError(
            f"{printable(path)} unpacks to {unpacked / 1e6:,.0f} MB; for a file of {size:,} bytes the limit is "
            f"{most_unpacked(size) / 1e6:,.0f} MB"
        )
    return rows, unpacked


def _read_group(path: Path, number: int, columns: Sequence[str]) -> Any:
    """The columns of a row group as a table."""
    with _reading(path, "cannot be read"):
        facts = open_parquet(path).metadata.row_group(number)
        leaves = list(_leaves(facts, columns))
        if any("DELTA_BYTE_ARRAY" in leaf.encodings for leaf in leaves):
            table = _read_slowly(path, number, leaves)
        else:
            table = _read_fast(path, number, leaves)
        if table.num_rows != facts.num_rows or not set(columns) <= set(table.column_names):
            raise ValueError(f"row group {number} does not hold what the file says")
        table.validate(full=True)  # places in a dictionary, text that is none
        return table


def _read_fast(path: Path, number: int, leaves: Sequence[Any]) -> Any:
    """A row group in which every value is there at its length, at least once."""
    unpacked = sum(leaf.total_uncompressed_size for leaf in leaves)
    texts = [leaf.path_in_schema for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and _is_simple(leaf)]
    file = open_parquet(path, as_dictionaries=texts if unpacked < LARGEST_DICTIONARY else ())
    return file.read_row_group(number, columns=[leaf.path_in_schema for leaf in leaves], use_threads=False)


def _read_slowly(path: Path, number: int, leaves: Sequence[Any]) -> Any:
    """A row group whose values are written as differences to the one before, so that they may be far longer.

    No value is longer than all that is stored, which bounds what one step may take.
    """
    pyarrow = extra_module("pyarrow", extra="tables", purpose="reading Parquet tables")
    file, columns = open_parquet(path), [leaf.path_in_schema for leaf in leaves]
    longest, most = sum(leaf.total_uncompressed_size for leaf in leaves), most_unpacked(path.stat().st_size)
    at_once = max(1, min(MOST_AT_ONCE, most // max(1, longest)))
    batches, total = [], 0
    for batch in file.iter_batches(at_once, row_groups=[number], columns=columns, use_threads=False):
        total += batch.nbytes
        if total > most:
            raise ValueError(f"it unpacks to more than {most / 1e6:,.0f} MB, the limit for its size")
        batches.append(batch)
    return pyarrow.Table.from_batches(batches) if batches else file.read_row_group(number, columns=columns)


def _leaves(group: Any, columns: Sequence[str]) -> Iterator[Any]:
    """What is stored of the columns: of a nested one several. Values of a fixed length are none of ours."""
    for position in range(group.num_columns):
        leaf = group.column(position)
        path, is_ours = leaf.path_in_schema, leaf.physical_type != "FIXED_LEN_BYTE_ARRAY"
        if is_ours and any(path == name or path.startswith(f"{name}.") for name in columns):
            yield leaf


def _is_simple(leaf: Any) -> bool:
    """Written in a way that pyarrow can read as a dictionary; in the others every value is there at its length."""
    return not any(encoding.startswith(("DELTA", "BYTE_STREAM")) for encoding in leaf.encodings)


def _room(path: Path, unpacked: int) -> int:
    return max(ROOM // 4, room_for_image(path.stat().st_size) - unpacked)


def as_objects(chunk: Any) -> list[object]:
    """The values of an array as Python objects; of a dictionary, equal ones are one."""
    if not hasattr(chunk, "dictionary"):
        values: list[object] = chunk.to_pylist()
        return values
    words = chunk.dictionary.to_pylist()
    return [None if place is None else words[place] for place in chunk.indices.to_pylist()]
