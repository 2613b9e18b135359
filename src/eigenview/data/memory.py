"""Small images decoded once and kept: a table of CIFAR's size is worth it, every epoch after the first is free."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data.decode import PixelImage
from eigenview.data.loader import Loader
from eigenview.data.resize import Resize
from eigenview.data.source import Depth, Source, Subset
from eigenview.errors import DataError
from eigenview.progress import progress_bar

ROWS = 256  # decoded at a time


class DecodedSource(Subset):
    """The readable images of a source, as an array (n, channels, height, width); what else is known stays with them."""

    def __init__(
        self, source: Source, indices: npt.ArrayLike, images: npt.NDArray[np.uint8], *, is_resized: bool
    ) -> None:
        super().__init__(source, indices)
        self._images, self._is_resized = images, is_resized

    def image(self, index: int) -> PixelImage:
        return PixelImage(self._images[index].transpose(1, 2, 0), name=self.name(index))

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self._images[indices])

    def depth(self, index: int) -> Depth | None:
        if self._is_resized:
            raise DataError("the images were resized and their depth was not: decode them without size")
        return super().depth(index)


def decoded(
    source: Source,
    *,
    size: int | None = None,
    workers: int | str = "auto",
    log: str | Path | None = None,
    shows_progress: bool = True,
) -> DecodedSource:
    """Every readable image of ``source`` in memory, n · c · h · w bytes: 150 MB for CIFAR-10's training images.

    Images must be of one size, or are brought to ``size`` × ``size`` (central square). Unreadable ones are left out,
    and the rest renumbered: ``indices`` says which item of ``source`` each is.
    """
    prepare = None if size is None else Resize(size)
    loader = Loader(
        source,
        batch_size=min(ROWS, len(source)),
        seed=0,
        prepare=prepare,
        workers=workers,
        shuffle=False,
        drop_last=False,
        unreadable="skip",
        log=log,
    )
    images: npt.NDArray[np.uint8] | None = None
    kept: list[npt.NDArray[np.int64]] = []
    filled = 0
    with progress_bar("decoding", total=len(source), shown=shows_progress) as advance:
        for batch in loader:
            view = batch.views[0].numpy()
            if images is None:
                images = np.empty((len(source), *view.shape[1:]), dtype=np.uint8)
            if view.shape[1:] != images.shape[1:]:
                raise DataError(f"images of two sizes, {images.shape[2:]} and {view.shape[2:]}: decode them with size=")
            images[filled : filled + len(view)] = view
            filled += len(view)
            kept.append(batch.index.numpy())
            advance(ROWS)
    if images is None or filled == 0:
        raise DataError("none of the images can be read")
    return DecodedSource(source, np.concatenate(kept), images[:filled], is_resized=size is not None)
