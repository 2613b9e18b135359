"""The way every verb opens its images: once, and small ones are decoded once and kept.

A table of CIFAR's size is worth it: every epoch after the first is free.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data.batch import MixedSizesError, Resize
from eigenview.data.decode import PixelImage, UnreadableImage
from eigenview.data.failures import Failure, known_failures
from eigenview.data.loader import Loader
from eigenview.data.source import BatchSource, Depth, Source, SourceInfo, StreamSource, Subset
from eigenview.data.spec import AnySource, open_source
from eigenview.errors import DataError, SettingError
from eigenview.names import printable
from eigenview.progress import progress_bar

Spec = str | Path | AnySource

ROWS = 256  # decoded at a time
SMALL_SIDE = 96  # pixels up to which images are kept decoded
IN_MEMORY = 4 << 30  # bytes of pixels that may be kept


class DecodedSource(Subset):
    """The readable images of a source, as an array (n, channels, height, width); what else is known stays with them.

    ``unreadable`` names the images that were left out.
    """

    def __init__(
        self,
        source: Source,
        indices: npt.ArrayLike,
        images: npt.NDArray[np.uint8],
        *,
        is_resized: bool,
        unreadable: Sequence[Failure] = (),
    ) -> None:
        super().__init__(source, indices)
        self._images, self._is_resized = images, is_resized
        self.unreadable = (*known_failures(source), *unreadable)

    def image(self, index: int) -> PixelImage:
        return PixelImage(self._images[index].transpose(1, 2, 0), name=self.name(index))

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self._images[indices])

    def depth(self, index: int) -> Depth | None:
        if self._is_resized:
            raise DataError("the images were resized and their depth was not: decode them without size")
        return super().depth(index)

    def describe(self) -> SourceInfo:
        whole = self._source.describe()
        return replace(whole, count=len(self), unreadable=whole.unreadable + len(self._source) - len(self))


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
    failures: list[Failure] = []
    filled = 0
    with progress_bar("decoding", total=len(source), shown=shows_progress) as advance:
        for batch in loader:
            advance(ROWS)
            failures.extend(batch.unreadable)
            if len(batch) == 0:
                continue
            view = batch.views[0].numpy()
            if images is None:
                images = np.empty((len(source), *view.shape[1:]), dtype=np.uint8)
            if view.shape[1:] != images.shape[1:]:
                sizes = f"{images.shape[2:]} and {view.shape[2:]}"
                raise MixedSizesError(f"images of two sizes, {sizes}: decode them with size=")
            images[filled : filled + len(view)] = view
            filled += len(view)
            kept.append(batch.index.numpy())
    if images is None:
        first = f"{failures[0].name}: {failures[0].reason}" if failures else "unknown"
        raise DataError(f"none of the images can be read, the first one {first}")
    indices = np.concatenate(kept)
    return DecodedSource(source, indices, images[:filled], is_resized=size is not None, unreadable=failures)


@overload
def open_images(
    spec: Spec,
    *,
    needs_index: Literal[True],
    workers: int | str = "auto",
    log: Path | None = None,
    network: bool = True,
) -> Source: ...


@overload
def open_images(
    spec: Spec, *, needs_index: bool = False, workers: int | str = "auto", log: Path | None = None, network: bool = True
) -> AnySource: ...


def open_images(
    spec: Spec, *, needs_index: bool = False, workers: int | str = "auto", log: Path | None = None, network: bool = True
) -> AnySource:
    """The source that ``spec`` describes, or is, ready to be read again and again.

    Small images of one size are kept decoded (:func:`kept_if_small`). ``needs_index`` refuses
    streams, which can only be read in order; ``network=False`` addresses (:func:`open_source`).
    """
    source = open_source(spec, network=network) if isinstance(spec, (str, Path)) else spec
    place = printable(spec) if isinstance(spec, (str, Path)) else source.describe().place
    if not isinstance(source, Source):
        if needs_index and isinstance(source, StreamSource):
            raise SettingError(f"{place} is a stream and can only be read in order; this needs an indexed source")
        return source
    if len(source) == 0:
        raise DataError(f"no images in {place}")
    return kept_if_small(source, workers=workers, log=log)


def kept_if_small(source: Source, *, workers: int | str = "auto", log: str | Path | None = None) -> Source:
    """The source with its images decoded once and for all, if all are small and of one size; otherwise itself.

    Sizes are met as the images are decoded, so it costs one pass where it pays, and where a second size appears none
    beyond that. What cannot be read on the way is written to ``log``, and named by the source that is returned.
    """
    if isinstance(source, BatchSource):
        return source
    width, height = _first_size(source)
    if max(width, height) > SMALL_SIDE or 3 * width * height * len(source) > IN_MEMORY:
        return source
    try:
        return decoded(source, workers=workers, log=log)
    except MixedSizesError:
        return source


def _first_size(source: Source) -> tuple[int, int]:
    """(width, height) of the first image that can be opened."""
    reason: UnreadableImage | None = None
    for index in range(len(source)):
        try:
            return source.image(index).size
        except UnreadableImage as error:
            reason = reason or error
    raise DataError(f"none of the images can be read, the first one {reason}")
