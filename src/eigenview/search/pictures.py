"""The pictures behind embeddings: which item is which row, by path and name, and how it looks."""

from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

from eigenview.data import EncodedImage, LazyImage, PixelImage, Source, Unannotated, open_source
from eigenview.data.modes import as_picture
from eigenview.errors import DataError, EigenviewError, SettingError
from eigenview.names import printable
from eigenview.search.stored import Embeddings

NO_PICTURE = np.full((48, 48, 3), 128, dtype=np.uint8)


def item_key(source: Source, item: int) -> str:
    """The absolute path of an item, or its name where it is no file."""
    path = source.path(item)
    return source.name(item) if path is None else printable(path)


def matched_rows(stored: Embeddings, source: Source) -> list[int | None]:
    """For each item of ``source`` its row: that of its path, or the one whose path ends as its name does.

    Of several items that would have one row, the one that agrees with it furthest has it; if two do, none. Vectors
    that have no names, nor numbers, are those of the items in their order, where there are as many; otherwise no item
    has a row.
    """
    if stored.has_no_names:
        numbers = stored.index.tolist()
        is_unclear = len(source) != len(stored) and numbers == list(range(len(stored)))
        rows = {} if is_unclear else {number: row for row, number in enumerate(numbers)}
        return [rows.get(item) for item in range(len(source))]
    best: dict[int, tuple[int, list[int]]] = {}  # row → how many letters agree, and the items of which so many do
    for item in range(len(source)):
        row, letters = _row(stored, source, item)
        if row is None or letters < best.get(row, (0, []))[0]:
            continue
        if letters > best.get(row, (0, []))[0]:
            best[row] = letters, []
        best[row][1].append(item)
    clear = ((row, items) for row, (_, items) in best.items() if len({item_key(source, item) for item in items}) == 1)
    row_of = {item: row for row, items in clear for item in items}
    return [row_of.get(item) for item in range(len(source))]


def no_match(stored: Embeddings, source: Source) -> DataError:
    """What to say where no row is any item's."""
    return DataError(
        f"no image of {source.describe().place} has a vector in {printable(stored.place)}: their names do not agree "
        f"({item_key(source, 0)}, {stored.paths[0]}), nor their numbers ({len(source):,}, {len(stored):,})"
    )


def _row(stored: Embeddings, source: Source, item: int) -> tuple[int | None, int]:
    """The row of an item, and how many letters of their paths agree."""
    name, key = source.name(item), item_key(source, item)
    if (row := stored.row_of_path(key)) is not None:
        return row, len(key)
    if (row := stored.row_of_tail(name)) is not None:
        return row, len(name)
    row = stored.row_within(key)
    return row, 0 if row is None else len(stored.paths[row])


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
        is_same = f"/{path}".endswith(f"/{image.name}") or f"/{image.name}".endswith(f"/{path}")
        return image if is_same else None  # files may have come or gone meanwhile

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


def in_colour(image: LazyImage) -> Image.Image:
    return as_picture(image.pixels()).convert("RGB")


def picture_of_file(path: Path) -> Image.Image | None:
    try:
        return in_colour(EncodedImage.from_file(path))
    except EigenviewError:
        return None
