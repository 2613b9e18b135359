"""What the images of a source look like: the shape of a typical one, the statistics of some."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np

from eigenview.batches.loader import AnySource
from eigenview.data import Item, LazyImage, Source, UnreadableImage
from eigenview.data.source import Share
from eigenview.errors import DataError
from eigenview.views import ImageStatistics
from eigenview.views.settings import Shape

Sized = tuple[int, LazyImage]  # its shorter side, and the image
LOOKED_AT = 64  # images


def typical_shape(source: AnySource) -> Shape:
    """Height, width and channels of a typical image: of some, evenly spread, the one with the median shorter side.

    Only headers are read but for that one. Of a stream, the first that can be read.
    """
    if not isinstance(source, Source):
        return _first_shape(source)
    sizes = []
    for image in _spread(source):
        try:
            opened = image()
            sizes.append((min(opened.size), opened))
        except UnreadableImage:
            continue
    for _, opened in _from_the_middle(sorted(sizes, key=lambda size: size[0])):
        try:
            height, width, channels = opened.pixels().shape
        except UnreadableImage:
            continue
        return height, width, channels
    return _first_shape(source)


def _from_the_middle(items: Sequence[Sized]) -> list[Sized]:
    """The middle one first, then its neighbours on both sides in turn."""
    middle = (len(items) - 1) // 2
    return [items[place] for place in sorted(range(len(items)), key=lambda place: (abs(place - middle), place))]


def _first_shape(source: AnySource) -> Shape:
    for image in _images(source):
        try:
            height, width, channels = image().pixels().shape
        except UnreadableImage:
            continue
        return height, width, channels
    raise DataError("none of the images can be read; `eigenview data check` says why")


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
    for image in islice(_spread(source), LOOKED_AT):
        try:
            opened = image()
            reduce = next(factor for factor in (8, 4, 2, 1) if factor == 1 or factor * 64 <= min(opened.size))
            planes = opened.pixels(reduce=reduce)
        except UnreadableImage:
            continue
        pixels = planes.reshape(-1, planes.shape[2]) / 255.0
        means.append(pixels.mean(axis=0))
        squares.append(np.square(pixels).mean(axis=0))
    if not means:
        raise DataError("none of the images can be read; `eigenview data check` says why")
    mean = np.mean(means, axis=0)
    deviation = np.sqrt(np.maximum(np.mean(squares, axis=0) - mean**2, 0))
    return ImageStatistics(tuple(map(float, mean.round(4))), tuple(map(float, deviation.round(4))))


def _spread(source: AnySource) -> Iterator[Callable[[], LazyImage]]:
    if not isinstance(source, Source):
        return _images(source)
    places = np.unique(np.linspace(0, len(source) - 1, min(LOOKED_AT, len(source))).astype(np.int64))
    return (partial(source.image, int(place)) for place in places)
