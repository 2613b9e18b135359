"""Which items make up which batch: a pure function of (seed, epoch, step), whatever the number of processes.

And what every loader keeps: which epoch it is in, how far it has come, and what it could not read.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eigenview.data.failures import FailureLog
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


def replaces_unreadable(unreadable: str) -> bool:
    if unreadable not in ("replace", "skip"):
        raise SettingError(f"unreadable is 'replace' or 'skip'; got {unreadable!r}")
    return unreadable == "replace"


class Positioned:
    """Epoch ``epoch``, of which ``_step`` batches have been handed out, and ``_drawn`` taken from the workers.

    After a restore the next iteration begins there, otherwise at 0.
    """

    def __init__(self, log: str | Path | None) -> None:
        self._failures = FailureLog(log)
        self._epoch = self._step = self._drawn = 0
        self._is_restored = False

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def unreadable(self) -> dict[str, str]:
        """The items that could not be read so far, by name, and why."""
        return self._failures.reasons

    def set_epoch(self, epoch: int) -> None:
        """What the next iteration shuffles by. A restored position is kept when it lies in this epoch."""
        if epoch < 0:
            raise SettingError(f"epoch must be at least 0; got {epoch}")
        if epoch != self._epoch:
            self._epoch, self._step, self._drawn, self._is_restored = epoch, 0, 0, False
