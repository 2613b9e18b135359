"""Parquet tables with encoded images: the layout of Hugging Face image data sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigenview.data.arrays import checked_labels
from eigenview.data.columns import as_captions, class_names, find_column, listed, need_column, numbered_labels
from eigenview.data.decode import EncodedImage, UnreadableImage, read_depth, read_regular_file
from eigenview.data.failures import reason_of
from eigenview.data.rowgroups import RowGroups, open_parquet
from eigenview.data.source import Depth, Labels, SourceInfo, Unannotated
from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.names import printable


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
        files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
        self._place = printable(files[0]) + (f" and {len(files) - 1} more" if len(files) > 1 else "")
        schemas = [open_parquet(path).schema_arrow for path in files]
        present = list(schemas[0].names)
        self._image = need_column("image", image, present, self._place)
        self._captions = find_column("captions", captions, present, self._place)
        self._depth = find_column("depth", depth, present, self._place)
        label = find_column("label", label, present, self._place)
        columns = [name for name in (self._image, self._captions, self._depth) if name is not None]
        for path, schema in zip(files, schemas, strict=True):
            _check_columns(schema, self._image, [*columns, *([label] if label else [])], printable(path))
        self._rows = RowGroups(files, columns)
        if len(self._rows) == 0:
            raise DataError(f"{self._place} has no rows")
        if label is not None:
            self._classes, self._labels = _read_labels(files, label, self._place)
        self._depth_scale, self._channels = depth_scale, channels

    def __len__(self) -> int:
        return len(self._rows)

    def image(self, index: int) -> EncodedImage:
        name = self.name(index)
        return EncodedImage(self._encoded(index, self._image, name), name=name, channels=self._channels)

    def name(self, index: int) -> str:
        return self._rows.name(index)

    def path(self, index: int) -> Path | None:
        data, path = self._stored(index, self._image)
        return Path(os.path.abspath(self._rows.file_of(index).parent / path)) if path and not data else None

    def captions(self, index: int) -> tuple[str, ...]:
        return () if self._captions is None else as_captions(self._rows.value(index, self._captions))

    def depth(self, index: int) -> Depth | None:
        if self._depth is None:
            return None
        name = f"{self._rows.name(index)} ({self._depth})"
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

    def _stored(self, index: int, column: str) -> tuple[bytes | None, str | None]:
        """The encoded image and the path that a row holds: one of them, both, or neither."""
        value = self._rows.value(index, column)
        data, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
        return (None, data) if isinstance(data, str) else (data, path)

    def _encoded(self, index: int, column: str, name: str) -> bytes:
        data, path = self._stored(index, column)
        if data:
            return bytes(data)
        if not path:
            raise UnreadableImage(name, "the row has no image")
        return read_regular_file(self._rows.file_of(index).parent / path, name=f"{name} {printable(path)}")


def _check_columns(schema: Any, image: str, columns: Sequence[str], place: str) -> None:
    for name in columns:
        if name not in schema.names:
            raise DataError(f"{place} has no column {name!r}, which the first table has; it has {listed(schema.names)}")
    types = extra_module("pyarrow.types", extra="tables", purpose="reading Parquet tables")
    kind = schema.field(image).type
    if types.is_struct(kind):
        fits = bool({kind.field(position).name for position in range(kind.num_fields)} & {"bytes", "path"})
    else:
        tests = (types.is_binary, types.is_large_binary, types.is_string, types.is_large_string)
        fits = any(test(kind) for test in tests)
    if not fits:
        raise DataError(
            f"column {image!r} of {place} must hold images as {{bytes, path}}, bytes or paths; it is {kind}"
        )


def _column(path: Path, file: Any, name: str) -> list[object]:
    try:
        values: list[object] = file.read(columns=[name]).column(name).to_pylist()
    except Exception as error:  # damaged pages make pyarrow raise nearly anything
        raise DataError(f"{printable(path)} cannot be read: {reason_of(error)}") from error
    return values


def _read_labels(files: Sequence[Path], label: str, place: str) -> tuple[tuple[str, ...] | None, Labels]:
    opened = [open_parquet(path) for path in files]
    values = [value for path, file in zip(files, opened, strict=True) for value in _column(path, file, label)]
    if any(isinstance(value, (list, dict)) for value in values):
        raise DataError(f"column {label!r} of {place} must hold one label per image; it holds several")
    names, numbers = numbered_labels(values, place)
    stored = class_names(opened[0].schema_arrow.metadata, label)
    if names is None and stored is not None:
        return stored, checked_labels(numbers, len(numbers), stored)
    return names, numbers
