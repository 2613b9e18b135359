"""Labels kept in a run directory for the report: suggested, suspicious, odd ones out, each with a small picture."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from eigenview.errors import DataError
from eigenview.files import inside, read_as, to_json, write_text

FOLDER = "labels"
BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")

Kind = Literal["suggested", "suspicious", "outliers"]


@dataclass(frozen=True)
class ShownPicture:
    """A picture with what is said about it."""

    name: str
    caption: str
    picture: str  # JPEG in base64; empty where it is gone


@dataclass(frozen=True)
class ShownGroup:
    heading: str
    pictures: tuple[ShownPicture, ...]


@dataclass(frozen=True)
class ShownLabels:
    """``RUN/labels/KIND.json``."""

    kind: Kind
    summary: str  # in one sentence
    groups: tuple[ShownGroup, ...]


def write_shown_labels(run: Path, shown: ShownLabels) -> Path:
    """It takes the place of an earlier one of its kind."""
    return write_text(run / FOLDER / f"{shown.kind}.json", to_json(shown) + "\n")


def read_shown_labels(run: Path) -> tuple[ShownLabels, ...]:
    """All kinds that are there."""
    files = [inside(run, FOLDER) / f"{kind}.json" for kind in get_args(Kind)]
    kept = [(file, read_as(ShownLabels, file)) for file in files if file.is_file()]
    for file, shown in kept:
        pictures = [picture.picture for group in shown.groups for picture in group.pictures]
        if not all(BASE64.fullmatch(picture) for picture in pictures):
            raise DataError(f"{file} holds a picture that is none; it was edited or damaged: write the labels again")
    return tuple(shown for _, shown in kept)
