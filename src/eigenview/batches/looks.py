"""What the images of a source look like: the shape of a typical one, the statistics of some."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import TypeVar

import numpy as np

from eigenview.batches.loader import AnySource
from eigenview.data import Item, LazyImage, Source, UnreadableImage
from eigenview.data.modes import Pixels
from eigenview.data.source import Share
from eigenview.errors import DataError
from eigenview.views import ImageStatistics
from eigenview.views.settings import Shape

LOOKED_AT = 64  # images
NONE = "none of the images can be read; `eigenview data check` says why"
Made = TypeVar("Made")


def typical_shape(source: AnySource) -> Shape:
    """Height, width and channels of a typical image: of some, evenly spread, the one with the median shorter side.

    Only headers are read but for that one. Of a stream, the first that can be read.
    """
    opened = list(_readable(_spread(source))) if isinstance(source, Source) else []
    opened.sort(key=lambda image: min(image.size))
    middle = (len(opened) - 1) // 2  # that one first, then its neighbours on both sides in turn
    places = sorted(range(len(opened)), key=lambda place: (abs(place - middle), place))
    first = (image.pixels for image in _readable(_images(source)))
    for planes in _readable(chain((opened[place].pixels for place in places), first)):
        height, width, channels = planes.shape
        return height, width, channels
    raise DataError(NONE)


def _readable(makers: Iterable[Callable[[], Made]]) -> Iterator[Made]:
    """What each makes, without those that find their image unreadable."""
    for make in makers:
        with suppress(UnreadableImage):
            yield make()


def _images(source: AnySource) -> Iterator[Callable[[], LazyImage]]:
    if isinstance(source, Source):
        yield from (partial(source.image, index) for index in range(len(source)))
        return
    for item in source.items(Share(seed=0, epoch=0), shuffle=False):
        if isinstance(item, Item):
            yield partial(getattr, item, "image")


def image_statistics(source: AnySource) -> ImageStatistics:
    """Mean and deviation of each channel over the pixels of a few images, evenly spread over an indexed source."""
    means, squares = [], []
    for planes in _readable(partial(_small, image) for image in islice(_spread(source), LOOKED_AT)):
        pixels = planes.reshape(-1, planes.shape[2]) / 255.0
        means.append(pixels.mean(axis=0))
        squares.append(np.square(pixels).mean(axis=0))
    if not means:
        raise DataError(NONE)
    mean = np.mean(means, axis=0)
    deviation = np.sqrt(np.maximum(np.mean(squares, axis=0) - mean**2, 0))
    return ImageStatistics(tuple(map(float, mean.round(4))), tuple(map(float, deviation.round(4))))


def _small(image: Callable[[], LazyImage]) -> Pixels:
    """Decoded at a fraction of its size where it is large."""
    opened = image()
    return opened.pixels(next(factor for factor in (8, 4, 2, 1) if factor == 1 or factor * 64 <= min(opened.size)))


def _spread(source: AnySource) -> Iterator[Callable[[], LazyImage]]:
    if not isinstance(source, Source):
        return _images(source)
    places = np.unique(np.linspace(0, len(source) - 1, min(LOOKED_AT, len(source))).astype(np.int64))
    return (partial(source.image, int(place)) for place in places)
