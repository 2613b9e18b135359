"""Parquet tables with encoded images: the layout of Hugging Face image data sets."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigenview.data.arrays import checked_labels
from eigenview.data.columns import (
    as_captions,
    caption_columns,
    class_names,
    find_column,
    listed,
    listed_texts,
    need_column,
    numbered_labels,
)
from eigenview.data.decode import EncodedImage, UnreadableImage, read_depth, read_image_file
from eigenview.data.failures import shown
from eigenview.data.places import Place, folder_of, inside, is_address
from eigenview.data.rowgroups import RowGroups, column_values, read_schema
from eigenview.data.source import Depth, Unannotated
from eigenview.errors import DataError
from eigenview.names import printable

MOST_CAPTIONS = 1000  # of one image
LONGEST_CAPTIONS = 1 << 20  # letters of all captions of an image
TEXT = {"string", "large_string", "null"}  # pyarrow's names of types
BYTES = TEXT | {"binary", "large_binary"}
NUMBERS = {"halffloat", "float", "double", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}


class TableSource(Unannotated):
    """The rows of one or more Parquet files, in the given order of files.

    ``image`` is a column of structs {bytes, path}, of encoded bytes, or of paths (relative to the table). ``captions``
    names columns of strings or of lists of strings, with commas between them. ``depth`` is stored like an image; its
    numbers are divided by ``depth_scale``. Columns not named are found by their common names, or taken as absent; of
    captions all are taken that begin with ``caption``, then ``rewrite``. Class names come from the schema.

    Tables of up to 2 GB are held in memory, encoded. Larger ones are read by row groups, four held at a time: fine
    in order, slow when shuffled: convert those to shards or to a folder.
    """

    _kind = "table"

    def __init__(
        self,
        places: Place | Sequence[Place],
        *,
        image: str | None = None,
        label: str | None = None,
        captions: str | None = None,
        depth: str | None = None,
        depth_scale: float = 1.0,
        channels: int = 3,
    ) -> None:
        files = [places] if isinstance(places, (str, Path)) else list(places)
        self._place = printable(files[0]) + (f" and {len(files) - 1} more" if len(files) > 1 else "")
        schemas = [read_schema(path) for path in files]
        present = list(schemas[0].names)
        if twice := sorted(name for name in set(present) if present.count(name) > 1):
            raise DataError(f"{self._place} has several columns called {listed(twice)}; each needs a name of its own")
        self._image = need_column("image", image, present, self._place)
        self._captions = _columns_of_text(captions, schemas[0], self._place)
        self._depth = find_column("depth", depth, present, self._place)
        label = find_column("label", label, present, self._place)
        columns = [name for name in (self._image, *self._captions, self._depth) if name is not None]
        for path, schema in zip(files, schemas, strict=True):
            _check_columns(schema, self._image, label, columns, printable(path))
        self._rows = RowGroups(files, columns)
        if len(self._rows) == 0:
            raise DataError(f"{self._place} has no rows")
        if label is not None:
            values = [value for path in files for value in column_values(path, label)]
            self._classes, self._labels = numbered_labels(values, self._place)
            stored = class_names(schemas[0].metadata, label)
            if self._classes is None and stored is not None:
                self._classes, self._labels = stored, checked_labels(self._labels, len(self._labels), stored)
        self._depth_scale, self._channels = depth_scale, channels
        self._is_captioned, self._has_depth = bool(self._captions), self._depth is not None

    def __len__(self) -> int:
        return len(self._rows)

    def image(self, index: int) -> EncodedImage:
        name = self.name(index)
        data = self._encoded(index, self._image, name)
        return EncodedImage(data, name=name, channels=self._channels, room=self._rows.room(index))

    def name(self, index: int) -> str:
        return self._rows.name(index)

    def path(self, index: int) -> Path | None:
        data, path = self._stored(index, self._image)
        if data or not path or is_address(folder := folder_of(self._rows.place_of(index))):
            return None
        return Path(os.path.abspath(inside(folder, path)))

    def captions(self, index: int) -> tuple[str, ...]:
        name = self.name(index)
        return as_captions(
            [text for column in self._captions for text in _stored_texts(self._rows.scalar(index, column), name)]
        )

    def depth(self, index: int) -> Depth | None:
        if self._depth is None:
            return None
        name = f"{self._rows.name(index)} ({self._depth})"
        stored: Depth = read_depth(self._encoded(index, self._depth, name), name=name, room=self._rows.room(index))
        stored /= np.float32(self._depth_scale)
        return stored

    def _stored(self, index: int, column: str) -> tuple[bytes | None, str | None]:
        """The encoded image and the path that a row holds: one of them, both, or neither."""
        value = self._rows.scalar(index, column).as_py()
        data, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
        return (None, data) if isinstance(data, str) else (data, path)

    def _encoded(self, index: int, column: str, name: str) -> bytes:
        data, path = self._stored(index, column)
        if data:
            return bytes(data)
        if not path:
            raise UnreadableImage(name, "the row has no image")
        folder = folder_of(self._rows.place_of(index))
        return read_image_file(folder, path, name_shown=f"{name} {printable(path)}")


def _check_columns(schema: Any, image: str, label: str | None, columns: Sequence[str], place: str) -> None:
    for name in (*columns, *([label] if label else [])):
        if name not in schema.names:
            raise DataError(f"{place} has no column {name!r}, which the first table has; it has {listed(schema.names)}")
    kind = schema.field(image).type
    inner = [kind]
    if str(kind).startswith("struct<"):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        inner = [field.type for field in fields if field.name in ("bytes", "path")]
    if not inner or not all(_name(each) in BYTES for each in inner):
        raise DataError(
            f"column {image!r} of {place} must hold images as {{bytes, path}}, bytes or paths; it is {shown_type(kind)}"
        )
    if label is not None and _name(kind := schema.field(label).type) not in TEXT | NUMBERS:
        raise DataError(
            f"labels must be whole numbers or names, one for each image; column {label!r} of {place} holds "
            f"{shown_type(kind)}"
        )


def _columns_of_text(named: str | None, schema: Any, place: str) -> list[str]:
    """The columns of captions; one that only has a name that captions often have is none."""
    columns = caption_columns(named, list(schema.names), place)
    kept = [name for name in columns if _holds_captions(schema.field(name).type)]
    if named is not None and len(kept) < len(columns):
        wrong = next(name for name in columns if name not in kept)
        kind = shown_type(schema.field(wrong).type)
        raise DataError(f"column {wrong!r} of {place} must hold text or lists of it; it is {kind}")
    return kept


def _holds_captions(kind: Any) -> bool:
    is_list = str(kind).startswith(("list<", "large_list<"))
    return _name(kind.value_type if is_list else kind) in TEXT


def _name(kind: Any) -> str:
    """What pyarrow calls the type; of a dictionary, that of its values."""
    return str(kind.value_type if str(kind).startswith("dictionary<") else kind)


def shown_type(kind: object) -> str:
    """A type in a message: its fields may have any names, and any number of them."""
    return shown(str(kind)).strip("'\"")


def _stored_texts(scalar: Any, name: str) -> list[object]:
    """What a row has in a column; refused where that is no captions but a few bytes repeated without end."""
    values = getattr(scalar, "values", None)  # of a list
    if values is None:
        return listed_texts(scalar.as_py())
    if len(values) > MOST_CAPTIONS:
        raise DataError(f"{name} has {len(values):,} captions; the limit is {MOST_CAPTIONS:,}")
    texts: list[object] = []
    letters = 0
    for value in values:  # of a dictionary only what this row has is decoded
        texts.append(value.as_py())
        letters += len(text) if isinstance(text := texts[-1], str) else 0
        if letters > LONGEST_CAPTIONS:
            raise DataError(f"{name} has captions of more than {LONGEST_CAPTIONS:,} letters")
    return texts
