"""Several sources as one: labelled images and the unlabelled ones beside them, say."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data.failures import known_failures
from eigenview.data.source import NO_LABEL, BatchSource, Renumbered, Source, SourceInfo
from eigenview.errors import DataError


class JoinedSource(Renumbered):
    """The items of the first source, then those of the second, and so on. Items of a source without labels have none.

    Sources with class names must agree on them.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        if not sources:
            raise DataError("at least one source must be given to join")
        named = {source.classes for source in sources if source.classes is not None}
        if len(named) > 1:
            raise DataError(
                f"sources can be joined when their classes are the same; got {' and '.join(map(str, named))}"
            )
        self._sources = list(sources)
        self.unreadable = tuple(failure for source in sources for failure in known_failures(source))
        self._starts = np.concatenate([[0], np.cumsum([len(source) for source in sources], dtype=np.int64)])
        self._classes = named.pop() if named else None
        if any(source.labels is not None for source in sources):
            known = ((source.labels, np.full(len(source), NO_LABEL, dtype=np.int64)) for source in sources)
            self._labels = np.concatenate([blank if labels is None else labels for labels, blank in known])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def describe(self) -> SourceInfo:
        infos = [source.describe() for source in self._sources]
        return replace(
            super().describe(),
            kind="joined",
            place=" + ".join(f"{info.kind} {info.place}" for info in infos),
            is_captioned=any(info.is_captioned for info in infos),
            has_depth=all(info.has_depth for info in infos),
            unreadable=sum(info.unreadable for info in infos),
        )

    def origin(self, index: int) -> tuple[Source, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} among {len(self)} items")
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self._sources[number], int(index - self._starts[number])


class JoinedBatchSource(JoinedSource):
    """Sources that need no decoding, of one image size."""

    def __init__(self, sources: Sequence[BatchSource]) -> None:
        super().__init__(sources)
        self._batches = list(sources)
        shapes = [tuple(source.batch(np.array([0])).shape[1:]) for source in sources]
        if len(set(shapes)) > 1:
            raise DataError(f"sources can be joined when their images have one shape; got {shapes}")
        self._shape = shapes[0]

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        images = torch.empty((len(indices), *self._shape), dtype=torch.uint8)
        numbers = np.searchsorted(self._starts, indices, side="right") - 1
        for number in np.unique(numbers):
            rows = np.flatnonzero(numbers == number)
            images[torch.from_numpy(rows)] = self._batches[number].batch(indices[rows] - self._starts[number])
        return images


def joined(sources: Sequence[Source]) -> JoinedSource:
    """One source from several; whole batches stay whole batches where all of them give them."""
    arrays = [source for source in sources if isinstance(source, BatchSource)]
    return JoinedBatchSource(arrays) if arrays and len(arrays) == len(sources) else JoinedSource(sources)
