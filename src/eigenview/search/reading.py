"""A source in parts of fixed content: whatever reads it, on any number of workers, part i holds the same images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data import BatchSource, Failure, Item, LazyImage, Loader, Source, SourceInfo, StreamLoader, StreamSource
from eigenview.data.decode import printable
from eigenview.data.files import FilesSource
from eigenview.data.source import NO_LABEL, Share, subset
from eigenview.views import CentreView

PART_ITEMS = 8192  # images of one part; what a kill may lose
LONGEST_NAME = 4096  # bytes: the longest path that Linux takes

AnySource = Source | StreamSource
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Reading:
    """Some images of a part, ready for the encoder, and what could not be read on the way."""

    images: Tensor  # (n, c, size, size) float32
    index: Tensor  # (n,)
    labels: Tensor  # (n,), −1 for none
    paths: tuple[str, ...]
    unreadable: tuple[Failure, ...]


@dataclass(frozen=True)
class Reader:
    """Reads the parts of a source. An indexed source has a part for every ``PART_ITEMS`` images, shards one each."""

    source: AnySource
    view: CentreView
    batch_size: int
    workers: int

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

    def read(self, part: int) -> Iterator[Reading]:
        """The readable images of a part, each once."""
        return self._indexed(self.source, part) if isinstance(self.source, Source) else self._streamed(part)

    def _indexed(self, source: Source, part: int) -> Iterator[Reading]:
        start = part * PART_ITEMS
        numbers = np.arange(start, min(start + PART_ITEMS, len(source)))
        decodes = not isinstance(source, BatchSource)
        loader = Loader(
            subset(source, numbers),
            batch_size=min(self.batch_size, len(numbers)),
            seed=0,
            prepare=_NamedCrop(self.view) if decodes else None,
            workers=self.workers if decodes else 0,
            shuffle=False,
            drop_last=False,
            unreadable="skip",
        )
        for batch in loader:
            if len(batch) == 0:
                yield self._nothing(batch.unreadable)
                continue
            index = batch.index + start
            if decodes:
                crops, names = batch.views
                images, known = self.view.finish([crops]), [_name(row) for row in names]
            else:
                images, known = self.view(batch.views[0]), [source.image(int(one)).name for one in index]
            paths = tuple(_path(source, int(one), name) for one, name in zip(index, known, strict=True))
            yield Reading(images, index, _labels(batch.label, len(index)), paths, batch.unreadable)

    def _streamed(self, part: int) -> Iterator[Reading]:
        assert isinstance(self.source, StreamSource)
        loader = StreamLoader(
            _OneShare(self.source, part, self.parts),
            batch_size=self.batch_size,
            seed=0,
            prepare=_NamedCrop(self.view),
            workers=self.workers,
            shuffle=False,
            drop_last=False,
        )
        for batch in loader:
            crops, names = batch.views
            first = torch.from_numpy(np.unique(batch.index.numpy(), return_index=True)[1]).sort().values
            known = tuple(_name(row) for row in names[first])  # others stand in for unreadable ones
            labels = _labels(batch.label, len(batch))[first]
            yield Reading(self.view.finish([crops[first]]), batch.index[first], labels, known, batch.unreadable)
        # those of batches in which nothing could be read, too
        yield self._nothing(tuple(Failure(name, reason) for name, reason in loader.unreadable.items()))

    def _nothing(self, unreadable: tuple[Failure, ...]) -> Reading:
        empty = torch.empty(0, dtype=torch.long)
        return Reading(torch.empty(0, 1, self.view.size, self.view.size), empty, empty, (), unreadable)


class _NamedCrop:
    """The central crop of an image, and the image's name as a second view: so it comes along from the worker."""

    def __init__(self, view: CentreView) -> None:
        self.view = view

    def __call__(self, image: LazyImage, epoch: int, index: int) -> tuple[Pixels, Pixels]:
        name = np.zeros((1, LONGEST_NAME, 1), dtype=np.uint8)
        letters = image.name.encode("utf-8", "backslashreplace")[:LONGEST_NAME]
        name[0, : len(letters), 0] = np.frombuffer(letters, dtype=np.uint8)
        return (*self.view.prepare(image, epoch, index), name)


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


def _name(row: Tensor) -> str:
    return bytes(row.flatten().numpy()).rstrip(b"\0").decode("utf-8", "replace")


def _path(source: Source, index: int, name: str) -> str:
    """Where the image's file is, if it has one of its own; otherwise its name."""
    if not isinstance(source, FilesSource):
        return name
    return printable(os.path.abspath(source.root / source.relative_path(index)))


def _labels(labels: Tensor | None, rows: int) -> Tensor:
    return torch.full((rows,), NO_LABEL) if labels is None else labels
