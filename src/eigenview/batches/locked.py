"""Images whose features are known: batches without pixels, for an encoder that is locked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data import Source
from eigenview.data.source import SourceInfo, Subset


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
