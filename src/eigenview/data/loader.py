"""Batches from a source: decoded in workers where decoding is needed, the same whatever their number."""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from torch.utils.data import DataLoader

from eigenview.data.batch import Batch, Fetcher, Prepare, Request
from eigenview.data.failures import known_failures
from eigenview.data.order import Plan, Positioned, replaces_unreadable, share_of
from eigenview.data.source import BatchSource, Source
from eigenview.data.workers import Crash, Made, results, start_workers, worker_count
from eigenview.distributed import Group, rank, world_size
from eigenview.errors import EigenviewError, SettingError


@dataclass(frozen=True)
class LoaderState:
    """Where a loader stands: ``step`` batches of ``epoch`` have been handed out. The rest says what it belongs to."""

    epoch: int
    step: int
    seed: int
    batch_size: int
    count: int


class Loader(Positioned):
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
        replaces = replaces_unreadable(unreadable)
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
        super().__init__(log)
        self._failures.note(known_failures(source))
        self._fetcher = Fetcher(source, prepare=prepare, seed=seed, replaces=replaces)
        self._requests = _Requests()
        self._machine: DataLoader[Batch | Crash] | None = None

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self.plan.steps

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
        self._epoch, self._step, self._is_restored = state.epoch, state.step, True

    def __iter__(self) -> Iterator[Batch]:
        self._step, self._is_restored = self._step if self._is_restored else 0, False
        planned = self._requests.waiting = self._planned(self._step)
        with closing(planned), closing(self._batches()) as batches:  # an open plan holds the loader
            for batch in batches:
                self._note(batch)
                self._step += 1
                yield batch

    def close(self) -> None:
        """End the workers, which wait for another iteration; it would start new ones."""
        self._machine = None

    def _note(self, batch: Batch) -> None:
        try:
            self._failures.note(batch.unreadable)
        except EigenviewError:
            self.close()  # a full disk ends the run, and its workers before a traceback would
            raise

    def _planned(self, first: int) -> Generator[Request]:
        order, epoch = self.plan.order(self._epoch), self._epoch
        for step in range(first, self.plan.steps):
            everyone = self.plan.global_batch(order, step)
            yield Request(epoch, share_of(everyone, self._rank, self._world), int(everyone[0]))

    def _batches(self) -> Generator[Batch]:
        if self.workers == 0:
            yield from map(self._fetcher.fetch, self._requests)
            return
        if self._machine is None:
            self._machine = start_workers(
                Made(self._fetcher.fetch), self.workers, requests=self._requests, persistent=True
            )
        try:
            yield from results(self._machine)
        except Exception:
            self.close()
            raise


class _Requests:
    """What the workers are asked for next; filled anew at the start of each iteration."""

    def __init__(self) -> None:
        self.waiting: Iterator[Request] = iter(())

    def __iter__(self) -> Iterator[Request]:
        return self.waiting
