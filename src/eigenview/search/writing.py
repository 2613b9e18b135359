"""Pieces joined into one file: a Parquet table, or an .npy array with a JSON file beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from eigenview.data.source import NO_LABEL
from eigenview.errors import SettingError
from eigenview.extras import extra_module
from eigenview.files import atomic_path, to_json
from eigenview.search.about import About
from eigenview.search.parts import Piece

METADATA = b"eigenview"  # the key of a table's metadata

Pieces = Callable[[], Iterable[Piece]]


def check_suffix(out: Path) -> None:
    """Refuse what cannot be written before anything is computed."""
    if out.suffix not in WRITERS:
        raise SettingError(f"embeddings are written as .parquet or .npy; got {out.name!r}")
    if out.suffix == ".parquet":
        extra_module("pyarrow", extra="tables", purpose="writing Parquet")


def write_embeddings(
    out: Path, pieces: Callable[[], Iterable[Piece]], *, rows: int, width: int, about: About | None
) -> None:
    """``pieces`` is called for each pass over them; one piece is in memory at a time."""
    WRITERS[out.suffix](out, pieces, rows, width, about)


def side_file(array: Path) -> Path:
    """What lies beside an .npy file: index, paths, labels."""
    return array.with_name(array.name + ".json")


def _write_parquet(out: Path, pieces: Pieces, rows: int, width: int, about: About | None) -> None:
    arrow = extra_module("pyarrow", extra="tables", purpose="writing Parquet")
    parquet = extra_module("pyarrow.parquet", extra="tables", purpose="writing Parquet")
    fields = [("index", arrow.int64()), ("path", arrow.string()), ("label", arrow.int64())]
    notes = None if about is None else {METADATA: to_json(about).encode()}
    schema = arrow.schema([*fields, ("vector", arrow.list_(arrow.float32(), width))], metadata=notes)
    with (
        atomic_path(out) as file,
        parquet.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer,
    ):
        for piece in pieces():
            labels = piece.labels.numpy()
            columns = [
                arrow.array(piece.index.numpy()),
                arrow.array(piece.paths, type=arrow.string()),
                arrow.array(labels, mask=labels == NO_LABEL),
                arrow.FixedSizeListArray.from_arrays(arrow.array(piece.vectors.numpy().reshape(-1)), width),
            ]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))


def _write_npy(out: Path, pieces: Pieces, rows: int, width: int, about: About | None) -> None:
    notes: dict[str, object] = {"about": None if about is None else asdict(about), "rows": rows, "width": width}
    index: list[int] = []
    paths: list[str] = []
    labels: list[int] = []
    with atomic_path(side_file(out)) as beside, atomic_path(out) as file:
        with file.open("wb") as array:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_1_0(array, header)
            for piece in pieces():
                array.write(piece.vectors.numpy().astype("<f4", copy=False).tobytes())
                index += piece.index.tolist()
                labels += piece.labels.tolist()
                paths += piece.paths
        notes |= {"index": index, "path": paths, "label": labels}
        beside.write_text(json.dumps(notes, ensure_ascii=False), encoding="utf-8")


WRITERS: dict[str, Callable[[Path, Pieces, int, int, About | None], None]] = {
    ".parquet": _write_parquet,
    ".npy": _write_npy,
}
