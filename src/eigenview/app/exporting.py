"""What a labelling leaves: tables of labels and of the person's own answers, a head for later pictures, and folders.

Every export is a new folder, whole or not at all; nothing that is there is ever written over. A class names a folder
only in letters that lead nowhere else.
"""

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Literal

from eigenview.app.session import Session
from eigenview.data import Source
from eigenview.data.modes import as_picture
from eigenview.data.source import NO_LABEL
from eigenview.errors import DataError, EigenviewError, SettingError, WriteError
from eigenview.files import atomic_folder
from eigenview.labels.label_files import numbered, write_labels
from eigenview.labels.suggesting import Suggestions, head_beside, spread_labels
from eigenview.names import printable
from eigenview.search.pictures import Pictures

Form = Literal["csv", "parquet", "copies", "links"]
LONGEST = 60  # bytes of a folder's name
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}


@dataclass(frozen=True)
class Exported:
    """Where it is, and how much of it."""

    folder: Path
    labels: int  # pictures that have one
    empty: int  # that have none: less sure than asked for, or struck out
    answers: int  # of the person's own
    pictures: int  # copied or linked
    missing: int  # that could not be


def export_labels(
    session: Session, out: Path, form: Form, *, certain: float = 0.0, source: Source | None = None
) -> Exported:
    """Into a new folder of ``out``: ``labels-1``, ``labels-2``, …"""
    with session.changed:
        given, struck = session.given(), set(session.standing.struck)
        answers = numbered(session.standing.said, len(session.stored))
    spread = spread_labels(session.stored, given, certain=certain)
    if unsaid := [row for row in struck if not bool(spread.given[row])]:  # struck out, and nobody answered since
        even = spread.probabilities.clone()
        even[unsaid] = 1 / even.shape[1]  # as likely as each other: nothing is said
        spread = replace(spread, probabilities=even)
    place = _new_folder(out)
    suffix = ".parquet" if form == "parquet" else ".csv"
    pictures = missing = 0
    try:
        with atomic_folder(place) as folder:
            table = spread.write(folder / f"labels{suffix}")
            write_labels(folder / f"answers{suffix}", session.stored, answers)
            spread.labeller.save(head_beside(table))
            if form in ("copies", "links"):
                pictures, missing = _sorted_pictures(spread, folder, form, source)
    except BaseException:
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
        raise
    said = int((spread.numbers != NO_LABEL).sum())
    return Exported(place, said, len(spread.stored) - said, answers.count, pictures, missing)


def folder_names(classes: Iterable[str]) -> dict[str, str]:
    """A folder for each class: letters, digits, spaces, ``-`` and ``_``; two that would be alike get numbers."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for name in classes:
        plain = re.sub(r"[^\w \-]+", "-", name).strip(" -_")
        plain = plain.encode()[:LONGEST].decode(errors="ignore").strip(" -_") or "class"
        plain = f"class {plain}" if plain.casefold() in RESERVED else plain
        numbers = (plain if number == 1 else f"{plain} {number}" for number in count(1))
        names[name] = next(free for free in numbers if free.casefold() not in taken)
        taken.add(names[name].casefold())
    return names


def _new_folder(out: Path) -> Path:
    """Made here and by nobody else: the first number that is free."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            place = out / f"labels-{number}"
            try:
                place.mkdir()
            except FileExistsError:
                continue
            return place
    except OSError as error:
        raise WriteError(f"cannot write into {printable(out)}: {error.strerror}; name another place (--out)") from None
    raise AssertionError


def _sorted_pictures(spread: Suggestions, folder: Path, form: Form, source: Source | None) -> tuple[int, int]:
    """Pictures into a folder of their class's own; how many, and how many could not be found."""
    pictures = Pictures(spread.stored, source)
    places = folder_names(spread.classes)
    taken: set[Path] = set()
    done = missing = 0
    for row, label in enumerate(spread.labels):
        if label is None:
            continue
        inside = folder / "pictures" / places[label]
        inside.mkdir(parents=True, exist_ok=True)
        file = pictures.file(row)
        name = file.name if file is not None else f"{row:06d}.png"
        stem, suffix = os.path.splitext(name)
        free = (inside / (name if number == 1 else f"{stem} {number}{suffix}") for number in count(1))
        target = next(place for place in free if place not in taken)
        taken.add(target)
        try:
            if file is not None and form == "links":
                os.symlink(file, target)
            elif file is not None:
                shutil.copyfile(file, target)
            elif form == "links":
                raise SettingError("pictures that are no files of their own cannot be linked; copy them")
            else:
                image = pictures.image(row)
                if image is None:
                    raise DataError("gone")
                as_picture(image.pixels()).save(target, "PNG")
            done += 1
        except SettingError:
            raise
        except (EigenviewError, OSError) as error:
            if isinstance(error, OSError) and error.errno in (28, 122):  # no room: better said than half done
                raise WriteError(f"no room for the pictures in {printable(folder.parent)}; link them instead") from None
            missing += 1
    return done, missing
