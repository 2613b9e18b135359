"""Embed a source: streamed, resumable, shared among processes, and written as one file at the end."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from eigenview.batches import encoded_batches
from eigenview.batches.encode import check_finite_items
from eigenview.batches.identity import settings_identity, source_identity
from eigenview.data import BatchSource, Failure, Source, StreamSource, open_source
from eigenview.data.source import NO_LABEL
from eigenview.data.workers import worker_count
from eigenview.distributed import Group, from_first_process, rank, refusing_together, world_size
from eigenview.errors import DataError, SettingError
from eigenview.names import printable
from eigenview.nn import POOLED
from eigenview.runs import EMBEDDINGS
from eigenview.search.formats import stored_about
from eigenview.search.makers import About, AnyRun, Maker, anchored, maker_of
from eigenview.search.parts import Parts, Piece, Reader, check_out, joined_piece, write_embeddings
from eigenview.search.stored import add_rows
from eigenview.views import CentreView

Progress = Callable[[int, int | None], None]  # images done, images in all (None: only the end of a stream tells)

CPU = torch.device("cpu")


@contextmanager
def started_processes(group: Group) -> Iterator[Group]:
    """``group`` if given; else all processes that torchrun started, if nothing has joined them yet; else None."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ and "MASTER_ADDR" in os.environ
    if group is not None or not several or dist.is_initialized():
        yield group
        return
    dist.init_process_group("gloo")
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()


@dataclass(frozen=True)
class Embedded:
    """What was written."""

    path: Path
    rows: int
    width: int
    unreadable: tuple[Failure, ...]  # left out, and why
    was_there: bool = False  # all of it, by an earlier call


def embed(
    run: AnyRun,
    source: str | Path | Source | StreamSource,
    out: str | Path | None = None,
    *,
    layer: str = POOLED,
    view: CentreView | None = None,
    batch_size: int = 256,
    workers: int | str = "auto",
    resume: bool = True,
    overwrite: bool = False,
    group: Group = None,
    progress: Progress | None = None,
    network: bool = True,
    spec: str | None = None,
) -> Embedded:
    """The vectors of every readable image of ``source``, in its order, into ``out``: .parquet or .npy.

    ``run`` is a run directory, an open run, or an Encoder with ``view``. Without ``out``, ``RUN/embeddings.parquet``.
    Columns: ``index``, ``path`` (absolute where an image is a file, otherwise its name), ``label`` (null for none),
    ``vector`` (float32 of one length). Unreadable images are left out and named in the result and in the file.

    Finished parts are kept in ``OUT.parts`` until all are joined: the same call goes on after a kill, on any number of
    processes, and ``resume=False`` begins anew. Parts of another encoder, layer, view or source are refused. A
    finished ``out`` of the same settings is left as it is; another one is replaced, and only when the new one is whole.
    A file that holds no embeddings made here is refused, unless ``overwrite`` says to replace it.
    Streams (shards) are ordered by name within each shard, or within every 8,192 images of a longer one.

    Several processes (``group``, or those that torchrun started) share the parts, and the first one joins them; all
    must see the same files. ``spec`` is what opens a source again that is given as an object. Memory: one part of 8,192
    vectors for each process. Sources are told apart by their names, labels, numbers of bytes and times of change where
    images are files, and by the content of 64 of their images.
    """
    opened = open_source(source, network=network) if isinstance(source, (str, Path)) else source
    if batch_size < 1:
        raise SettingError(f"batch_size must be at least 1; got {batch_size}")
    maker = maker_of(run, view=view, layer=layer)
    place = _place(out, maker, overwrite=overwrite)
    with started_processes(group) as processes:
        count = 0 if isinstance(opened, BatchSource) else worker_count(workers, processes=world_size(processes))
        work = _Work(
            maker=maker,
            reader=Reader(opened, maker.view, batch_size, count, maker.channels),
            spec=anchored(source) if isinstance(source, (str, Path)) else spec,
            out=place,
            group=processes,
        )
        was_there = work.run(resume=resume, progress=progress)
    about, rows, width = stored_about(place)
    return Embedded(place, rows, width, about.unreadable if about is not None else (), was_there)


