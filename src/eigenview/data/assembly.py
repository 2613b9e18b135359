"""One batch put together, in a worker or in the main process: open, prepare, replace what cannot be read, stack."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch.utils.data import Dataset

from eigenview.data.batch import Batch, stack_planes
from eigenview.data.decode import LazyImage, UnreadableImage
from eigenview.data.failures import Failure
from eigenview.data.modes import Pixels
from eigenview.data.order import Indices, substitutes
from eigenview.data.source import NO_LABEL, BatchSource, Depth, Source
from eigenview.errors import DataError, EigenviewError

# (image, epoch, index) -> one uint8 (h, w, c) array per view; runs in a worker, so it must be picklable
Prepare = Callable[[LazyImage, int, int], Sequence[Pixels]]

TRIES = 100  # unreadable images in a row before giving up


@dataclass(frozen=True)
class Request:
    """The rows of one step that fall to this process. ``probe`` is an item to learn shapes from when none does."""

    epoch: int
    indices: Indices
    probe: int


@dataclass(frozen=True)
class Crash:
    """An exception on its way from a worker to the main process."""

    error: EigenviewError | None  # a user's mistake, to be raised as it is
    text: str  # otherwise: the item's name and the traceback


@dataclass(frozen=True)
class Row:
    """An item of a batch: its views, or its image alone, and what is known about it."""

    index: int
    name: str
    arrays: tuple[Pixels, ...]
    label: int | None = None
    captions: tuple[str, ...] | None = None
    depth: Depth | None = None


class PrepareFailed(RuntimeError):
    """``prepare`` raised something that is no fault of the image: a bug in it, with the item's name."""


class Fetcher(Dataset[Batch | Crash]):
    """Batches of a source. ``replaces`` says whether unreadable items are replaced or left out."""

    def __init__(self, source: Source, *, prepare: Prepare | None, seed: int, replaces: bool) -> None:
        self.source = source
        self.prepare = prepare
        self.seed = seed
        self.replaces = replaces
        info = source.describe()
        self.is_captioned = info.is_captioned
        self.has_depth = info.has_depth and prepare is None  # views are cut out of the image, and depth is not
        self.labels = source.labels

    def __getitem__(self, request: Request) -> Batch | Crash:
        try:
            return self.fetch(request)
        except EigenviewError as error:
            return Crash(error, "")
        except PrepareFailed as error:
            return Crash(None, str(error))

    def fetch(self, request: Request) -> Batch:
        if self.prepare is None and isinstance(self.source, BatchSource):
            indices = request.indices
            return Batch(
                index=torch.from_numpy(indices.copy()),
                images=self.source.batch(indices),
                names=tuple(self.source.name(int(index)) for index in indices),
                label=None if self.labels is None else torch.from_numpy(self.labels[indices]),
                captions=tuple(self.source.captions(int(i)) for i in indices) if self.is_captioned else None,
            )
        failures: list[Failure] = []
        rows = [row for index in request.indices if (row := self._row(int(index), request.epoch, failures))]
        batch = stacked(rows, is_prepared=self.prepare is not None) if rows else self._without_rows(request)
        return replace(batch, unreadable=tuple(failures))

    def _without_rows(self, request: Request) -> Batch:
        """No rows, of the shapes that an item has; the unreadable ones met on the way belong to other batches."""
        unused: list[Failure] = []
        model = self._attempt(request.probe, request.epoch, unused)
        try:
            model = model or self._substitute(request.probe, request.epoch, unused)
        except DataError:
            if self.replaces:
                raise
            return without_rows(is_prepared=self.prepare is not None)
        return stacked([model], is_prepared=self.prepare is not None).first(0)

    def _row(self, index: int, epoch: int, failures: list[Failure]) -> Row | None:
        row = self._attempt(index, epoch, failures)
        return row if row is not None or not self.replaces else self._substitute(index, epoch, failures)

    def _attempt(self, index: int, epoch: int, failures: list[Failure]) -> Row | None:
        try:
            image = self.source.image(index)
            return Row(
                index,
                image.name,
                prepared(image, self.prepare, epoch, index),
                None if self.labels is None else int(self.labels[index]),
                self.source.captions(index) if self.is_captioned else None,
                self.source.depth(index) if self.has_depth else None,
            )
        except UnreadableImage as error:
            failures.append(Failure(error.name, error.reason))
            return None

    def _substitute(self, index: int, epoch: int, failures: list[Failure]) -> Row:
        for other in substitutes(self.seed, epoch, index, len(self.source), TRIES):
            if (row := self._attempt(int(other), epoch, failures)) is not None:
                return row
        last = failures[-1]
        raise DataError(
            f"{TRIES} images in a row are unreadable, the last one {last.name}: {last.reason}; check the source"
        )


def stacked(rows: Sequence[Row], *, is_prepared: bool) -> Batch:
    """One batch of at least one row; labels, captions and depth where the rows have them."""
    names, labels = tuple(row.name for row in rows), [row.label for row in rows]
    views = tuple(stack_planes(arrays, names) for arrays in zip(*(row.arrays for row in rows), strict=True))
    captions = tuple(row.captions for row in rows if row.captions is not None)
    depths = [row.depth[:, :, None] for row in rows if row.depth is not None]
    if depths and len(depths) < len(rows):
        raise DataError("some items have depth and others do not; a batch needs it of all")
    has_labels = any(label is not None for label in labels)
    return Batch(
        index=torch.tensor([row.index for row in rows]),
        images=views if is_prepared else views[0],
        names=names,
        label=torch.tensor([NO_LABEL if label is None else label for label in labels]) if has_labels else None,
        captions=captions or None,
        depth=stack_planes(depths, names) if depths else None,
    )


def without_rows(*, is_prepared: bool) -> Batch:
    """A batch in which nothing could be read, nor anything near it: no rows, of a shape that says nothing."""
    images = torch.empty((0, 3, 1, 1), dtype=torch.uint8)
    return Batch(index=torch.empty(0, dtype=torch.int64), images=(images,) if is_prepared else images)


def prepared(image: LazyImage, prepare: Prepare | None, epoch: int, index: int) -> tuple[Pixels, ...]:
    """The item's views, or its pixels as they are. A bug in ``prepare`` comes back with the item's name."""
    if prepare is None:
        return (image.pixels(),)
    try:
        return tuple(prepare(image, epoch, index))
    except UnreadableImage:
        raise
    except EigenviewError as error:
        raise type(error)(f"{image.name}: {error}") from error
    except Exception as error:
        raise PrepareFailed(f"preparing {image.name} failed:\n{traceback.format_exc()}") from error
