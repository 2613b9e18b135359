"""A fixed list of image files below a root: what folders, lists and several named sets come down to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from eigenview.data.decode import EncodedImage, read_image_file
from eigenview.data.places import Place, inside, is_address
from eigenview.data.source import Labels, Unannotated
from eigenview.data.texts import Texts
from eigenview.names import printable


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