@dataclass(frozen=True)
class _Work:
    maker: Maker
    reader: Reader
    spec: str | None
    out: Path
    group: Group

    @property
    def parts(self) -> Parts:
        return Parts(self.out.with_name(self.out.name + ".parts"))

    def run(self, *, resume: bool, progress: Progress | None) -> bool:
        """Whether everything was there already."""
        is_finished, settings = False, self.settings()
        with refusing_together(self.group, CPU):
            if rank(self.group) == 0:
                is_finished = resume and self._is_finished(settings)
                if not is_finished:
                    self.parts.begin(settings, resume=resume)
        done = [part in self.parts.finished() for part in range(self.reader.parts)]
        is_finished, *known = from_first_process(torch.tensor([is_finished, *done]), self.group).tolist()
        if is_finished:
            if rank(self.group) == 0:
                self.parts.remove()  # which a kill right after the join left
            return True
        with refusing_together(self.group, CPU):
            self._compute([part for part, is_done in enumerate(known) if not is_done], progress)
        with refusing_together(self.group, CPU):
            if rank(self.group) == 0:
                self._join(settings)
        return False

    def settings(self) -> dict[str, str]:
        """What the vectors depend on, by the words that a refusal uses."""
        return {
            "encoder": self.maker.identity,
            "layer": self.maker.layer,
            "view": repr(self.maker.view),
            "source": source_identity(self.reader.source),
        }

    def _is_finished(self, settings: dict[str, str]) -> bool:
        if not self.out.is_file():
            return False
        try:
            about, *_ = stored_about(self.out)
        except (OSError, ValueError, KeyError, AttributeError):  # damaged, or something else of that name
            return False
        return about is not None and about.key == settings_identity(settings)

    def _compute(self, pending: list[int], progress: Progress | None) -> None:
        """This process's share of the pending parts. Progress counts all processes as if they were alike."""
        counts = [len(self.reader.items(part) or ()) for part in range(self.reader.parts)]
        is_stream = not isinstance(self.reader.source, Source)
        total = None if is_stream else sum(counts)
        done = 0 if total is None else total - sum(counts[part] for part in pending)
        for part in pending[rank(self.group) :: world_size(self.group)]:
            rows: list[Piece] = []
            place = held = 0
            for piece in self._pieces(part):
                rows.append(piece)
                held += len(piece)
                done += (len(piece) + len(piece.unreadable)) * world_size(self.group)
                if progress is not None:
                    progress(done if total is None else min(done, total), total)
                if is_stream and held >= self.reader.part_items:  # a long shard
                    self.parts.write(part, place, joined_piece(rows, by_name=is_stream), is_last=False)
                    rows, place, held = [], place + 1, 0
            self.parts.write(part, place, joined_piece(rows, by_name=is_stream), is_last=True)

    def _pieces(self, part: int) -> Iterator[Piece]:
        """The vectors of a part, batch by batch."""
        items = self.reader.items(part)
        first = 0 if items is None else items.start  # what the loader's indices count from
        for encoded in encoded_batches(self.maker.extractor, self.reader.loader(part)):
            batch = encoded.batch
            vectors = encoded.layers[self.maker.layer][0] if len(batch) else torch.empty(0, 0)
            paths = tuple(
                self._path(first + int(index), name) for index, name in zip(batch.index, batch.names, strict=True)
            )
            check_finite_items(vectors[None], paths, self.maker.layer)
            labels = torch.full((len(batch),), NO_LABEL) if batch.label is None else batch.label
            yield Piece(batch.index + first, labels, vectors, paths, batch.unreadable)

    def _path(self, index: int, name: str) -> str:
        """Where the image's file is, if it has one of its own; otherwise its name."""
        source = self.reader.source
        path = source.path(index) if isinstance(source, Source) else None
        return name if path is None else printable(path)

    def _join(self, settings: dict[str, str]) -> None:
        rows, width, unreadable = 0, 0, dict[str, Failure]()
        for folder in getattr(self.reader.source, "unreadable_folders", ()):
            unreadable[folder] = Failure(folder, "the folder cannot be read")
        digest = hashlib.sha256()
        for piece in self.parts.pieces():
            add_rows(digest, piece.vectors)
            rows, width = rows + len(piece), max(width, piece.vectors.shape[1])
            unreadable.update({failure.name: failure for failure in piece.unreadable})
        if rows == 0:
            first = next(iter(unreadable.values()), None)
            why = f", the first, {first.name}: {first.reason}" if first is not None else ""
            raise DataError(f"none of the images can be read{why}; check the source")
        from eigenview import __version__

        about = About(
            run=self.maker.name,
            run_folder=None if self.maker.folder is None else printable(self.maker.folder),
            encoder=settings["encoder"],
            layer=settings["layer"],
            view=settings["view"],
            source=str(self.reader.source.describe()),
            spec=self.spec,
            classes=self.reader.source.classes,
            unreadable=tuple(unreadable.values()),
            key=settings_identity(settings),
            version=__version__,
            digest=digest.hexdigest(),
            loaded=dict(self.maker.loaded),
        )
        filled = lambda: (piece for piece in self.parts.pieces() if len(piece))  # noqa: E731
        write_embeddings(self.out, filled, rows=rows, width=width, about=about)
        self.parts.remove()


def _place(out: str | Path | None, maker: Maker, *, overwrite: bool) -> Path:
    if out is None and maker.folder is None:
        raise SettingError("an encoder that belongs to no run needs out=, the file to write")
    place = Path(out) if out is not None else maker.folder / EMBEDDINGS[0]  # type: ignore[operator]
    check_out(place, overwrite=overwrite)
    return place
