"""Contact sheets of pictures to label, and of labels to doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigenview.data import Source
from eigenview.labels.label_files import check_place
from eigenview.search.contact import COLUMNS
from eigenview.search.pictures import Pictures
from eigenview.search.sheet import Block, Tile, write_sheet
from eigenview.search.stored import Embeddings

MOST = 96  # pictures under one heading


@dataclass(frozen=True)
class Shown:
    """Pictures under a heading: rows, and what stands below each before its name."""

    heading: str
    pictures: Sequence[tuple[int, tuple[str, ...]]]


def labels_sheet(
    title: str,
    groups: Iterable[Shown],
    stored: Embeddings,
    out: str | Path,
    *,
    source: Source | None = None,
    overwrite: bool = False,
) -> Path:
    """A PNG of groups of pictures, at most 96 of each."""
    place = Path(out)
    check_place(place, overwrite=overwrite, suffixes=(".png",))
    pictures = Pictures(stored, source)
    blocks = [
        Block(
            shown.heading + (f" ({MOST} of {len(shown.pictures):,})" if len(shown.pictures) > MOST else ""),
            None,
            tuple(
                Tile(pictures.of_row(row), (*lines, stored.paths[row].replace("\\", "/").rpartition("/")[2]))
                for row, lines in shown.pictures[:MOST]
            ),
        )
        for shown in groups
    ]
    return write_sheet(title, blocks, place, columns=COLUMNS)
