"""Random access to the rows of Parquet files, which are stored in groups: all held if small, a few if not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigenview.data.failures import reason_of
from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.names import printable

HELD_WHOLE = 1 << 31  # bytes of files: up to 2 GB a table is held in memory, beyond it a few row groups at a time
ROW_GROUPS_HELD = 4


class RowGroups:
    """Row i of the files put one after the other; ``columns`` are the ones that can be asked for."""

    def __init__(self, paths: Sequence[Path], columns: Sequence[str]) -> None:
        self.paths, self._columns = list(paths), list(columns)
        facts = [open_parquet(path).metadata for path in self.paths]
        self._groups = [(file, group) for file, one in enumerate(facts) for group in range(one.num_row_groups)]
        sizes = [facts[file].row_group(group).num_rows for file, group in self._groups]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._file_starts = np.concatenate([[0], np.cumsum([one.num_rows for one in facts], dtype=np.int64)])
        self._held: OrderedDict[int, Any] = OrderedDict()
        is_small = sum(path.stat().st_size for path in self.paths) <= HELD_WHOLE
        self._most_held = len(self._groups) if is_small else ROW_GROUPS_HELD
        if is_small:  # now, so that forked workers share one copy
            for number in range(len(self._groups)):
                self._group(number)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_held": OrderedDict()}  # a spawned worker reads its own

    def value(self, index: int, column: str) -> Any:
        number = self._group_of(index)
        return self._group(number).column(column)[int(index - self._starts[number])].as_py()

    def file_of(self, index: int) -> Path:
        return self.paths[self._groups[self._group_of(index)][0]]

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
        try:
            table = open_parquet(self.paths[file]).read_row_group(group, columns=self._columns, use_threads=False)
        except Exception as error:  # damaged pages make pyarrow raise nearly anything
            raise DataError(f"{printable(self.paths[file])} cannot be read: {reason_of(error)}") from error
        self._held[number] = table
        if len(self._held) > self._most_held:
            self._held.popitem(last=False)
        return table


def open_parquet(path: Path) -> Any:
    parquet = extra_module("pyarrow.parquet", extra="tables", purpose="reading Parquet tables")
    if not path.is_file():
        raise DataError(f"no such file: {printable(path)}; is the path right?")
    try:
        return parquet.ParquetFile(path)
    except Exception as error:
        raise DataError(f"{printable(path)} is not a readable Parquet file: {reason_of(error)}") from error
