"""Which items make up which batch: a pure function of (seed, epoch, step), whatever the number of processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eigenview.errors import DataError, SettingError

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """``count`` items in global batches of ``batch_size``, reshuffled by (seed, epoch)."""

    count: int
    batch_size: int
    seed: int
    shuffle: bool = True
    drop_last: bool = True

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise SettingError(f"batch_size must be at least 1; got {self.batch_size}")
        if self.seed < 0:
            raise SettingError(f"seed must be at least 0; got {self.seed}")
        if self.count < 1:
            raise DataError("a loader needs at least one image; the source is empty")
        if self.steps == 0:
            raise SettingError(
                f"batch_size {self.batch_size} is more than the {self.count:,} images there are, and drop_last drops "
                "the only batch; lower batch_size or say drop_last=False"
            )

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        return self.count // self.batch_size if self.drop_last else -(-self.count // self.batch_size)

    def order(self, epoch: int) -> Indices:
        """The permutation of one epoch; 0, 1, 2, … without shuffling."""
        if not self.shuffle:
            return np.arange(self.count, dtype=np.int64)
        return np.random.default_rng([self.seed, epoch]).permutation(self.count)

    def global_batch(self, order: Indices, step: int) -> Indices:
        return order[step * self.batch_size : (step + 1) * self.batch_size]


def share_of(batch: Indices, rank: int, world: int) -> Indices:
    """Rank r's consecutive rows of a global batch: sizes differ by one at most, together they are the batch."""
    return batch[rank * len(batch) // world : (rank + 1) * len(batch) // world]


def substitutes(seed: int, epoch: int, index: int, count: int, tries: int) -> Indices:
    """Which items to try in place of ``index`` when it cannot be read: the same on any worker and process."""
    return np.random.default_rng([seed, epoch, index]).integers(count, size=tries)
