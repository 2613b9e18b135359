"""A source in parts of fixed content: whatever reads it, on any number of workers, part i holds the same images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data import (
    Batch,
    BatchSource,
    Failure,
    Item,
    LazyImage,
    Loader,
    Source,
    SourceInfo,
    StreamLoader,
    StreamSource,
    UnreadableImage,
    subset,
)
from eigenview.data.files import FilesSource
from eigenview.data.source import NO_LABEL, Share, Subset
from eigenview.names import printable
from eigenview.views import CentreView

PART_ITEMS = 8192  # images of one part; what a kill may lose
LONGEST_NAME, LONGEST_REASON = 4096, 512  # bytes; Linux takes no longer path

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
    channels: int  # of the encoder
    batch_size: int
    workers: int

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

    def read(self, part: int) -> Iterator[Reading]:
        """The readable images of a part, each once."""
        if isinstance(self.source, Source):
            return self._indexed(self.source, part)
        return self._streamed(self.source, part)

    def _indexed(self, source: Source, part: int) -> Iterator[Reading]:
        start = part * PART_ITEMS
        numbers = np.arange(start, min(start + PART_ITEMS, len(source)))
        is_ready = isinstance(source, BatchSource)  # nothing to decode, so nothing to fail
        loader = Loader(
            subset(source, numbers) if is_ready else _Forgiving(source, numbers),
            batch_size=min(self.batch_size, len(numbers)),
            seed=0,
            prepare=None if is_ready else _NamedCrop(self.view, self.channels),
            workers=0 if is_ready else self.workers,
            shuffle=False,
            drop_last=False,
        )
        for batch in loader:
            found = replace(batch, index=batch.index + start)
            if is_ready:
                names = tuple(source.image(int(one)).name for one in found.index)
                labels = _labels(batch.label, len(batch))
                yield Reading(self.view(batch.views[0]), found.index, labels, names, ())
            else:
                yield self._sorted_out(found, source)

    def _streamed(self, source: StreamSource, part: int) -> Iterator[Reading]:
        loader = StreamLoader(
            _OneShare(source, part, self.parts),
            batch_size=self.batch_size,
            seed=0,
            prepare=_NamedCrop(self.view, self.channels),
            workers=self.workers,
            shuffle=False,
            drop_last=False,
        )
        for batch in loader:
            yield self._sorted_out(batch, None)

    def _sorted_out(self, batch: Batch, source: Source | None) -> Reading:
        """The rows that could be read, and the names of the others."""
        crops, names, reasons = batch.views
        known = [(_text(name), _text(reason)) for name, reason in zip(names, reasons, strict=True)]
        good = [row for row, (_, reason) in enumerate(known) if not reason]
        paths = tuple(_path(source, int(batch.index[row]), known[row][0]) for row in good)
        unreadable = tuple(Failure(name, reason) for name, reason in known if reason)
        images = self.view.finish([crops[good]]) if good else torch.empty(0, *crops.shape[1:])
        return Reading(images, batch.index[good], _labels(batch.label, len(batch))[good], paths, unreadable)


class _NamedCrop:
    """The central crop of an image, and as further views its name and why it cannot be read, if so.

    Nothing is lost on the way from a worker, and no other image stands in for one that cannot be read.
    """

    def __init__(self, view: CentreView, channels: int) -> None:
        self.view, self.channels = view, channels

    def __call__(self, image: LazyImage, epoch: int, index: int) -> tuple[Pixels, Pixels, Pixels]:
        reason = ""
        try:
            crop = self.view.prepare(image, epoch, index)[0]
        except UnreadableImage as error:
            reason = error.reason or "unknown"
            crop = np.zeros((self.view.size, self.view.size, self.channels), dtype=np.uint8)
        return crop, _letters(image.name, LONGEST_NAME), _letters(reason, LONGEST_REASON)


@dataclass(frozen=True)
class _Unreadable:
    """In the place of an image that cannot be opened: says so only when its pixels are asked for."""

    error: UnreadableImage
    size: tuple[int, int] = (1, 1)
    mode: str = "unreadable"

    @property
    def name(self) -> str:
        return self.error.name

    def pixels(self, reduce: int = 1) -> Pixels:
        raise self.error

    def digest(self) -> bytes:
        raise self.error


class _Forgiving(Subset):
    """Some items of a source; what cannot be opened keeps its place."""

    def image(self, index: int) -> LazyImage:
        try:
            return super().image(index)
        except UnreadableImage as error:
            return _Unreadable(error)


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
        for item in islice(everything, share.number, None, share.readers):
            yield Item(0, _Unreadable(item)) if isinstance(item, UnreadableImage) else item

    def describe(self) -> SourceInfo:
        return self.source.describe()


def _letters(text: str, most: int) -> Pixels:
    """Text as an image of one line."""
    line = np.zeros((1, most, 1), dtype=np.uint8)
    letters = text.encode("utf-8", "backslashreplace")[:most]
    line[0, : len(letters), 0] = np.frombuffer(letters, dtype=np.uint8)
    return line


def _text(line: Tensor) -> str:
    return bytes(line.flatten().numpy()).rstrip(b"\0").decode("utf-8", "replace")


def _path(source: Source | None, index: int, name: str) -> str:
    """Where the image's file is, if it has one of its own; otherwise its name."""
    if not isinstance(source, FilesSource):
        return name
    return printable(os.path.abspath(source.root / source.relative_path(index)))


def _labels(labels: Tensor | None, rows: int) -> Tensor:
    return torch.full((rows,), NO_LABEL) if labels is None else labels
