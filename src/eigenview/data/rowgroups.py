"""Random access to the rows of Parquet files, which are stored in groups: all held if small, a few if not.

Columns of bytes and text are read as dictionaries, so that a value which comes a million times is held once. What a
file claims about itself, in rows and in bytes, must fit its size (:mod:`eigenview.data.limits`).
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenview.data.failures import blamed_on
from eigenview.data.footers import BYTE_ARRAY, DELTA_BYTE_ARRAY, FIXED_LENGTH, SIMPLE, Group, Leaf, read_groups
from eigenview.data.limits import ROOM, most_rows, most_unpacked, room_for_image
from eigenview.data.places import Place, name_of, open_place, size_of
from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.names import printable

HELD_WHOLE = 1 << 31  # bytes unpacked: up to 2 GB a table is held in memory, beyond it a few row groups at a time
ROW_GROUPS_HELD = 4
MOST_AT_ONCE = 1024  # rows read at a time where values are written as differences
LARGEST_DICTIONARY = (1 << 31) - 1  # bytes


class RowGroups:
    """Row i of the files put one after the other; ``columns`` are the ones that can be asked for."""

    def __init__(self, places: Sequence[Place], columns: Sequence[str]) -> None:
        self.places, self._columns = list(places), list(columns)
        stored = [checked_groups(place, self._columns) for place in self.places]
        self._groups = [
            (file, number, group) for file, groups in enumerate(stored) for number, group in enumerate(groups)
        ]
        self._starts = _ends([group.rows for _, _, group in self._groups])
        self._file_starts = _ends([sum(group.rows for group in groups) for groups in stored])
        unpacked = [sum(group.unpacked for group in groups) for groups in stored]
        self._rooms = [
            max(ROOM // 4, room_for_image(size_of(place)) - total)
            for place, total in zip(self.places, unpacked, strict=True)
        ]
        self._held: OrderedDict[int, Any] = OrderedDict()
        is_small = sum(unpacked) <= HELD_WHOLE
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

    def place_of(self, index: int) -> Place:
        """The file that holds this row."""
        return self.places[self._groups[self._group_of(index)][0]]

    def room(self, index: int) -> int:
        """Bytes of memory that decoding this row's image may take."""
        return self._rooms[self._groups[self._group_of(index)][0]]

    def name(self, index: int) -> str:
        file = self._groups[self._group_of(index)][0]
        return f"{name_of(self.places[file])}[{index - self._file_starts[file]}]"

    def _group_of(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} in a table of {len(self)} rows")
        return int(np.searchsorted(self._starts, index, side="right")) - 1

    def _group(self, number: int) -> Any:
        if number in self._held:
            self._held.move_to_end(number)
            return self._held[number]
        file, place, group = self._groups[number]
        # opened anew each time: a handle inherited by several workers would share one position in the file
        table = _read_group(self.places[file], place, group, self._columns)
        self._held[number] = table
        if len(self._held) > self._most_held:
            self._held.popitem(last=False)
        return table


def _ends(counts: Sequence[int]) -> npt.NDArray[np.int64]:
    """0 and the running sums."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def column_values(place: Place, column: str) -> list[object]:
    """All values of a column as Python objects, equal words as one."""
    groups = checked_groups(place, [column])
    return [
        value
        for number, group in enumerate(groups)
        for chunk in _read_group(place, number, group, [column]).column(column).chunks
        for value in as_objects(chunk)
    ]


def read_schema(place: Place) -> Any:
    """The names and types of the columns, as pyarrow has them."""
    with _opened(place) as file, blamed_on(place, "is not a readable Parquet file"):
        schema = file.schema_arrow
        _ = schema.names, schema.metadata, str(schema)  # read on demand, and may be no text
        return schema


@contextmanager
def _opened(place: Place, *, as_dictionaries: Sequence[str] = ()) -> Iterator[Any]:
    """The file, opened by pyarrow."""
    parquet = extra_module("pyarrow.parquet", extra="tables", purpose="reading Parquet tables")
    with open_place(place) as stream:
        with blamed_on(place, "is not a readable Parquet file"):
            file = parquet.ParquetFile(stream, read_dictionary=list(as_dictionaries))
        yield file


def checked_groups(place: Place, columns: Sequence[str]) -> list[Group]:
    """The row groups, of each only what is stored of the columns. Rows and bytes must fit the size of the file."""
    size = size_of(place)
    starts = tuple(f"{name}." for name in columns)  # of a nested one several are stored; fixed lengths are not ours

    def is_ours(leaf: Leaf) -> bool:
        return leaf.kind != FIXED_LENGTH and (leaf.path in columns or leaf.path.startswith(starts))

    with blamed_on(place), open_place(place) as stream:
        groups = [Group(group.rows, tuple(filter(is_ours, group.leaves))) for group in read_groups(stream, size)]
    rows = sum(group.rows for group in groups)
    values = max((leaf.values for group in groups for leaf in group.leaves), default=0)
    unpacked = sum(group.unpacked for group in groups)
    if max(values, rows) > most_rows(size):
        raise DataError(
            f"{printable(place)} claims {max(values, rows):,} rows; in a file of {size:,} bytes the limit is "
            f"{most_rows(size):,}"
        )
    if unpacked > most_unpacked(size):
        raise DataError(
            f"{printable(place)} unpacks to {unpacked / 1e6:,.0f} MB; for a file of {size:,} bytes the limit is "
            f"{most_unpacked(size) / 1e6:,.0f} MB"
        )
    return groups


def _read_group(place: Place, number: int, group: Group, columns: Sequence[str]) -> Any:
    """The columns of a row group as a table."""
    with blamed_on(place):
        if any(DELTA_BYTE_ARRAY in leaf.encodings for leaf in group.leaves):
            table = _read_slowly(place, number, group)
        else:  # every value is there at its length, at least once
            texts = [leaf.path for leaf in group.leaves if leaf.kind == BYTE_ARRAY and leaf.encodings <= SIMPLE]
            with _opened(place, as_dictionaries=texts if group.unpacked < LARGEST_DICTIONARY else ()) as file:
                table = file.read_row_group(number, columns=[leaf.path for leaf in group.leaves], use_threads=False)
        if table.num_rows != group.rows or not set(columns) <= set(table.column_names):
            raise ValueError(f"row group {number} does not hold what the file says")
        table.validate(full=True)  # places in a dictionary, text that is none
        return table


def _read_slowly(place: Place, number: int, group: Group) -> Any:
    """A row group whose values are written as differences to the one before, so that they may be far longer.

    No value is longer than all that is stored, which bounds what one step may take.
    """
    pyarrow = extra_module("pyarrow", extra="tables", purpose="reading Parquet tables")
    columns, most = [leaf.path for leaf in group.leaves], most_unpacked(size_of(place))
    at_once = max(1, min(MOST_AT_ONCE, most // max(1, group.unpacked)))
    batches, total = [], 0
    with _opened(place) as file:
        for batch in file.iter_batches(at_once, row_groups=[number], columns=columns, use_threads=False):
            total += batch.nbytes
            if total > most:
                raise ValueError(f"it unpacks to more than {most / 1e6:,.0f} MB, the limit for its size")
            batches.append(batch)
        return pyarrow.Table.from_batches(batches) if batches else file.read_row_group(number, columns=columns)


def as_objects(chunk: Any) -> list[object]:
    """The values of an array as Python objects; of a dictionary, equal ones are one."""
    if not hasattr(chunk, "dictionary"):
        values: list[object] = chunk.to_pylist()
        return values
    words = chunk.dictionary.to_pylist()
    return [None if place is None else words[place] for place in chunk.indices.to_pylist()]
