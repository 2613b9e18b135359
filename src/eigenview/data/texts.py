"""Many short texts: read from a file with care, and held without padding."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from eigenview.data.failures import blamed_on
from eigenview.errors import DataError
from eigenview.names import printable

LARGEST_TEXT = 1 << 26  # bytes of a text file that comes with a data set; the largest known has 1.2 MB


class Texts:
    """Strings in one buffer, each as long as it is.

    A list of a million strings would be copied by every worker that touches it, since Python counts references
    inside them, and an array of fixed width makes all as long as the longest.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [os.fsencode(text) for text in texts]
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        self._buffer = np.frombuffer(b"".join(encoded), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> str:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} among {len(self)} texts")
        place = index % len(self)
        return os.fsdecode(self._buffer[self._ends[place] : self._ends[place + 1]].tobytes())


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file that are not blank; whatever is wrong with it is one line of error."""
    with blamed_on(path), path.open("rb") as file:
        data = file.read(LARGEST_TEXT + 1)
        if len(data) > LARGEST_TEXT:
            raise DataError(f"{printable(path)} is too large to be what it should: over {LARGEST_TEXT >> 20} MB")
        return [line for line in data.decode("utf-8").splitlines() if line.strip()]
