"""The kinds of file that hold embeddings, each read into the same fields: our own, and those of others."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.data.rowgroups import checked_groups
from eigenview.data.source import NO_LABEL
from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.files import from_json, read_object
from eigenview.names import printable
from eigenview.search.makers import About
from eigenview.search.parts import METADATA, side_file
from eigenview.tensors import map_array

VECTOR_COLUMNS = ("vector", "vectors", "embedding", "embeddings", "feature", "features")  # usual names
NAMES = ("paths", "path", "names", "name", "filenames", "filename", "files", "file", "file_name")  # of the items
LABELS = ("labels", "label", "y")
CHECKED_ROWS = 1 << 16  # at a time

Floats = NDArray[np.float32]
Fields = dict[str, Any]  # those of ``Embeddings``


def fields(
    place: Path,
    vectors: Tensor | None,
    index: Tensor,
    paths: Sequence[str],
    labels: Tensor | None = None,
    classes: tuple[str, ...] | None = None,
    *,
    about: About | None = None,
) -> Fields:
    """What embeddings consist of; labels are None where there is not one."""
    known = None if labels is None or not bool((labels != NO_LABEL).any()) else labels
    named = classes if about is None else about.classes
    all_but = {"place": place, "index": index, "paths": paths, "labels": known, "about": about, "classes": named}
    return all_but if vectors is None else all_but | {"vectors": vectors}


def column_of(usual: Sequence[str], present: Iterable[str]) -> str | None:
    """The first of the usual names that is there."""
    return next((name for name in usual if name in present), None)


def has_fixed_width(place: Path) -> bool:
    """Whether a table says how long its vectors are."""
    file = _opened(place)
    return "fixed_size" in str(file.schema_arrow.field(_vectors_in(file, place)).type)


def _vectors_in(file: Any, place: Path) -> str:
    """The column of vectors."""
    present = file.schema_arrow.names
    column = column_of(VECTOR_COLUMNS, present)
    if column is None:
        looked = ", ".join(VECTOR_COLUMNS)
        raise DataError(
            f"{printable(place)} has no column of vectors (looked for {looked}); it has {', '.join(present)}"
        )
    return column


def stored_about(path: Path) -> tuple[About | None, int, int]:
    """What a finished file says about itself, its rows and its width, without reading the vectors."""
    if path.suffix == ".npy":
        array, notes = map_array(path), _notes(path)
        rows, width = array.shape
        return (None if notes is None else _about(json.dumps(notes["about"]))), rows, width
    file = _opened(path)
    return (
        _table_about(file),
        file.metadata.num_rows,
        int(file.schema_arrow.field(_vectors_in(file, path)).type.list_size),
    )


def read_npy(place: Path) -> Fields:
    array = map_array(place)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind != "f":
        raise DataError(f"{printable(place)} must hold floating vectors (n, d); got {array.shape}, {array.dtype}")
    vectors = torch.from_numpy(array if array.dtype == np.float32 else array.astype(np.float32))
    notes = _notes(place)
    if notes is None:
        return fields(place, vectors, torch.arange(len(vectors)), numbered(place, len(vectors)))
    if [notes["rows"], notes["width"]] != list(array.shape):
        raise DataError(
            f"{printable(side_file(place))} is about {notes['rows']} x {notes['width']} numbers, but "
            f"{place.name} has {array.shape[0]} x {array.shape[1]}: they are not a pair; make them anew"
        )
    index, labels = (_numbers(notes[name], len(vectors)) for name in ("index", "label"))
    paths = notes["path"]
    if not isinstance(paths, list) or [type(path) for path in paths] != [str] * len(vectors):
        raise ValueError(f"{side_file(place).name} must name a path for each of {len(vectors):,} rows")
    about = _about(json.dumps(notes["about"]))
    if about is None and notes.get("digest", "") not in ("", hashlib.sha256(vectors.numpy().data).hexdigest()):
        raise DataError(f"{printable(place)} is damaged: its checksum does not fit; make it anew")
    return fields(place, vectors, index, paths, labels, about=about)


def _read_parquet(place: Path) -> Fields:
    file = _opened(place)
    column = _vectors_in(file, place)
    facts = read_names(place)
    rows = len(facts["index"])
    vectors: Floats | None = None
    filled = 0
    for batch in file.iter_batches(batch_size=CHECKED_ROWS, columns=[column]):  # never the table and the array whole
        block = _block(batch.column(0), place, column)
        if vectors is None:
            vectors = np.empty((rows, block.shape[1]), dtype=np.float32)
        if block.shape[1] != vectors.shape[1]:
            raise DataError(f"{printable(place)}: vectors of {vectors.shape[1]} and of {block.shape[1]} numbers")
        vectors[filled : filled + len(block)] = block
        filled += len(block)
    if vectors is None or filled != rows:
        raise DataError(f"{printable(place)} does not hold the {rows:,} rows that it says; make it anew")
    return facts | {"vectors": torch.from_numpy(vectors)}


def read_names(place: Path) -> Fields:
    """The fields of embeddings in a table, all but the vectors."""
    file = _opened(place)
    present = file.schema_arrow.names
    index, path, label = (column_of(names, present) for names in (("index",), NAMES, LABELS))
    wanted = [name for name in (index, path, label) if name is not None]
    rows = sum(group.rows for group in checked_groups(place, [_vectors_in(file, place), *wanted]))
    if rows == 0:
        raise DataError(f"{printable(place)} has no rows")
    rest = file.read(columns=wanted)
    rest.validate(full=True)
    if rest.num_rows != rows:
        raise DataError(f"{printable(place)} does not hold the {rows:,} rows that it says; make it anew")
    numbers = np.arange(rows) if index is None else rest.column(index).to_numpy().astype(np.int64)
    paths = numbered(place, rows) if path is None else [str(name or "") for name in rest.column(path).to_pylist()]
    labels, classes = (None, None) if label is None else _labels(_values(rest.column(label)))
    return fields(place, None, torch.from_numpy(numbers), paths, labels, classes, about=_table_about(file))


def _values(column: Any) -> NDArray[Any]:
    """A column of whole numbers, −1 where there is none; or of anything else."""
    if "int" in str(column.type) and "dictionary" not in str(column.type):
        return np.asarray(column.fill_null(NO_LABEL).to_numpy())
    return np.array(column.to_pylist(), dtype=object)


def _block(column: Any, place: Path, name: str) -> Floats:
    """(n, d) of a column of lists."""
    if column.null_count or "list" not in str(column.type):
        raise DataError(f"column {name!r} of {printable(place)} must hold a list of numbers in every row")
    flat = column.flatten()
    if flat.null_count or len(flat) == 0 or len(flat) % len(column):
        raise DataError(f"column {name!r} of {printable(place)} must hold lists of one length without gaps")
    if "fixed_size" not in str(column.type):
        lengths = np.diff(column.offsets.to_numpy())
        if (lengths != lengths[0]).any():
            raise DataError(f"column {name!r} of {printable(place)} must hold lists of one length; got several")
    numbers: Floats = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return numbers.reshape(len(column), -1)


def _opened(place: Path) -> Any:
    return extra_module("pyarrow.parquet", extra="tables", purpose="reading Parquet").ParquetFile(place)


def _notes(place: Path) -> dict[str, Any] | None:
    file = side_file(place)
    return read_object(file) if file.is_file() else None


def _numbers(values: Any, rows: int) -> Tensor:
    """(rows,) whole numbers of a side file."""
    if not isinstance(values, list) or [type(value) for value in values] != [int] * rows:
        raise ValueError(f"a side file must have a whole number for each of {rows:,} rows")
    return torch.from_numpy(np.array(values, dtype=np.int64))


def _table_about(file: Any) -> About | None:
    text = (file.schema_arrow.metadata or {}).get(METADATA)
    return None if text is None else _about(text.decode())


def _about(text: str) -> About | None:
    try:
        return from_json(About, text, "what embeddings say about themselves")
    except DataError:
        return None  # of another version: the vectors are good all the same


def _labels(given: NDArray[Any]) -> tuple[Tensor | None, tuple[str, ...] | None]:
    """Whole numbers as they are, words as classes in their order, "" and None for no label; neither of others."""
    if given.dtype.kind in "iub":
        return torch.from_numpy(given.astype(np.int64)), None
    words = [word or "" for word in _texts(given)]
    if not all(isinstance(word, str) for word in words):
        return None, None
    classes = tuple(sorted({str(word) for word in words if word}))
    number = {name: place for place, name in enumerate(classes)}
    return torch.tensor([number.get(str(word), NO_LABEL) for word in words]), classes


def numbered(place: Path, rows: int) -> list[str]:
    name = printable(place.name)
    return [f"{name}[{row}]" for row in range(rows)]


def _read_npz(place: Path) -> Fields:
    """Arrays by name: the only floating one of two dimensions, and ``names``, ``paths``, ``labels`` where they are."""
    with np.load(place, allow_pickle=False) as file:
        arrays = dict(file)
    tables = [name for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind == "f" and array.size]
    if len(tables) != 1:
        got = ", ".join(f"{name} {array.shape} {array.dtype}" for name, array in arrays.items())
        raise DataError(f"{printable(place)} must hold one floating array (n, d) of vectors; got {got}")
    vectors = torch.from_numpy(arrays[tables[0]].astype(np.float32))
    rows = len(vectors)
    names, given = (arrays.get(str(column_of(usual, arrays))) for usual in (NAMES, LABELS))
    for kind, array in (("names", names), ("labels", given)):
        if array is not None and array.shape != (rows,):
            raise DataError(f"{printable(place)}: {rows} vectors, but {kind} {array.shape}: one a row is needed")
    paths = numbered(place, rows) if names is None else [str(name) for name in _texts(names)]
    labels, classes = (None, None) if given is None else _labels(given)
    return fields(place, vectors, torch.arange(rows), paths, labels, classes)


def _texts(array: NDArray[Any]) -> list[object]:
    """The values of an array, bytes as text."""
    return list((np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array).tolist())


READERS: dict[str, Callable[[Path], Fields]] = {".parquet": _read_parquet, ".npy": read_npy, ".npz": _read_npz}
