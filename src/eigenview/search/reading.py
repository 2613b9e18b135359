"""A source in parts of fixed content: whatever reads it, on any number of workers, part i holds the same images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from eigenview.batches import AnySource, ViewLoader
from eigenview.data import Item, Source, SourceInfo, StreamSource, subset
from eigenview.data.source import Share
from eigenview.views import CentreView

PART_ITEMS = 8192  # images of one part; what a kill may lose


@dataclass(frozen=True)
class Reader:
    """The parts of a source. An indexed source has a part for every ``PART_ITEMS`` images, shards one each."""

    source: AnySource
    view: CentreView
    batch_size: int
    workers: int
    channels: int | None = None  # that the encoder takes

    @property
    def part_items(self) -> int:
        return PART_ITEMS

    @property
    def parts(self) -> int:
        if isinstance(self.source, Source):
            return -(-len(self.source) // PART_ITEMS)
        return max(1, len(getattr(self.source, "shards", ())))

    def items(self, part: int) -> int | None:
        """How many images the part has; None where only reading tells."""
        if not isinstance(self.source, Source):
            return None
        return min(PART_ITEMS, len(self.source) - part * PART_ITEMS)

    def first_item(self, part: int) -> int:
        """What the loader's indices of an indexed source's part count from."""
        return part * PART_ITEMS if isinstance(self.source, Source) else 0

    def loader(self, part: int) -> ViewLoader:
        """The readable images of a part, each once."""
        chosen: AnySource
        size = self.batch_size
        if isinstance(self.source, Source):
            start = part * PART_ITEMS
            chosen = subset(self.source, np.arange(start, min(start + PART_ITEMS, len(self.source))))
            size = min(size, len(chosen))
        else:
            chosen = _OneShare(self.source, part, self.parts)
        return ViewLoader.in_order(chosen, self.view, batch_size=size, workers=self.workers, channels=self.channels)


@dataclass(frozen=True)
class _OneShare:
    """One share of a stream as a stream of its own, dealt out among readers item by item."""

    source: StreamSource
    number: int
    shares: int

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.source.classes

    def items(self, share: Share, *, shuffle: bool) -> Iterator[Item | Exception]:
        everything = self.source.items(Share(0, 0, self.number, self.shares), shuffle=False)
        return islice(everything, share.number, None, share.readers)

    def describe(self) -> SourceInfo:
        return self.source.describe()
