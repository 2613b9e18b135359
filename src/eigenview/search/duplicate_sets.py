"""Near-identical images, gathered into sets."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from eigenview.diagnostics.duplicates import COSINE, near_duplicates
from eigenview.files import atomic_path
from eigenview.search.stored import Embeddings, open_embeddings

MOST_PAIRS = 1_000_000


@dataclass(frozen=True)
class Member:
    """An image of a set."""

    row: int  # in the embeddings
    index: int  # in the source
    path: str
    label: str | None


@dataclass(frozen=True)
class DuplicateSet:
    """Images that hang together: each is near-identical to another of the set, though perhaps not to all."""

    members: tuple[Member, ...]  # in the order of the source
    lowest: float  # cosine of the pairs found in it
    highest: float


@dataclass(frozen=True)
class DuplicateSets:
    """All sets, the closest first."""

    sets: tuple[DuplicateSet, ...]
    threshold: float
    images: int  # that were searched
    is_complete: bool  # False: there were too many pairs, and the search stopped

    @property
    def surplus(self) -> int:
        """How many images could go if one of each set stayed."""
        return sum(len(one.members) - 1 for one in self.sets)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    def write(self, out: str | Path) -> Path:
        """``to_json`` into a file, whole or not at all."""
        with atomic_path(Path(out)) as file:
            file.write_text(self.to_json() + "\n", encoding="utf-8")
        return Path(out)


def duplicates(embeddings: Embeddings | str | Path, *, cosine: float = COSINE, most: int = MOST_PAIRS) -> DuplicateSets:
    """Images whose vectors have a cosine of at least ``cosine`` with another one's, as connected sets.

    Exact, by :func:`eigenview.diagnostics.near_duplicates`; ``most`` pairs at most. One image alone has no duplicates.
    A poor or collapsed encoder finds everything alike: look at the sheet before deleting anything.
    """
    stored = embeddings if isinstance(embeddings, Embeddings) else open_embeddings(embeddings)
    if len(stored) < 2:
        return DuplicateSets((), cosine, len(stored), is_complete=True)
    found = near_duplicates(stored.vectors, cosine=cosine, most=most)
    pairs, cosines = found.pairs.numpy(), found.cosines.numpy()
    rows, places = np.unique(pairs, return_inverse=True)  # only rows with a duplicate are nodes
    first, second = places.reshape(pairs.shape).T
    graph = coo_array((np.ones(len(pairs), dtype=np.int8), (first, second)), shape=(len(rows), len(rows)))
    count, of_row = connected_components(graph, directed=False) if len(rows) else (0, np.empty(0, dtype=np.int64))
    lowest, highest = np.ones(count), -np.ones(count)
    np.minimum.at(lowest, of_row[first], cosines)
    np.maximum.at(highest, of_row[first], cosines)
    members: list[list[Member]] = [[] for _ in range(count)]
    for row, number in zip(rows.tolist(), of_row.tolist(), strict=True):
        members[number].append(Member(row, int(stored.index[row]), stored.paths[row], stored.label_name(row)))
    sets = [
        DuplicateSet(tuple(inside), float(low), float(high))
        for inside, low, high in zip(members, lowest, highest, strict=True)
    ]
    sets.sort(key=lambda one: (-one.highest, one.members[0].row))
    return DuplicateSets(tuple(sets), found.threshold, len(stored), is_complete=found.is_complete)
