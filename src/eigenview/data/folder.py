"""Image files below a root: a fixed list of them, or every picture of a folder, of any format at any depth."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from eigenview.data.decode import EncodedImage, read_image_file
from eigenview.data.places import Place, files_below, inside, is_address
from eigenview.data.source import Labels, SourceInfo, Unannotated
from eigenview.errors import DataError
from eigenview.names import printable


class Texts:
    """Strings in one buffer, each as long as it is.

    A list of a million strings would be copied by every worker that touches it, since Python counts references
    inside them, and an array of fixed width makes all as long as the longest.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [os.fsencode(text) for text in texts]
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        self._buffer = np.frombuffer(b"".join(encoded), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> str:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} among {len(self)} texts")
        place = index % len(self)
        return os.fsdecode(self._buffer[self._ends[place] : self._ends[place + 1]].tobytes())


class FilesSource(Unannotated):
    """Image i is ``root / names[i]``. Only names are held here: a file is opened when its image is asked for.

    ``root`` is a folder, or an address that fsspec can read.
    """

    def __init__(
        self,
        root: Place,
        names: Sequence[str],
        *,
        kind: str,
        place: str,
        labels: Labels | None = None,
        classes: tuple[str, ...] | None = None,
        captions: Sequence[tuple[str, ...]] | None = None,
        channels: int = 3,
    ) -> None:
        self.root = root
        self._names = Texts(names)
        self._labels, self._classes, self._captions = labels, classes, captions
        self._kind, self._place, self._channels = kind, place, channels
        self._is_captioned = captions is not None and any(captions)

    def __len__(self) -> int:
        return len(self._names)

    def relative_path(self, index: int) -> str:
        return self._names[index]

    def image(self, index: int) -> EncodedImage:
        relative = self.relative_path(index)
        name = printable(relative)
        return EncodedImage(read_image_file(self.root, relative, name_shown=name), name=name, channels=self._channels)

    def name(self, index: int) -> str:
        return printable(self.relative_path(index))

    def path(self, index: int) -> Path | None:
        if is_address(self.root):
            return None
        return Path(os.path.abspath(inside(self.root, self.relative_path(index))))

    def captions(self, index: int) -> tuple[str, ...]:
        return () if self._captions is None else self._captions[index]


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
        classes: tuple[str, ...] | None = None
        labels: Labels | None = None
        if labelled:
            if loose := [name for name in names if "/" not in name]:
                raise DataError(
                    f"labels from sub-folders need every image in one; {len(loose)} lie directly in {printable(root)}, "
                    f"such as {printable(loose[0])}; move them or drop labelled=True"
                )
            folders = [name.split("/", 1)[0] for name in names]
            numbers = {name: number for number, name in enumerate(sorted(set(folders)))}
            classes = tuple(printable(name) for name in numbers)
            labels = np.array([numbers[name] for name in folders], dtype=np.int64)
        self._class_folders = () if labelled else _class_folders(names)
        shown = printable(root)
        super().__init__(root, names, kind=kind, place=shown, labels=labels, classes=classes, channels=channels)

    def describe(self) -> SourceInfo:
        return replace(super().describe(), class_folders=self._class_folders)


def _pictures_at(address: str) -> tuple[list[str], list[str]]:
    """The same of an address, where everything can be read or nothing."""
    names = [name for name in files_below(address) if name.lower().endswith(SUFFIXES)]
    return [name for name in names if not any(_is_clutter(step) for step in name.split("/"))], []


def _is_clutter(name: str) -> bool:
    return name.startswith(".") or name in CLUTTER


def _pictures_below(root: Path) -> tuple[list[str], list[str]]:
    """Relative paths (POSIX) of the pictures, sorted, and the folders that could not be read."""
    if not root.exists():
        raise DataError(f"no such folder: {printable(root)}; is the path right?")
    if not root.is_dir():
        raise DataError(f"{printable(root)} is a file, not a folder; give the folder that holds the images")
    pictures: list[str] = []
    blocked: list[str] = []
    seen: set[tuple[int, int]] = set()
    walk = os.walk(root, onerror=lambda error: blocked.append(error.filename), followlinks=True)
    for place, folders, names in walk:
        facts = os.stat(place)
        if (facts.st_dev, facts.st_ino) in seen:  # a loop of symbolic links, or a second way to the same place
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        folders[:] = sorted(name for name in folders if not _is_clutter(name))
        relative = Path(place).relative_to(root).as_posix()
        start = "" if relative == "." else f"{relative}/"
        chosen = (name for name in names if name.lower().endswith(SUFFIXES) and not _is_clutter(name))
        pictures += [f"{start}{name}" for name in chosen]
    return sorted(pictures), [printable(Path(place).relative_to(root)) for place in blocked]


def _class_folders(names: list[str]) -> tuple[str, ...]:
    """The first sub-folders, where every picture lies in one and each of at least two holds several."""
    counts = Counter(name.split("/", 1)[0] if "/" in name else "" for name in names)
    if "" in counts or len(counts) < 2 or min(counts.values()) < FEWEST_IN_CLASS:
        return ()
    return tuple(printable(name) for name in sorted(counts))
