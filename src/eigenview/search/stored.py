"""Embeddings read back: vectors with the index, path and label of each, and where they come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.data.failures import blamed_on
from eigenview.data.rowgroups import checked_groups
from eigenview.data.source import NO_LABEL
from eigenview.errors import DataError
from eigenview.evaluation.checks import check_features
from eigenview.extras import extra_module
from eigenview.files import from_json, read_object
from eigenview.names import printable
from eigenview.search.about import About
from eigenview.search.parts import Piece
from eigenview.search.writing import METADATA, check_suffix, side_file, write_embeddings
from eigenview.tensors import map_array

DEFAULT_NAMES = ("embeddings.parquet", "embeddings.npy")  # in a run directory
NAMES = ("paths", "path", "names", "name", "filenames", "filename", "files", "file")  # of the items, in an .npz
CHECKED_ROWS = 1 << 16  # at a time

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Embeddings:
    """n vectors, in the file's order. A file that was made elsewhere has no ``about``, and perhaps no paths."""

    place: Path
    vectors: Tensor  # (n, d) float32; of an .npy file mapped, not read
    index: Tensor  # (n,) item of the source
    paths: Sequence[str]
    labels: Tensor | None  # (n,), −1 for none; None when no item has one
    about: About | None

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    @property
    def has_no_names(self) -> bool:
        """Whether rows are called by their numbers alone, since the file names none."""
        return list(self.paths[:1]) == _numbered(self.place, 1)

    def row_of(self, index: int) -> int:
        """The row that holds item ``index`` of the source."""
        rows = (self.index == index).nonzero().flatten()
        if len(rows) == 0:
            ends = f"{int(self.index.min())} … {int(self.index.max())}"
            raise DataError(f"no item {index} in {printable(self.place)}: its {len(self):,} items lie in {ends}")
        return int(rows[0])

    def row_of_path(self, path: str) -> int | None:
        return next((row for row in self._rows_ending(path) if self.paths[row] == path), None)

    def row_of_name(self, name: str) -> int | None:
        """The row whose path is ``name`` or ends in it, ``a.jpg`` or ``cats/a.jpg``; None where there is none."""
        rows = self._rows_ending(name)
        if len(rows) > 1:
            listed = " and ".join(self.paths[row] for row in rows[:2])
            raise DataError(f"{name} could be any of {len(rows)} items, such as {listed}; give more of its path")
        return rows[0] if rows else None

    def row_of_tail(self, name: str) -> int | None:
        """The row whose path ends in ``name``, folder by folder, if there is just one such."""
        rows = self._rows_ending(name)
        return rows[0] if len(rows) == 1 else None

    def _rows_ending(self, name: str) -> list[int]:
        rows = self._rows_by_tail.get(name.rpartition("/")[2], [])
        return [row for row in rows if self.paths[row] == name or self.paths[row].endswith(f"/{name}")]

    def label_name(self, row: int) -> str | None:
        """The class of a row by name, or by number where names are unknown."""
        if self.labels is None or int(self.labels[row]) == NO_LABEL:
            return None
        number = int(self.labels[row])
        classes = self.about.classes if self.about is not None else None
        return classes[number] if classes is not None and number < len(classes) else str(number)

    @cached_property
    def _rows_by_tail(self) -> dict[str, list[int]]:
        tails: dict[str, list[int]] = {}
        for row, path in enumerate(self.paths):
            tails.setdefault(path.rpartition("/")[2], []).append(row)
        return tails


