"""Embeddings read back: vectors with the index, path and label of each, and where they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from eigenview.data.failures import blamed_on
from eigenview.data.source import NO_LABEL
from eigenview.errors import DataError
from eigenview.evaluation.features import check_features
from eigenview.names import printable
from eigenview.runs import RunDirectory
from eigenview.search.formats import (
    CHECKED_ROWS,
    READERS,
    has_fixed_width,
    numbered,
    read_names,
    read_npy,
    stored_about,
)
from eigenview.search.makers import About
from eigenview.search.parts import Piece, check_out, write_embeddings


@dataclass(frozen=True)
class Embeddings:
    """n vectors, in the file's order. A file that was made elsewhere has no ``about``, and perhaps no paths."""

    place: Path
    vectors: Tensor  # (n, d) float32; of an .npy file mapped, not read
    index: Tensor  # (n,) item of the source
    paths: Sequence[str]
    labels: Tensor | None  # (n,), −1 for none; None when no item has one
    about: About | None
    classes: tuple[str, ...] | None = None  # by number; None where they have no names

    def __repr__(self) -> str:
        return f"Embeddings({len(self)} in {str(self.place)!r})"

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    @property
    def has_no_names(self) -> bool:
        """Whether rows are called by their numbers alone, since the file names none."""
        return list(self.paths[:1]) == numbered(self.place, 1)

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

    def row_within(self, path: str) -> int | None:
        """The row whose whole path is the end of ``path``; of several the longest, if there is just one such."""
        rows = self._rows_by_tail.get(path.rpartition("/")[2], [])
        ends = sorted((len(self.paths[row]), row) for row in rows if f"/{path}".endswith(f"/{self.paths[row]}"))
        return ends[-1][1] if ends and [length for length, _ in ends].count(ends[-1][0]) == 1 else None

    def _rows_ending(self, name: str) -> list[int]:
        rows = self._rows_by_tail.get(name.rpartition("/")[2], [])
        return [row for row in rows if self.paths[row] == name or self.paths[row].endswith(f"/{name}")]

    def label_name(self, row: int) -> str | None:
        """The class of a row by name, or by number where names are unknown."""
        if self.labels is None or int(self.labels[row]) == NO_LABEL:
            return None
        number = int(self.labels[row])
        return self.classes[number] if self.classes is not None and number < len(self.classes) else str(number)

    @cached_property
    def _rows_by_tail(self) -> dict[str, list[int]]:
        tails: dict[str, list[int]] = {}
        for row, path in enumerate(self.paths):
            tails.setdefault(path.rpartition("/")[2], []).append(row)
        return tails


class LateEmbeddings(Embeddings):
    """Embeddings whose names are there at once; the vectors are read, and checked, when they are first asked for."""

    @cached_property
    def vectors(self) -> Tensor:
        return open_embeddings(self.place).vectors

    def __len__(self) -> int:
        return len(self.index)

    @property
    def width(self) -> int:
        return stored_about(self.place)[2]


def open_embeddings(path: str | Path, *, is_late: bool = False) -> Embeddings:
    """The embeddings in a .parquet, .npy or .npz file, or those in a run directory (``RUN/embeddings.parquet``).

    A table needs a column ``vector`` (or ``embedding``, ``features``) of equally long lists of numbers; ``index``,
    ``path`` (or ``name``, ``file``) and ``label``, in numbers or words, are read where they are. NaN is refused, with
    the rows that have it. ``is_late``: the vectors are not read yet, where the file's kind allows it.
    """
    place = embeddings_file(path)
    if is_late and (named := _named(place)) is not None:
        return named
    with blamed_on(place, f"is not a readable {place.suffix} file of embeddings"):
        stored = Embeddings(**READERS[place.suffix](place))
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


def save_embeddings(stored: Embeddings, out: str | Path, *, overwrite: bool = False) -> Path:
    """Embeddings at hand into a .parquet or .npy file; only embeddings made here are written over without asking."""
    place = Path(out)
    check_out(place, overwrite=overwrite)
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
        if file := RunDirectory(place).embeddings:
            return file
        here = printable(place)
        raise DataError(f"no embeddings in {here} yet: make them by eigenview embed {here} SOURCE")
    if not place.is_file():
        raise DataError(f"no such file: {printable(place)}; is the path right? (eigenview embed RUN SOURCE makes one)")
    if place.suffix not in READERS:
        raise DataError(f"embeddings are read from {', '.join(READERS)} or a run directory; got {printable(place)}")
    return place


def _named(place: Path) -> LateEmbeddings | None:
    """All but the vectors; None where it takes as long to read them too."""
    with blamed_on(place, f"is not a readable {place.suffix} file of embeddings"):
        if place.suffix == ".npy":
            facts = read_npy(place)
        elif place.suffix == ".parquet" and has_fixed_width(place):
            facts = read_names(place)
        else:
            return None
    late = object.__new__(LateEmbeddings)
    late.__dict__.update({name: value for name, value in facts.items() if name != "vectors"})
    return late
