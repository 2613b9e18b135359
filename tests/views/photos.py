"""Photos for tests: an array that decodes on demand, with a note of how often and how small."""

from __future__ import annotations

import numpy as np
from PIL import Image


class ArrayPhoto:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.decoded: list[int] = []

    @property
    def size(self) -> tuple[int, int]:
        return self.array.shape[1], self.array.shape[0]

    def pixels(self, reduce: int = 1) -> np.ndarray:
        self.decoded.append(reduce)
        if reduce == 1:
            return self.array
        return np.asarray(Image.fromarray(self.array).reduce(reduce))
