"""A sample of images as a run sees them, stored for the report: features, projections of two views, thumbnails."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from eigenview.errors import DataError
from eigenview.files import JSON, atomic_folder, inside, read_folder, restore_folder
from eigenview.names import printable
from eigenview.runs.stored import read_stored, stored_object, write_stored
from eigenview.tensors import map_array

FOLDER, SUMMARY = "sample", "sample.json"
ARRAYS = ("features", "first_view", "second_view", "index", "labels", "clusters", "prototypes")
MATRICES = ARRAYS[:3]  # of floats; the others are lists of whole numbers

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Sheets:
    """Square pictures of one size, packed row by row into files, which ``sample.json`` names."""

    files: tuple[Path, ...]
    side: Count  # pixels of a picture
    columns: Count  # pictures in a row of a sheet
    rows: Count  # rows of a full sheet

    def within(self, folder: Path) -> Sheets:
        return replace(self, files=tuple(inside(folder, file.name) for file in self.files))


@dataclass(frozen=True)
class WordsExample:
    """A caption, the row it belongs to, and the rows that it finds, nearest first."""

    text: str
    own: int
    rows: tuple[int, ...]
    cosines: tuple[float, ...]


@dataclass(frozen=True)
class FoundWords:
    """A row, and the captions of the sample that it finds, nearest first; ``finds_own``: its own is among them."""

    row: int
    texts: tuple[str, ...]
    cosines: tuple[float, ...]
    finds_own: bool


@dataclass(frozen=True)
class Words:
    """What a run that learnt from captions makes of them, on the items of its sample."""

    examples: tuple[WordsExample, ...]
    answers: tuple[FoundWords, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SampleFacts:
    """``sample.json``: what of a :class:`Sample` is no array. None: the run or the source has no such thing."""

    names: tuple[str, ...]
    classes: tuple[str, ...] | None
    thumbnails: Sheets
    views: Sheets | None  # one sheet: a row an image, the original first, then its views
    source: str
    seed: int
    checkpoint: str
    outliers: tuple[int, ...] = ()  # rows like no others, the most isolated first
    copies: tuple[tuple[int, ...], ...] = ()  # rows of one picture, confirmed on the pixels
    words: Words | None = None
    keys: tuple[str, ...] = ()  # n of ``batches.identity.image_keys``, or none in a sample of earlier versions


@dataclass(frozen=True, kw_only=True)
class Sample(SampleFacts):
    """n items, in the source's order."""

    features: Floats  # (n, d), before the head
    first_view: Floats | None  # (n, p), the head's output for one augmented view
    second_view: Floats | None  # (n, p), for another
    index: Ints  # (n,), which item of the source
    labels: Ints | None  # (n,), −1 where an item has none
    clusters: Ints  # (n,), groups found without labels
    prototypes: Ints | None  # (n,), the most similar of the run's own prototypes


@dataclass(frozen=True)
class Packed:
    """Pictures of one size for :class:`Sheets`: ``sheets`` hold ``columns`` × ``rows`` of them each."""

    sheets: Sequence[Image.Image]
    side: int
    columns: int
    rows: int


def write_sample(run: Path, sample: Mapping[str, object], *, thumbnails: Packed, views: Packed | None) -> Path:
    """``RUN/sample``, whole or not there. ``sample`` holds the fields of :class:`Sample` but the sheets."""
    place = run / FOLDER
    with atomic_folder(place) as folder:
        for name in ARRAYS:
            if sample.get(name) is not None:
                np.save(folder / f"{name}.npy", np.asarray(sample[name]))
        summary = {name: value for name, value in sample.items() if name not in ARRAYS}
        summary["thumbnails"] = _written(thumbnails, folder, "thumbnails-{}.jpg", quality=85, subsampling=0)
        summary["views"] = None if views is None else _written(views, folder, "views-{}.png", optimize=True)
        write_stored(folder / SUMMARY, summary, indent=None)
    return place


def label_sample(run: Path, labels: Ints, classes: Sequence[str] | None) -> None:
    """Give the items of ``RUN/sample`` labels (n,), −1 for none; what else is stored stays."""
    place = restore_folder(run / FOLDER)
    _, summary = stored_object(inside(place, SUMMARY))
    with atomic_folder(run / FOLDER) as folder:
        for file in place.iterdir():
            if file.name not in (SUMMARY, "labels.npy"):
                shutil.copyfile(inside(place, file.name), folder / file.name)
        np.save(folder / "labels.npy", labels)
        summary["classes"] = None if classes is None else list(classes)
        write_stored(folder / SUMMARY, summary, indent=None)


def _written(packed: Packed, folder: Path, pattern: str, **options: Any) -> dict[str, JSON]:
    names: list[JSON] = []
    for place, sheet in enumerate(packed.sheets):
        sheet.save(folder / pattern.format(place), **options)
        names.append(pattern.format(place))
    return {"files": names, "side": packed.side, "columns": packed.columns, "rows": packed.rows}


def read_sample(run: Path) -> Sample | None:
    """The sample of a run, or None where none was written; a damaged one is refused."""
    return read_folder(lambda: restore_folder(run / FOLDER), lambda place: _read(run, place))


def _read(run: Path, place: Path) -> Sample | None:
    if not (place / SUMMARY).is_file():
        return None
    place = inside(run, place.name)
    try:
        facts = read_stored(SampleFacts, inside(place, SUMMARY))
        arrays = {name: _array(inside(place, f"{name}.npy")) for name in ARRAYS}
        count = len(facts.names)
        lengths = {count, *(len(values) for values in arrays.values() if values is not None)}
        if len(lengths) != 1 or arrays["features"] is None or arrays["clusters"] is None or arrays["index"] is None:
            raise ValueError(f"its parts have {sorted(lengths)} rows")
        words = facts.words or Words(())
        shown = ((example.own, *example.rows) for example in words.examples)
        named = (facts.outliers, *facts.copies, *shown, [answer.row for answer in words.answers])
        if any(not 0 <= row < count for rows in named for row in rows):
            raise ValueError(f"it names rows that are not among its {count}")
        placed = {
            "thumbnails": facts.thumbnails.within(place),
            "views": None if facts.views is None else facts.views.within(place),
            "keys": facts.keys if len(facts.keys) == count else (),
        }
        return Sample(**{**vars(facts), **placed, **arrays})
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"the sample in {printable(place)} cannot be read: {error}; eigenview diagnose RUN writes it anew"
        ) from None


def _array(file: Path) -> NDArray[np.generic] | None:
    if not file.exists():
        return None
    values = np.array(map_array(file))
    kinds, dimensions = ("f", 2) if file.stem in MATRICES else ("iu", 1)
    if values.dtype.kind not in kinds or values.ndim != dimensions:
        raise ValueError(f"its {file.stem} are {values.dtype} of shape {values.shape}")
    return values
