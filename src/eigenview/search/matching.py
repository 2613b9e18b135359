"""Which rows of embeddings are which items of a source: by their paths and names, never by their places in a list."""

from __future__ import annotations

from eigenview.data import Source
from eigenview.errors import DataError
from eigenview.names import printable
from eigenview.search.stored import Embeddings


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
