"""The pictures behind embeddings: from their source, or from their files, as far as they are still there."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

from eigenview.data import EncodedImage, LazyImage, PixelImage, Source, Unannotated, open_source
from eigenview.data.modes import as_picture
from eigenview.errors import EigenviewError, SettingError
from eigenview.names import printable
from eigenview.search.stored import Embeddings

NO_PICTURE = np.full((8, 8, 3), 128, dtype=np.uint8)


class Pictures:
    """Row → picture. ``source`` is what was embedded; without it, paths and the recorded source are tried."""

    def __init__(self, embeddings: Embeddings, source: Source | None = None) -> None:
        self.embeddings, self._given = embeddings, source

    def of_row(self, row: int) -> Image.Image | None:
        """The picture of a row, in RGB; None when it cannot be found or read any more."""
        try:
            image = self.image(row)
            return None if image is None else in_colour(image)
        except (EigenviewError, OSError, IndexError):
            return None

    def image(self, row: int) -> LazyImage | None:
        """The same, not decoded yet; what cannot be read raises."""
        index = int(self.embeddings.index[row])
        if self._given is not None:
            return self._given.image(index)
        path = self.embeddings.paths[row]
        for place in (Path(path), self.embeddings.place.parent / path):
            if path and place.is_file():
                return EncodedImage.from_file(place)
        source = self._recorded
        if source is None or not 0 <= index < len(source):
            return None
        image = source.image(index)
        return image if _is_same(path, image.name) else None  # files may have come or gone meanwhile

    @cached_property
    def _recorded(self) -> Source | None:
        """The source as the file remembers it, if it opens."""
        about = self.embeddings.about
        if about is None or about.spec is None:
            return None
        try:
            source = open_source(about.spec, network=False)
        except EigenviewError:
            return None
        return source if isinstance(source, Source) else None


class EmbeddedSource(Unannotated):
    """The items of embeddings as a source: names and labels as they are stored, pictures as far as they are found."""

    def __init__(self, embeddings: Embeddings, pictures: Source | None = None) -> None:
        self.embeddings, self._pictures = embeddings, Pictures(embeddings, pictures)
        self._labels = None if embeddings.labels is None else embeddings.labels.numpy()
        self._classes = None if embeddings.about is None else embeddings.about.classes
        self._kind, self._place = "vectors", printable(embeddings.place)

    def __len__(self) -> int:
        return len(self.embeddings)

    def name(self, index: int) -> str:
        return self.embeddings.paths[index]

    def image(self, index: int) -> LazyImage:
        """Its picture, or a grey square where there is none."""
        try:
            image = self._pictures.image(index)
        except (EigenviewError, OSError, IndexError):
            image = None
        return image if image is not None else PixelImage(NO_PICTURE, name=self.name(index))


def open_pictures(spec: str) -> Source:
    """The source behind embeddings, whose items have numbers."""
    source = open_source(spec)
    if not isinstance(source, Source):
        raise SettingError(f"pictures are found by their numbers, which shards do not have; got {printable(spec)}")
    return source


def _is_same(path: str, name: str) -> bool:
    """Whether two names are of one item, though one may begin further up."""
    return path == name or path.endswith(f"/{name}") or name.endswith(f"/{path}")


def in_colour(image: LazyImage) -> Image.Image:
    return as_picture(image.pixels()).convert("RGB")


def picture_of_file(path: Path) -> Image.Image | None:
    try:
        return in_colour(EncodedImage.from_file(path))
    except EigenviewError:
        return None
