"""What a source of images is: a stable index and, for each item, an image and perhaps a label, captions, depth."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor

from eigenview.data.decode import LazyImage, UnreadableImage
from eigenview.errors import DataError
from eigenview.names import counted

Labels = npt.NDArray[np.int64]
Depth = npt.NDArray[np.float32]  # (height, width)

NO_LABEL = -1  # in arrays of labels, where an item has none
LARGEST_LABEL = 2**31 - 1  # more classes than anyone has; a larger number is no label, but an identifier


@dataclass(frozen=True)
class SourceInfo:
    """A source in a few words, for reports and run directories."""

    kind: str
    place: str
    count: int | None  # None: a stream of unknown length
    classes: tuple[str, ...] | None = None
    is_labelled: bool = False
    is_captioned: bool = False
    has_depth: bool = False
    class_folders: tuple[str, ...] = ()  # sub-folders that look like classes, of a folder opened without labels
    unreadable: int = 0  # images left out of the count because they cannot be read, as far as known

    def __str__(self) -> str:
        count = "a stream of images" if self.count is None else counted(self.count, "image")
        count += f" ({self.unreadable:,} unreadable ones left out)" if self.unreadable else ""
        more = [f"{len(self.classes)} classes" if self.classes else "labels"] if self.is_labelled else []
        more += ["captions"] * self.is_captioned + ["depth"] * self.has_depth
        return f"{self.kind} {self.place}: {', '.join([count, *more])}"

    @property
    def labels_hint(self) -> str:
        """How to use sub-folders that look like classes as labels; empty where there are none."""
        if not self.class_folders:
            return ""
        few = ", ".join(self.class_folders[:3]) + (", …" if len(self.class_folders) > 3 else "")
        return (
            f"{len(self.class_folders)} sub-folders look like classes ({few}): "
            f"write '{self.place.rstrip('/')}/?labelled=yes' to use them as labels"
        )


@runtime_checkable
class Source(Protocol):
    """Items 0 … len−1, in an order that never changes. ``label`` and ``depth`` are None where there is none.

    A source of one's own inherits :class:`Unannotated` and needs ``__len__`` and ``image``.
    """

    @property
    @abstractmethod
    def labels(self) -> Labels | None:
        """(n,) with −1 where an item has no label; None when no item has one."""

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...] | None: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def image(self, index: int) -> LazyImage: ...

    def name(self, index: int) -> str:
        """What the item is called, ``image(index).name``, without opening it where that is not needed."""
        try:
            return self.image(index).name
        except UnreadableImage as error:
            return error.name

    def path(self, index: int) -> Path | None:
        """The absolute path of the item's file; None where it has none of its own."""
        return None

    def label(self, index: int) -> int | None:
        labels = self.labels
        return None if labels is None or labels[index] == NO_LABEL else int(labels[index])

    def captions(self, index: int) -> tuple[str, ...]:
        return ()

    def depth(self, index: int) -> Depth | None:
        return None

    @abstractmethod
    def describe(self) -> SourceInfo: ...


@runtime_checkable
class BatchSource(Source, Protocol):
    """A source that needs no decoding: whole batches come at once, without workers."""

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        """uint8 (n, channels, height, width), contiguous."""
        ...


@dataclass(frozen=True)
class Item:
    """One item of a stream. ``index`` is a 63-bit hash of its name: the same in every epoch and process."""

    index: int
    image: LazyImage
    label: int | None = None
    captions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Share:
    """Which part of a stream one reader takes: reader ``number`` of ``readers``, over all processes and workers."""

    seed: int
    epoch: int
    number: int = 0
    readers: int = 1


@runtime_checkable
class StreamSource(Protocol):
    """Items that can only be read in order. The shares of one epoch are disjoint and together hold every item."""

    @property
    def classes(self) -> tuple[str, ...] | None: ...

    def items(self, share: Share, *, shuffle: bool) -> Iterator[Item | Exception]:
        """The share's items; an ``UnreadableImage`` in the place of one that could not be read."""
        ...

    def describe(self) -> SourceInfo: ...


class Unannotated(Source):
    """No labels, captions, depth or files: what a source inherits, and sets or overrides where it has them."""

    _labels: Labels | None = None
    _classes: tuple[str, ...] | None = None
    _kind, _place = "images", "of your own"
    _is_captioned = _has_depth = False

    @property
    def labels(self) -> Labels | None:
        return self._labels

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self._classes

    def describe(self) -> SourceInfo:
        return SourceInfo(
            kind=self._kind,
            place=self._place,
            count=len(self),
            classes=self.classes,
            is_labelled=self.labels is not None,
            is_captioned=self._is_captioned,
            has_depth=self._has_depth,
        )


class Renumbered(Unannotated):
    """Items of other sources under numbers of its own: each is what it was there."""

    @abstractmethod
    def origin(self, index: int) -> tuple[Source, int]:
        """The source of an item, and its number there."""

    def image(self, index: int) -> LazyImage:
        source, row = self.origin(index)
        return source.image(row)

    def name(self, index: int) -> str:
        source, row = self.origin(index)
        return source.name(row)

    def path(self, index: int) -> Path | None:
        source, row = self.origin(index)
        return source.path(row)

    def captions(self, index: int) -> tuple[str, ...]:
        source, row = self.origin(index)
        return source.captions(row)

    def depth(self, index: int) -> Depth | None:
        source, row = self.origin(index)
        return source.depth(row)


class Subset(Renumbered):
    """Some items of a source, renumbered from 0: a fold, a split, the readable ones."""

    def __init__(self, source: Source, indices: npt.ArrayLike) -> None:
        self._source = source
        self.indices = np.asarray(indices, dtype=np.int64)
        if self.indices.size and (self.indices.min() < 0 or self.indices.max() >= len(source)):
            ends = f"{self.indices.min()} … {self.indices.max()}"
            raise DataError(f"indices of a part must lie in 0 … {len(source) - 1}; got {ends}")

        self._labels = None if source.labels is None else source.labels[self.indices]
        self._classes = source.classes

    def __len__(self) -> int:
        return len(self.indices)

    def origin(self, index: int) -> tuple[Source, int]:
        return self._source, int(self.indices[index])

    def describe(self) -> SourceInfo:
        whole = self._source.describe()
        return replace(whole, place=f"{whole.place} (a part)", count=len(self))


class BatchSubset(Subset):
    """Some items of a source that needs no decoding."""

    def __init__(self, source: BatchSource, indices: npt.ArrayLike) -> None:
        super().__init__(source, indices)
        self._batches = source

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        return self._batches.batch(self.indices[indices])


def subset(source: Source, indices: npt.ArrayLike) -> Subset:
    """Items ``indices`` of ``source``, renumbered from 0; whole batches stay whole batches."""
    return BatchSubset(source, indices) if isinstance(source, BatchSource) else Subset(source, indices)