def open_embeddings(path: str | Path) -> Embeddings:
    """The embeddings in a .parquet, .npy or .npz file, or those in a run directory (``RUN/embeddings.parquet``).

    A table needs a column ``vector`` of equally long lists of numbers; ``index``, ``path`` and ``label`` are read where
    they are. NaN is refused, with the rows that have it.
    """
    place = embeddings_file(path)
    with blamed_on(place, f"is not a readable {place.suffix} file of embeddings"):
        stored = _READERS[place.suffix](place)
    digest = hashlib.sha256()
    for start in range(0, len(stored), CHECKED_ROWS):
        rows = stored.vectors[start : start + CHECKED_ROWS]
        add_rows(digest, rows)
        try:
            check_features(rows, "vectors")
        except DataError as error:
            where = f" (counted from row {start})" if start else ""
            raise DataError(f"{printable(place)}: {error}{where}; make the file anew") from None
    if stored.about is not None and stored.about.digest not in ("", digest.hexdigest()):
        raise DataError(f"{printable(place)} is damaged: its checksum does not fit; make it anew (embed --anew)")
    return stored


def add_rows(digest: hashlib._Hash, rows: Tensor) -> None:
    """Count rows of vectors in, as float32."""
    digest.update(rows.to(torch.float32).contiguous().numpy().data)


def save_embeddings(stored: Embeddings, out: str | Path) -> Path:
    """Embeddings at hand into a .parquet or .npy file."""
    place = Path(out)
    check_suffix(place)
    labels = torch.full((len(stored),), NO_LABEL) if stored.labels is None else stored.labels
    piece = Piece(stored.index, labels, stored.vectors, tuple(stored.paths), ())
    digest = hashlib.sha256()
    add_rows(digest, stored.vectors)
    about = None if stored.about is None else replace(stored.about, digest=digest.hexdigest())
    write_embeddings(place, lambda: [piece], rows=len(stored), width=stored.width, about=about)
    return place


def embeddings_file(path: str | Path) -> Path:
    """The file itself, or the one in a run directory; what is missing is said with how to make it."""
    place = Path(path)
    if place.is_dir():
        if file := next((place / name for name in DEFAULT_NAMES if (place / name).is_file()), None):
            return file
        here = printable(place)
        raise DataError(f"no embeddings in {here} yet: make them by eigenview embed {here} SOURCE")
    if not place.is_file():
        raise DataError(f"no such file: {printable(place)}; is the path right? (eigenview embed RUN SOURCE makes one)")
    if place.suffix not in _READERS:
        raise DataError(f"embeddings are read from {', '.join(_READERS)} or a run directory; got {printable(place)}")
    return place


def stored_about(path: Path) -> tuple[About | None, int, int]:
    """What a finished file says about itself, its rows and its width, without reading the vectors."""
    if path.suffix == ".npy":
        array, notes = map_array(path), _notes(path)
        rows, width = array.shape
        return (None if notes is None else _about(json.dumps(notes["about"]))), rows, width
    file = _opened(path)
    return _table_about(file), file.metadata.num_rows, int(file.schema_arrow.field("vector").type.list_size)


def _read_npy(place: Path) -> Embeddings:
    array = map_array(place)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind != "f":
        raise DataError(f"{printable(place)} must hold floating vectors (n, d); got {array.shape}, {array.dtype}")
    vectors = torch.from_numpy(array if array.dtype == np.float32 else array.astype(np.float32))
    notes = _notes(place)
    if notes is None:
        return Embeddings(place, vectors, torch.arange(len(vectors)), _numbered(place, len(vectors)), None, None)
    if [notes["rows"], notes["width"]] != list(array.shape):
        raise DataError(
            f"{printable(side_file(place))} is about {notes['rows']} x {notes['width']} numbers, but "
            f"{place.name} has {array.shape[0]} x {array.shape[1]}: they are not a pair; make them anew"
        )
    index, labels = (_numbers(notes[name], len(vectors)) for name in ("index", "label"))
    paths = notes["path"]
    if not isinstance(paths, list) or [type(path) for path in paths] != [str] * len(vectors):
        raise ValueError(f"{side_file(place).name} must name a path for each of {len(vectors):,} rows")
    return Embeddings(place, vectors, index, paths, _some_labels(labels), _about(json.dumps(notes["about"])))


