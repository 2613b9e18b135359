"""A folder of pictures: any mix of formats, any depth of sub-folders, no labels needed."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from eigenview.data.files import FilesSource
from eigenview.data.places import Place, files_below, is_address
from eigenview.data.source import Labels, SourceInfo
from eigenview.errors import DataError
from eigenview.names import printable

SUFFIXES = tuple(".jpg .jpeg .png .webp .bmp .tif .tiff .gif .avif .heic .heif .hif".split())
FEWEST_IN_CLASS = 2  # pictures of a sub-folder that looks like a class
CLUTTER = {"__MACOSX"}  # what archivers leave behind; hidden files (".", "._") are passed over too


class FolderSource(FilesSource):
    """Every picture below ``place``, sorted by its relative path, which makes the index stable.

    Only names are read here: a file that turns out to be unreadable is found out when its image is asked for.
    Symbolic links are followed, each directory once, so loops end. Directories that cannot be entered are listed in
    ``unreadable_folders``. With ``labelled=True`` the first sub-folder names the class, and every picture needs one.

    An address of a folder (s3://…) is listed once, and each picture fetched when it is asked for, each time.
    """

    def __init__(self, place: Place, *, labelled: bool = False, channels: int = 3, kind: str = "folder") -> None:
        root = place if is_address(place) else Path(place)
        names, self.unreadable_folders = _pictures_at(root) if isinstance(root, str) else _pictures_below(root)
        if not names:
            looked_for = " ".join(SUFFIXES)
            blocked = f"; {len(self.unreadable_folders)} folders could not be read" if self.unreadable_folders else ""
            raise DataError(f"no images in {printable(root)} (looked for {looked_for}{blocked}); is the path right?")
        classes, labels = _labels_from_folders(root, names) if labelled else (None, None)
        self._class_folders = () if labelled else _class_folders(names)
        shown = printable(root)
        super().__init__(root, names, kind=kind, place=shown, labels=labels, classes=classes, channels=channels)

    def describe(self) -> SourceInfo:
        return replace(super().describe(), class_folders=self._class_folders)


def require_folder(path: Path) -> None:
    if not path.exists():
        raise DataError(f"no such folder: {printable(path)}; is the path right?")
    if not path.is_dir():
        raise DataError(f"{printable(path)} is a file, not a folder; give the folder that holds the images")


def _pictures_at(address: str) -> tuple[list[str], list[str]]:
    """The same of an address, where everything can be read or nothing."""
    names = [name for name in files_below(address) if name.lower().endswith(SUFFIXES)]
    return [name for name in names if not any(_is_clutter(step) for step in name.split("/"))], []


def _is_clutter(name: str) -> bool:
    return name.startswith(".") or name in CLUTTER


def _pictures_below(root: Path) -> tuple[list[str], list[str]]:
    """Relative paths (POSIX) of the pictures, sorted, and the folders that could not be read."""
    require_folder(root)
    pictures: list[str] = []
    blocked: list[str] = []
    seen: set[tuple[int, int]] = set()
    waiting = [""]
    while waiting:
        relative = waiting.pop()
        try:
            folder = root / relative
            facts = folder.stat()
            if (facts.st_dev, facts.st_ino) in seen:  # a loop of symbolic links, or a second way to the same place
                continue
            seen.add((facts.st_dev, facts.st_ino))
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            blocked.append(printable(relative or "."))
            continue
        inner = []
        for entry in listed:
            if _is_clutter(entry.name):
                continue
            path = f"{relative}/{entry.name}" if relative else entry.name
            if _is_folder(entry):
                inner.append(path)
            elif entry.name.lower().endswith(SUFFIXES):
                pictures.append(path)
        waiting.extend(reversed(inner))
    return sorted(pictures), blocked


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, say
        return False


def _class_folders(names: list[str]) -> tuple[str, ...]:
    """The first sub-folders, where every picture lies in one and each of at least two holds several."""
    counts = Counter(name.split("/", 1)[0] if "/" in name else "" for name in names)
    if "" in counts or len(counts) < 2 or min(counts.values()) < FEWEST_IN_CLASS:
        return ()
    return tuple(printable(name) for name in sorted(counts))


def _labels_from_folders(root: Place, names: list[str]) -> tuple[tuple[str, ...], Labels]:
    loose = [name for name in names if "/" not in name]
    if loose:
        raise DataError(
            f"labels from sub-folders need every image in one; {len(loose)} lie directly in {printable(root)}, "
            f"such as {printable(loose[0])}; move them or drop labelled=True"
        )
    folders = [name.split("/", 1)[0] for name in names]
    classes = sorted(set(folders))
    numbers = {name: number for number, name in enumerate(classes)}
    return tuple(printable(name) for name in classes), np.array([numbers[name] for name in folders], dtype=np.int64)
