"""What a loader gives: the images of some items and what is known about them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from eigenview.data.decode import REDUCTIONS, LazyImage, UnreadableImage
from eigenview.data.failures import Failure
from eigenview.data.modes import Pixels, as_picture, with_channels
from eigenview.data.order import Indices, substitutes
from eigenview.data.source import NO_LABEL, BatchSource, Depth, Source
from eigenview.data.workers import PrepareFailed
from eigenview.errors import DataError, EigenviewError, SettingError

Planes = npt.NDArray[np.float32]  # (height, width, channels)


class MixedSizesError(DataError):
    """Images of several shapes where one was needed."""


@dataclass(frozen=True)
class Batch:
    """n items. ``images`` is uint8 (n, c, h, w), or a tuple of them, one per view, where the loader prepares views.

    ``names`` has one for each row. ``label`` (n,) has −1 where an item has none; ``depth`` is float32 (n, 1, h, w).
    ``unreadable`` names the items that were met and could not be used while this batch was put together.
    """

    index: Tensor
    images: Tensor | tuple[Tensor, ...]
    label: Tensor | None = None
    captions: tuple[tuple[str, ...], ...] | None = None
    depth: Tensor | None = None
    names: tuple[str, ...] = ()
    unreadable: tuple[Failure, ...] = ()

    def __len__(self) -> int:
        return self.index.shape[0]

    @property
    def views(self) -> tuple[Tensor, ...]:
        """The images as a tuple, also where there is only one of them."""
        return self.images if isinstance(self.images, tuple) else (self.images,)

    def to(self, device: torch.device | str, *, non_blocking: bool = True) -> Batch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        return self._each(torch.Tensor.pin_memory)

    def first(self, rows: int) -> Batch:
        """The first ``rows`` items only."""
        captions = None if self.captions is None else self.captions[:rows]
        return replace(self._each(lambda tensor: tensor[:rows]), captions=captions, names=self.names[:rows])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        images = tuple(map(change, self.images)) if isinstance(self.images, tuple) else change(self.images)
        return replace(
            self,
            index=change(self.index),
            images=images,
            label=None if self.label is None else change(self.label),
            depth=None if self.depth is None else change(self.depth),
        )


def stack_planes(arrays: Sequence[Pixels | Planes], names: Sequence[str]) -> Tensor:
    """(n, c, h, w) from n arrays (h, w, c) of one shape and dtype."""
    shape = arrays[0].shape
    stacked = np.empty((len(arrays), shape[2], shape[0], shape[1]), dtype=arrays[0].dtype)
    for row, (array, name) in enumerate(zip(arrays, names, strict=True)):
        if array.shape != shape:
            raise MixedSizesError(
                f"images of one batch need one shape; {names[0]} has {shape}, {name} has {array.shape}: "
                "give the loader prepare=Resize(size), or views that crop"
            )
        stacked[row] = array.transpose(2, 0, 1)
    return torch.from_numpy(stacked)


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
class Row:
    """An item of a batch: its views, or its image alone, and what is known about it."""

    index: int
    name: str
    arrays: tuple[Pixels, ...]
    label: int | None = None
    captions: tuple[str, ...] | None = None
    depth: Depth | None = None


class Fetcher:
    """Batches of a source. ``replaces`` says whether unreadable items are replaced or left out."""

    def __init__(self, source: Source, *, prepare: Prepare | None, seed: int, replaces: bool) -> None:
        self.source, self.prepare, self.seed, self.replaces = source, prepare, seed, replaces
        info = source.describe()
        self.is_captioned = info.is_captioned
        self.has_depth = info.has_depth and prepare is None  # views are cut out of the image, and depth is not
        self.labels = source.labels

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


@dataclass(frozen=True)
class Resize:
    """The central square of each image as (size, size, channels), by antialiased bilinear resampling.

    A large JPEG is decoded at 1/2, 1/4 or 1/8 scale, as long as at least twice the wanted size remains.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingError(f"size must be at least 1; got {self.size}")

    def __call__(self, image: LazyImage, epoch: int, index: int) -> tuple[Pixels]:
        reduce = max(factor for factor in REDUCTIONS if factor == 1 or min(image.size) >= 2 * factor * self.size)
        pixels = image.pixels(reduce)
        height, width = pixels.shape[:2]
        side = min(height, width)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
        return (with_channels(as_picture(pixels).resize((self.size, self.size), Image.Resampling.BILINEAR, box=box)),)
