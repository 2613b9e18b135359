"""Batches from a source: decoded in workers where decoding is needed, the same whatever their number."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from eigenview.data.batch import Batch, Failure
from eigenview.data.fetch import Crash, Fetcher, Prepare, Request
from eigenview.data.order import Plan, share_of
from eigenview.data.source import BatchSource, Source
from eigenview.distributed import Group, rank, world_size
from eigenview.errors import DataError, EigenviewError, SettingError

MOST_WORKERS = 16
PREFETCH = 2  # batches in waiting per worker


@dataclass(frozen=True)
class LoaderState:
    """Where a loader stands: ``step`` batches of ``epoch`` have been handed out. The rest says what it belongs to."""

    epoch: int
    step: int
    seed: int
    batch_size: int
    count: int


class Loader:
    """Batches of ``batch_size`` items over all processes together, in an order that (seed, epoch) alone decide.

    Each process of ``group`` gets its consecutive share of every global batch, so W processes see the batches of one.
    ``prepare(image, epoch, index)`` makes the views right after the image is opened; without it images come as they
    are, and must be of one size. ``workers`` "auto" is one per core, and none for sources that need no decoding.

    Unreadable images never end an epoch. ``unreadable="replace"`` puts another item in the place, drawn by (seed,
    epoch, index), so batches keep their size; ``"skip"`` leaves the row out, for passes that must meet each item at
    most once. Both name the file in ``log`` (one JSON line per file) and in ``self.unreadable``.

    ``state()`` counts the batches handed out, not the prefetched ones: call it when the step with the last batch is
    done. ``restore`` makes the next iteration begin there, on any number of workers and processes.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch_size: int,
        seed: int,
        prepare: Prepare | None = None,
        workers: int | str = "auto",
        shuffle: bool = True,
        drop_last: bool = True,
        unreadable: str = "replace",
        log: str | Path | None = None,
        group: Group = None,
    ) -> None:
        if unreadable not in ("replace", "skip"):
            raise SettingError(f"unreadable is 'replace' or 'skip'; got {unreadable!r}")
        if not isinstance(source, Source):
            raise SettingError(f"a Loader needs a source with an index; got {type(source).__name__} (see StreamLoader)")
        self.plan = Plan(len(source), batch_size, seed, shuffle=shuffle, drop_last=drop_last)
        self._rank, self._world = rank(group), world_size(group)
        if batch_size < self._world:
            raise SettingError(
                f"batch_size counts all processes: {batch_size} is less than one for each of {self._world}"
            )
        decodes = prepare is not None or not isinstance(source, BatchSource)
        self.workers = worker_count(workers, processes=self._world) if decodes or workers != "auto" else 0
        self.unreadable: dict[str, str] = {}
        self._log = None if log is None else Path(log)
        self._fetcher = Fetcher(source, prepare=prepare, seed=seed, replaces=unreadable == "replace")
        self._requests = _Requests()
        self._machine: DataLoader[Batch | Crash] | None = None
        self._epoch = self._step = 0
        self._resume_at: int | None = None

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self.plan.steps

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """What the next iteration shuffles by. A restored position is kept when it lies in this epoch."""
        if epoch < 0:
            raise SettingError(f"epoch must be at least 0; got {epoch}")
        if epoch != self._epoch:
            self._epoch, self._step, self._resume_at = epoch, 0, None

    def state(self) -> LoaderState:
        return LoaderState(self._epoch, self._step, self.plan.seed, self.plan.batch_size, self.plan.count)

    def restore(self, state: LoaderState) -> None:
        mine = self.state()
        for name in ("seed", "batch_size", "count"):
            if getattr(state, name) != getattr(mine, name):
                what = "number of images" if name == "count" else name
                raise SettingError(
                    f"the saved position belongs to another {what}: {getattr(state, name)}, but here it is "
                    f"{getattr(mine, name)}; resume with the same data and settings"
                )
        if not 0 <= state.step <= len(self):
            raise SettingError(f"the saved position is step {state.step} of an epoch with {len(self)}")
        self._epoch, self._step, self._resume_at = state.epoch, state.step, state.step

    def __iter__(self) -> Iterator[Batch]:
        first, self._resume_at = self._resume_at or 0, None
        self._step = first
        self._requests.waiting = self._planned(first)
        for batch in self._batches():
            self._note(batch.unreadable)
            self._step += 1
            yield batch

    def _planned(self, first: int) -> Iterator[Request]:
        order, epoch = self.plan.order(self._epoch), self._epoch
        for step in range(first, self.plan.steps):
            everyone = self.plan.global_batch(order, step)
            yield Request(epoch, share_of(everyone, self._rank, self._world), int(everyone[0]))

    def _batches(self) -> Iterator[Batch]:
        if self.workers == 0:
            yield from map(self._fetcher.fetch, self._requests)
            return
        if self._machine is None:
            self._machine = start_workers(self._fetcher, self._requests, self.workers)
        iterator = iter(self._machine)
        while True:
            try:
                result = next(iterator)
            except StopIteration:
                return
            except RuntimeError as error:
                self._machine = None
                raise worker_death(error) from error
            yield delivered(result)

    def _note(self, failures: tuple[Failure, ...]) -> None:
        for failure in failures:
            if failure.name not in self.unreadable:
                self.unreadable[failure.name] = failure.reason
                append_failure(self._log, failure)


class _Requests:
    """What the workers are asked for next; filled anew at the start of each iteration."""

    def __init__(self) -> None:
        self.waiting: Iterator[Request] = iter(())

    def __iter__(self) -> Iterator[Request]:
        return self.waiting


def worker_count(workers: int | str, *, processes: int = 1) -> int:
    """ "auto" is one worker per core this process may use, shared among the processes of this machine."""
    if workers == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        here = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
        return max(1, min(MOST_WORKERS, cores // max(1, here)))
    if not isinstance(workers, int) or workers < 0:
        raise SettingError(f"workers is 'auto' or a number from 0; got {workers!r}")
    return workers


def start_workers(dataset: Fetcher, requests: _Requests, workers: int) -> DataLoader[Batch | Crash]:
    return DataLoader(
        dataset,
        batch_size=None,
        sampler=requests,  # any iterable of what __getitem__ takes
        num_workers=workers,
        collate_fn=unchanged,  # type: ignore[arg-type]  # without batching it gets the item itself
        pin_memory=torch.cuda.is_available(),
        prefetch_factor=PREFETCH,
        persistent_workers=True,
        generator=torch.Generator(),  # its own: the global one must not depend on how often an epoch starts
    )


def unchanged(result: Batch | Crash) -> Batch | Crash:
    return result


def delivered(result: Batch | Crash) -> Batch:
    if isinstance(result, Batch):
        return result
    if result.error is not None:
        raise result.error
    raise RuntimeError(result.text)


def worker_death(error: RuntimeError) -> Exception:
    """A worker that was killed, in words; any other error unchanged."""
    if isinstance(error, EigenviewError) or "DataLoader worker" not in str(error):
        return error
    return DataError(
        f"a data worker died ({str(error).splitlines()[0]}); most often memory or /dev/shm ran out: "
        "use fewer workers or smaller batches, or workers=0 to see the cause"
    )


def append_failure(log: Path | None, failure: Failure) -> None:
    """One JSON line per file; appended in one write, so that processes may share the log."""
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(failure), ensure_ascii=False) + "\n")
