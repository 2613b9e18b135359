"""Parquet tables with encoded images: the layout of Hugging Face image data sets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigenview.data.arrays import checked_labels
from eigenview.data.columns import as_captions, class_names, find_column, need_column, numbered_labels
from eigenview.data.decode import EncodedImage, UnreadableImage, printable, read_depth, read_regular_file
from eigenview.data.extras import extra_module
from eigenview.data.source import Depth, Labels, SourceInfo, Unannotated
from eigenview.errors import DataError

HELD_WHOLE = 1 << 31  # bytes of files: up to 2 GB a table is held in memory, beyond it a few row groups at a time
ROW_GROUPS_HELD = 4


class TableSource(Unannotated):
    """The rows of one or more Parquet files, in the given order of files.

    ``image`` is a column of structs {bytes, path}, of encoded bytes, or of paths (relative to the table). ``captions``
    holds strings or lists of strings. ``depth`` is stored like an image; its numbers are divided by ``depth_scale``.
    Columns not named are found by their common names, or taken as absent. Class names come from the schema.

    Tables of up to 2 GB are held in memory, encoded. Larger ones are read by row groups, four held at a time: fine
    in order, slow when shuffled: convert those to shards or to a folder.
    """

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        image: str | None = None,
        label: str | None = None,
        captions: str | None = None,
        depth: str | None = None,
        depth_scale: float = 1.0,
        channels: int = 3,
    ) -> None:
        self.paths = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
        self._channels, self._depth_scale = channels, depth_scale
        self._place = printable(self.paths[0]) + (f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else "")
        opened = [_open_table(path) for path in self.paths]
        schema = opened[0].schema_arrow
        present = list(schema.names)
        self._image = need_column("image", image, present, self._place)
        self._captions = find_column("captions", captions, present, self._place)
        self._depth = find_column("depth", depth, present, self._place)
        label = find_column("label", label, present, self._place)
        wanted = [name for name in (self._image, self._captions, self._depth) if name is not None]
        for path, file in zip(self.paths, opened, strict=True):
            for name in (*wanted, *([label] if label else [])):
                need_column("image", name, list(file.schema_arrow.names), printable(path))
        self._columns = wanted
        _check_image_type(schema.field(self._image).type, self._image, self._place)
        self._groups = [(f, g) for f, file in enumerate(opened) for g in range(file.num_row_groups)]
        sizes = [file.metadata.row_group(g).num_rows for file in opened for g in range(file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        counts = [file.metadata.num_rows for file in opened]
        self._file_starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        if len(self) == 0:
            raise DataError(f"{self._place} has no rows")
        self._classes, self._labels = None, None
        if label is not None:
            self._classes, self._labels = _read_labels(opened, label, self._place)
        self._held: OrderedDict[int, Any] = OrderedDict()
        is_small = sum(path.stat().st_size for path in self.paths) <= HELD_WHOLE
        self._most_held = len(self._groups) if is_small else ROW_GROUPS_HELD
        if is_small:  # now, so that forked workers share one copy
            for number in range(len(self._groups)):
                self._group(number)

    @property
    def labels(self) -> Labels | None:
        return self._labels

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self._classes

    def __len__(self) -> int:
        return int(self._starts[-1])

    def image(self, index: int) -> EncodedImage:
        name = self._name(index)
        return EncodedImage(self._encoded(index, self._image, name), name=name, channels=self._channels)

    def captions(self, index: int) -> tuple[str, ...]:
        return () if self._captions is None else as_captions(self._value(index, self._captions))

    def depth(self, index: int) -> Depth | None:
        if self._depth is None:
            return None
        name = f"{self._name(index)} ({self._depth})"
        depth: Depth = read_depth(self._encoded(index, self._depth, name), name=name) / np.float32(self._depth_scale)
        return depth

    def describe(self) -> SourceInfo:
        return SourceInfo(
            kind="table",
            place=self._place,
            count=len(self),
            classes=self._classes,
            is_labelled=self._labels is not None,
            is_captioned=self._captions is not None,
            has_depth=self._depth is not None,
        )

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_held": OrderedDict()}  # a spawned worker reads its own

    def _name(self, index: int) -> str:
        file = self._groups[self._locate(index)[0]][0]
        return f"{printable(self.paths[file].name)}[{index - self._file_starts[file]}]"

    def _locate(self, index: int) -> tuple[int, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} in a table of {len(self)} rows")
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return number, int(index - self._starts[number])

    def _value(self, index: int, column: str) -> Any:
        number, row = self._locate(index)
        return self._group(number).column(column)[row].as_py()

    def _encoded(self, index: int, column: str, name: str) -> bytes:
        value = self._value(index, column)
        data, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
        if isinstance(data, str):
            data, path = None, data
        if data:
            return bytes(data)
        if not path:
            raise UnreadableImage(name, "the row has no image")
        folder = self.paths[self._groups[self._locate(index)[0]][0]].parent
        return read_regular_file(folder / path, name=f"{name} {printable(path)}")

    def _group(self, number: int) -> Any:
        if number in self._held:
            self._held.move_to_end(number)
            return self._held[number]
        file, group = self._groups[number]
        # opened anew each time: a handle inherited by several workers would share one position in the file
        try:
            table = _open_table(self.paths[file]).read_row_group(group, columns=self._columns, use_threads=False)
        except OSError as error:
            raise DataError(f"{printable(self.paths[file])} cannot be read: {_first_line(error)}") from error
        self._held[number] = table
        if len(self._held) > self._most_held:
            self._held.popitem(last=False)
        return table


def _open_table(path: Path) -> Any:
    parquet = extra_module("pyarrow.parquet", extra="tables", purpose="reading Parquet tables")
    if not path.is_file():
        raise DataError(f"no such file: {printable(path)}; is the path right?")
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's errors derive from these
        raise DataError(f"{printable(path)} is not a readable Parquet file: {_first_line(error)}") from error


def _check_image_type(kind: Any, column: str, place: str) -> None:
    types = extra_module("pyarrow.types", extra="tables", purpose="reading Parquet tables")
    if types.is_struct(kind):
        fields = {kind.field(position).name for position in range(kind.num_fields)}
        fits = bool(fields & {"bytes", "path"})
    else:
        fits = any(
            test(kind) for test in (types.is_binary, types.is_large_binary, types.is_string, types.is_large_string)
        )
    if not fits:
        raise DataError(
            f"column {column!r} of {place} must hold images as {{bytes, path}}, bytes or paths; it is {kind}"
        )


def _read_labels(opened: Sequence[Any], label: str, place: str) -> tuple[tuple[str, ...] | None, Labels]:
    values = [value for file in opened for value in file.read(columns=[label]).column(label).to_pylist()]
    if any(isinstance(value, (list, dict)) for value in values):
        raise DataError(f"column {label!r} of {place} must hold one label per image; it holds several")
    names, numbers = numbered_labels(values, place)
    stored = class_names(opened[0].schema_arrow.metadata, label)
    if names is None and stored is not None:
        return stored, checked_labels(numbers, len(numbers), stored)
    return names, numbers


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
