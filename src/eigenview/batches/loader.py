"""The one loader that knows both sources and views: whole batches are augmented at once, photos cut as they decode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data import (
    Batch,
    BatchSource,
    Loader,
    LoaderState,
    Source,
    StreamLoader,
    StreamSource,
    StreamState,
)
from eigenview.data.source import SourceInfo, Subset
from eigenview.distributed import Group, world_size
from eigenview.views import CentreView, Cropper, ViewBatch, Views

AnySource = Source | StreamSource

LUMA = (0.299, 0.587, 0.114)
BATCH = 256  # images at a time, where nothing is trained


@dataclass(frozen=True)
class SeenBatch:
    """Some items of a source (index, labels, names, what could not be read) and the views of their images."""

    batch: Batch
    views: ViewBatch

    def __len__(self) -> int:
        return len(self.batch)


class ViewLoader:
    """Batches of ``source`` seen through ``views``: random ones (``Views``) or the fixed one (``CentreView``).

    As it is, for training: whole batches in an order drawn by (seed, epoch), unreadable images replaced; ``options``
    are those of ``Loader`` and ``StreamLoader``, ``steps_per_epoch`` for streams alone.
    :meth:`in_order` is for looking: every readable item once, the last batch perhaps smaller, unreadable ones named.
    ``channels``: of the images that come out; grey ones are repeated, coloured ones made grey. None: as they are.
    ``state`` and ``restore`` speak of batches handed out.
    """

    def __init__(
        self, source: AnySource, views: Views | CentreView, *, channels: int | None = None, **options: Any
    ) -> None:
        self.source, self.views, self.channels = source, views, channels
        self.stays_whole = isinstance(source, BatchSource)
        cropper = views.prepare if isinstance(views, CentreView) else Cropper(views.recipe, seed=views.seed)
        prepare: Any = None if self.stays_whole else cropper
        self.loader: Loader | StreamLoader
        if isinstance(source, StreamSource) and not isinstance(source, Source):
            self.loader = StreamLoader(source, prepare=prepare, **options)
        else:
            options.pop("steps_per_epoch", None)
            self.loader = Loader(source, prepare=prepare, **options)

    @classmethod
    def in_order(
        cls,
        source: AnySource,
        views: Views | CentreView,
        *,
        batch_size: int = BATCH,
        workers: int | str = "auto",
        channels: int | None = None,
        group: Group = None,
    ) -> ViewLoader:
        return cls(
            source,
            views,
            channels=channels,
            batch_size=max(batch_size, world_size(group)),
            seed=0,
            shuffle=False,
            drop_last=False,
            unreadable="skip",
            workers=workers,
            group=group,
        )

    def __len__(self) -> int:
        """Batches in an epoch, where the source knows."""
        if isinstance(self.loader, Loader):
            return len(self.loader)
        if self.loader.steps_per_epoch is None:
            raise TypeError("a stream without steps_per_epoch has no length")
        return self.loader.steps_per_epoch

    def epoch(self, number: int = 0, *, device: torch.device | None = None) -> Iterator[SeenBatch]:
        """The batches of an epoch from the restored position on; one without a readable image still comes, empty."""
        self.loader.set_epoch(number)
        for batch in self.loader:
            moved = batch if device is None else batch.to(device)
            yield SeenBatch(moved, self._seen(moved, number))

    def close(self) -> None:
        """End the workers, which wait for another epoch."""
        if isinstance(self.loader, Loader):
            self.loader.close()

    def _seen(self, batch: Batch, epoch: int) -> ViewBatch:
        if batch.views[0].numel() == 0:  # no items, or items without pixels (LockedSource)
            return ViewBatch((), images=len(batch))
        images = [with_channels(pixels, self.channels) for pixels in batch.views]
        if isinstance(self.views, CentreView):
            view = self.views(images[0]) if self.stays_whole else self.views.finish(images)
            return ViewBatch((view,), images=len(batch))
        if self.stays_whole:
            return self.views(images[0], batch.index, epoch=epoch)
        return self.views.finish(images, batch.index, epoch=epoch)

    @property
    def step(self) -> int:
        """Batches of the epoch under way that have been handed out."""
        return self.loader.state().step

    @property
    def unreadable(self) -> dict[str, str]:
        """The items that could not be read so far, by name, and why."""
        return self.loader.unreadable

    def state(self) -> dict[str, int]:
        return asdict(self.loader.state())

    def restore(self, state: dict[str, int]) -> None:
        if isinstance(self.loader, StreamLoader):
            self.loader.restore(StreamState(**state))
        else:
            self.loader.restore(LoaderState(**state))


def with_channels(pixels: Tensor, channels: int | None) -> Tensor:
    """uint8 (n, c, h, w) with so many channels: grey repeated, colour as its luma (ITU-R 601, as Pillow's)."""
    if channels is None or pixels.shape[1] == channels:
        return pixels
    if pixels.shape[1] == 1:
        return pixels.expand(-1, channels, -1, -1).contiguous()
    luma = pixels.to(torch.float32).mul_(pixels.new_tensor(LUMA, dtype=torch.float32)[:, None, None])
    return luma.sum(dim=1, keepdim=True).round_().to(torch.uint8)


def first_view(seen: SeenBatch) -> Tensor:
    """The first view of every item (n, c, size, size)."""
    return seen.views.views[0]


class LockedSource(Subset):
    """The items of a source whose features (n, d) were computed, renumbered from 0 as the rows of them.

    A batch has no pixels, so that none is decoded; one image alone is what it was.
    """

    def __init__(self, source: Source, index: Tensor, features: Tensor) -> None:
        super().__init__(source, index.numpy())
        self.features = features
        self._is_captioned = source.describe().is_captioned

    def describe(self) -> SourceInfo:
        return self._source.describe() if len(self) == len(self._source) else super().describe()

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        return torch.empty((len(indices), 1, 0, 0), dtype=torch.uint8)
