"""Batches from a stream, such as shards: read in order by workers, each with its own share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from eigenview.data.batch import Batch, Prepare, Row, prepared, stacked, without_rows
from eigenview.data.decode import UnreadableImage
from eigenview.data.failures import Failure
from eigenview.data.order import Positioned, replaces_unreadable, share_of
from eigenview.data.source import Item, Share, StreamSource
from eigenview.data.workers import Crash, PrepareFailed, results, start_workers, worker_count
from eigenview.distributed import Group, rank, world_size
from eigenview.errors import DataError, EigenviewError, SettingError

EMPTY_BATCHES = 20
LAP = 1_000_003  # added to the epoch each time a share is read again within one epoch


@dataclass(frozen=True)
class StreamState:
    """``step`` batches of ``epoch`` were handed out, for which ``drawn`` were taken from the workers."""

    epoch: int
    step: int
    drawn: int
    seed: int
    batch_size: int
    readers: int


@dataclass(frozen=True)
class Nothing:
    """In the place of a batch: it is to be passed over (after a resume), or none of its images could be read."""

    unreadable: tuple[Failure, ...] = ()


@dataclass(frozen=True, eq=False)
class _Reader(IterableDataset[Batch | Nothing | Crash]):
    """One worker's batches. Workers take turns, so its first batches are the ones a resume passes over."""

    source: StreamSource
    prepare: Prepare | None
    seed: int
    rows: int
    rank: int
    world: int
    shuffle: bool
    drop_last: bool
    replaces: bool
    repeats: bool
    epoch: int = 0
    passed_over: int = 0  # batches already drawn before a resume

    def __iter__(self) -> Iterator[Batch | Nothing | Crash]:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        items = self._items(number + workers * self.rank, workers * self.world)
        try:
            for turn in count():
                drawn = list(islice(items, self.rows))
                if not drawn or (len(drawn) < self.rows and self.drop_last):
                    return
                is_passed_over = turn * workers + number < self.passed_over
                yield Nothing() if is_passed_over else self._assembled(drawn)
        except (EigenviewError, PrepareFailed) as error:
            yield Crash(error)

    def _items(self, number: int, readers: int) -> Iterator[Item | Exception]:
        for lap in count():
            share = Share(self.seed, self.epoch + LAP * lap, number, readers)
            is_empty = True
            for item in self.source.items(share, shuffle=self.shuffle):
                is_empty = False
                yield item
            if not self.repeats:
                return
            if is_empty:
                raise DataError(f"reader {number} of {readers} has nothing to read: use fewer workers or more shards")

    def _assembled(self, drawn: list[Item | Exception]) -> Batch | Nothing:
        """The readable items of a batch; each unreadable one is replaced by the next readable after it, or left out."""
        failures: list[Failure] = []
        rows = [self._row(item, failures) for item in drawn]
        readable = [row for row in rows if row is not None]
        if not readable:
            empty = without_rows(is_prepared=self.prepare is not None)
            return Nothing(tuple(failures)) if self.replaces else replace(empty, unreadable=tuple(failures))
        if self.replaces:
            readable = [next(filter(None, rows[place:]), readable[0]) for place in range(len(rows))]
        batch = stacked(readable, is_prepared=self.prepare is not None)
        captions = batch.captions if any(batch.captions or ()) else None
        return replace(batch, captions=captions, unreadable=tuple(failures))

    def _row(self, item: Item | Exception, failures: list[Failure]) -> Row | None:
        try:
            if isinstance(item, Exception):
                raise item
            arrays = prepared(item.image, self.prepare, self.epoch, item.index)
            return Row(item.index, item.image.name, arrays, item.label, item.captions)
        except UnreadableImage as error:
            failures.append(Failure(error.name, error.reason))
            return None


class StreamLoader(Positioned):
    """Like ``Loader``, for sources that can only be read in order.

    The order depends on (seed, epoch) and on the number of readers (workers × processes), which a resume must keep;
    it replays the reading, but not the decoding. With ``steps_per_epoch`` every process gets that many batches,
    reading its share again if need be: several processes need it, since their shares may differ in length. Without
    it an epoch is one pass. Unreadable images are logged; ``unreadable="replace"`` puts another one of their batch in
    the place, ``"skip"`` leaves the row out, for passes that must meet each item at most once.
    """

    def __init__(
        self,
        source: StreamSource,
        *,
        batch_size: int,
        seed: int,
        prepare: Prepare | None = None,
        workers: int | str = "auto",
        shuffle: bool = True,
        drop_last: bool = True,
        steps_per_epoch: int | None = None,
        unreadable: str = "replace",
        log: str | Path | None = None,
        group: Group = None,
    ) -> None:
        world = world_size(group)
        if seed < 0 or batch_size < max(1, world):
            raise SettingError(
                f"seed is at least 0 and batch_size at least one per process ({world}); got {seed} and {batch_size}"
            )
        if world > 1 and steps_per_epoch is None:
            raise SettingError("several processes need steps_per_epoch: their shares of a stream may differ in length")
        if steps_per_epoch is not None and steps_per_epoch < 1:
            raise SettingError(f"steps_per_epoch must be at least 1; got {steps_per_epoch}")
        self._reader = _Reader(
            source,
            prepare,
            seed,
            rows=len(share_of(np.arange(batch_size), rank(group), world)),
            rank=rank(group),
            world=world,
            shuffle=shuffle,
            drop_last=drop_last,
            replaces=replaces_unreadable(unreadable),
            repeats=steps_per_epoch is not None,
        )
        self.batch_size, self.seed, self.steps_per_epoch = batch_size, seed, steps_per_epoch
        self.workers = worker_count(workers, processes=world)
        super().__init__(log)

    def state(self) -> StreamState:
        readers = self._reader.world * max(1, self.workers)
        return StreamState(self._epoch, self._step, self._drawn, self.seed, self.batch_size, readers)

    def restore(self, state: StreamState) -> None:
        mine = self.state()
        if (state.seed, state.batch_size, state.readers) != (mine.seed, mine.batch_size, mine.readers):
            raise SettingError(
                "a position in a stream holds for the same seed, batch_size and readers (workers x processes); "
                f"saved {state.seed}, {state.batch_size}, {state.readers}, "
                f"here {mine.seed}, {mine.batch_size}, {mine.readers}"
            )
        self._epoch, self._step, self._drawn, self._is_restored = state.epoch, state.step, state.drawn, True

    def __iter__(self) -> Iterator[Batch]:
        self._step, passed_over = (self._step, self._drawn) if self._is_restored else (0, 0)
        self._is_restored, self._drawn = False, 0
        if self._step == self.steps_per_epoch:
            return
        empty = 0  # batches in a row without one readable image
        reader = replace(self._reader, epoch=self._epoch, passed_over=passed_over)
        made: Iterator[Batch | Nothing] = results(start_workers(reader, self.workers, persistent=False))
        for result in made:
            self._drawn += 1
            if self._drawn <= passed_over:
                continue
            self._failures.note(result.unreadable)
            empty = 0 if isinstance(result, Batch) else empty + 1
            if empty >= EMPTY_BATCHES:
                raise DataError(f"{empty} batches in a row hold no readable image; check the shards")
            if isinstance(result, Batch):
                self._step += 1
                yield result
                if self._step == self.steps_per_epoch:
                    return