def _read_parquet(place: Path) -> Embeddings:
    file = _opened(place)
    present = file.schema_arrow.names
    if "vector" not in present:
        raise DataError(f"{printable(place)} has no column 'vector'; it has {', '.join(present)}")
    rows = sum(group.rows for group in checked_groups(place, ["vector", "index", "path", "label"]))
    if rows == 0:
        raise DataError(f"{printable(place)} has no rows")
    vectors: Floats | None = None
    filled = 0
    for batch in file.iter_batches(batch_size=CHECKED_ROWS, columns=["vector"]):  # never the table and the array whole
        block = _block(batch.column(0), place)
        if vectors is None:
            vectors = np.empty((rows, block.shape[1]), dtype=np.float32)
        if block.shape[1] != vectors.shape[1]:
            raise DataError(f"{printable(place)}: vectors of {vectors.shape[1]} and of {block.shape[1]} numbers")
        vectors[filled : filled + len(block)] = block
        filled += len(block)
    rest = file.read(columns=[name for name in ("index", "path", "label") if name in present])
    rest.validate(full=True)
    if vectors is None or filled != rows or rest.num_rows != rows:
        raise DataError(f"{printable(place)} does not hold the {rows:,} rows that it says; make it anew")
    index = rest.column("index").to_numpy() if "index" in present else np.arange(rows)
    paths = [path or "" for path in rest.column("path").to_pylist()] if "path" in present else _numbered(place, rows)
    labels = None
    if "label" in present and "int" in str(rest.schema.field("label").type):
        labels = _some_labels(torch.from_numpy(rest.column("label").fill_null(NO_LABEL).to_numpy().astype(np.int64)))
    numbers = torch.from_numpy(index.astype(np.int64))
    return Embeddings(place, torch.from_numpy(vectors), numbers, paths, labels, _table_about(file))


def _block(column: Any, place: Path) -> Floats:
    """(n, d) of a column of lists."""
    if column.null_count or "list" not in str(column.type):
        raise DataError(f"column 'vector' of {printable(place)} must hold a list of numbers in every row")
    flat = column.flatten()
    if flat.null_count or len(flat) == 0 or len(flat) % len(column):
        raise DataError(f"column 'vector' of {printable(place)} must hold lists of one length without gaps")
    if "fixed_size" not in str(column.type):
        lengths = np.diff(column.offsets.to_numpy())
        if (lengths != lengths[0]).any():
            raise DataError(f"column 'vector' of {printable(place)} must hold lists of one length; got several")
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


def _some_labels(labels: Tensor) -> Tensor | None:
    return labels if bool((labels != NO_LABEL).any()) else None


def _numbered(place: Path, rows: int) -> list[str]:
    return [f"{printable(place.name)}[{row}]" for row in range(rows)]


def _read_npz(place: Path) -> Embeddings:
    """Arrays by name: the only floating one of two dimensions, and ``names``, ``paths``, ``labels`` where they are."""
    with np.load(place, allow_pickle=False) as file:
        arrays = dict(file)
    tables = [name for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind == "f" and array.size]
    if len(tables) != 1:
        got = ", ".join(f"{name} {array.shape} {array.dtype}" for name, array in arrays.items())
        raise DataError(f"{printable(place)} must hold one floating array (n, d) of vectors; got {got}")
    vectors = torch.from_numpy(arrays[tables[0]].astype(np.float32))
    rows = len(vectors)
    names = next((arrays[name] for name in NAMES if name in arrays), None)
    given = next((arrays[name] for name in ("labels", "label", "y") if name in arrays), None)
    for kind, array in (("names", names), ("labels", given)):
        if array is not None and array.shape != (rows,):
            raise DataError(f"{printable(place)}: {rows} vectors, but {kind} {array.shape}: one a row is needed")
    paths = _numbered(place, rows) if names is None else [str(name) for name in names.tolist()]
    is_unlabelled = given is None or given.dtype.kind not in "iu"
    labels = None if is_unlabelled else _some_labels(torch.from_numpy(np.asarray(given, dtype=np.int64)))
    return Embeddings(place, vectors, torch.arange(rows), paths, labels, None)


_READERS = {".parquet": _read_parquet, ".npy": _read_npy, ".npz": _read_npz}
