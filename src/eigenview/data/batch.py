"""What a loader gives: the images of some items and what is known about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data.failures import Failure
from eigenview.data.modes import Pixels
from eigenview.errors import DataError

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
