"""Worker processes: how many, how they start, and how their troubles reach the main process in words."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from eigenview.errors import DataError, EigenviewError, SettingError
from eigenview.names import reason_of

MOST_WORKERS = 16
PREFETCH = 2  # batches in waiting per worker

T = TypeVar("T")


class PrepareFailed(RuntimeError):
    """``prepare`` raised something that is no fault of the image: a bug in it, with the item's name."""


@dataclass(frozen=True)
class Crash:
    """An exception on its way from a worker to the main process: a user's mistake, or a bug in ``prepare``."""

    error: EigenviewError | PrepareFailed


class Made(Dataset[T | Crash]):
    """What ``make`` gives for each request, as a dataset for workers."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make

    def __getitem__(self, request: object) -> T | Crash:
        try:
            return self._make(request)
        except (EigenviewError, PrepareFailed) as error:
            return Crash(error)


def worker_count(workers: int | str, *, processes: int = 1) -> int:
    """ "auto" is one worker per core this process may use, shared among the processes of this machine."""
    if workers == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        here = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
        return max(1, min(MOST_WORKERS, cores // max(1, here)))
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise SettingError(f"workers is 'auto' or a number from 0; got {workers!r}")
    return workers


def start_workers(
    dataset: Dataset[T | Crash], workers: int, *, requests: Iterable[object] | None = None, persistent: bool
) -> DataLoader[T | Crash]:
    """PyTorch's worker machinery around a dataset that makes whole batches itself."""
    with _without_advice():
        return DataLoader(
            dataset,
            batch_size=None,
            sampler=requests,  # any iterable of what __getitem__ takes
            num_workers=workers,
            collate_fn=_unchanged,
            pin_memory=torch.cuda.is_available(),
            prefetch_factor=PREFETCH if workers else None,
            persistent_workers=persistent,
            generator=torch.Generator(),  # its own: the global one must not depend on how often an epoch starts
        )


def results(machine: DataLoader[T | Crash]) -> Iterator[T]:
    """What the workers make, in order. Their exceptions are raised here; a worker that was killed is an error too."""
    with _without_advice():
        iterator = iter(machine)
    try:
        while True:
            try:
                result = next(iterator)
            except StopIteration:
                return
            except RuntimeError as error:
                if isinstance(error, EigenviewError) or "DataLoader worker" not in str(error):
                    raise
                raise DataError(
                    f"a data worker died ({reason_of(error)}); most often memory or /dev/shm ran out: "
                    "use fewer workers or smaller batches, or workers=0 to see the cause"
                ) from error
            if isinstance(result, Crash):
                raise result.error
            yield result
    finally:
        del iterator  # stops the workers now, not whenever a traceback that holds this frame is collected


def _unchanged(result: object) -> object:
    return result


@contextmanager
def _without_advice() -> Iterator[None]:
    """Who asks for a number of workers gets it, and is not told that forking is a thing to be careful with."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*use of fork", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="This DataLoader will create", category=UserWarning)
        yield
