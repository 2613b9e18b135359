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
from eigenview.search.matching import item_key, matched_rows, no_match
from eigenview.search.stored import Embeddings

NO_PICTURE = np.full((48, 48, 3), 128, dtype=np.uint8)


class Pictures:
    """Row → picture. ``source`` holds what was embedded, and is searched by name; rows without names are its items in
    their order, if there are as many. Without it, paths and the recorded source are tried.
    """

    def __init__(self, embeddings: Embeddings, source: Source | None = None) -> None:
        self.embeddings, self._given = embeddings, source
        if source is not None:
            self._item(source, 0)  # refused at once where the source is another one

    def of_row(self, row: int) -> Image.Image | None:
        """The picture of a row, in RGB; None when it cannot be found or read any more."""
        try:
            image = self.image(row)
            return None if image is None else in_colour(image)
        except (EigenviewError, OSError, IndexError):
            return None

    def image(self, row: int) -> LazyImage | None:
        """The same, not decoded yet; what cannot be read raises."""
        if self._given is not None:
            item = self._item(self._given, row)
            return None if item is None else self._given.image(item)
        index = int(self.embeddings.index[row])
        path = self.embeddings.paths[row]
        for place in (Path(path), self.embeddings.place.parent / path):
            if path and place.is_file():
                return EncodedImage.from_file(place)
        source = self._recorded
        if source is None or not 0 <= index < len(source):
            return None
        image = source.image(index)
        return image if _is_same(path, image.name) else None  # files may have come or gone meanwhile

    def file(self, row: int) -> Path | None:
        """The file of a row's picture, if it is one of its own."""
        if self._given is not None:
            item = self._item(self._given, row)
            place = None if item is None else self._given.path(item)
        else:
            place = Path(self.embeddings.paths[row]).absolute() if self.embeddings.paths[row] else None
        return place if place is not None and place.is_file() else None

    def _item(self, source: Source, row: int) -> int | None:
        """The item of a row: that of its number if it has its name, otherwise the one that does; None: it has none."""
        index, path = int(self.embeddings.index[row]), self.embeddings.paths[row]
        if 0 <= index < len(source) and (path == source.name(index) or path == item_key(source, index)):
            return index
        return self._items.get(row)

    @cached_property
    def _items(self) -> dict[int, int]:
        """Row → item of the given source; of an array as long, whose items have no names, by number."""
        source, stored = self._given, self.embeddings
        assert source is not None
        items = {row: item for item, row in enumerate(matched_rows(stored, source)) if row is not None}
        if not items and len(source) == len(stored) and source.path(0) is None and source.name(0).endswith("[0]"):
            items = dict(enumerate(stored.index.tolist()))
        if not items:
            raise no_match(stored, source)
        return items

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
        self._classes = embeddings.classes
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
