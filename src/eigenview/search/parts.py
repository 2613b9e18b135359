"""A source in parts of fixed content: read, kept in a folder until all are there, and joined into one file."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenview.batches import AnySource, ViewLoader
from eigenview.data import Failure, Item, Source, SourceInfo, StreamSource, subset
from eigenview.data.source import NO_LABEL, Share
from eigenview.errors import DataError, SettingError, WriteError
from eigenview.extras import extra_module
from eigenview.files import atomic_path, read_object, to_json, write_json
from eigenview.names import printable
from eigenview.search.makers import About
from eigenview.tensors import read_sealed, save_sealed
from eigenview.views import CentreView

PART_ITEMS = 8192  # images of one part; what a kill may lose
SETTINGS = "settings.json"
METADATA = b"eigenview"  # the key of a table's metadata


@dataclass(frozen=True)
class Reader:
    """The parts of a source. An indexed source has a part for every ``PART_ITEMS`` images, shards one each."""

    source: AnySource
    view: CentreView
    batch_size: int
    workers: int
    channels: int | None = None  # that the encoder takes

    @property
    def part_items(self) -> int:
        return PART_ITEMS

    @property
    def parts(self) -> int:
        if isinstance(self.source, Source):
            return -(-len(self.source) // PART_ITEMS)
        return max(1, len(getattr(self.source, "shards", ())))

    def items(self, part: int) -> range | None:
        """Which items of an indexed source are in the part; None where only reading tells."""
        if not isinstance(self.source, Source):
            return None
        return range(part * PART_ITEMS, min((part + 1) * PART_ITEMS, len(self.source)))

    def loader(self, part: int) -> ViewLoader:
        """The readable images of a part, each once."""
        chosen: AnySource
        size = self.batch_size
        if isinstance(self.source, Source):
            chosen = subset(self.source, np.array(self.items(part)))
            size = min(size, len(chosen))
        else:
            chosen = _OneShare(self.source, part, self.parts)
        return ViewLoader.in_order(chosen, self.view, batch_size=size, workers=self.workers, channels=self.channels)


@dataclass(frozen=True)
class _OneShare:
    """One share of a stream as a stream of its own, dealt out among readers item by item."""

    source: StreamSource
    number: int
    shares: int

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.source.classes

    def items(self, share: Share, *, shuffle: bool) -> Iterator[Item | Exception]:
        everything = self.source.items(Share(0, 0, self.number, self.shares), shuffle=False)
        return islice(everything, share.number, None, share.readers)

    def describe(self) -> SourceInfo:
        return self.source.describe()


@dataclass(frozen=True)
class Piece:
    """Rows of a part."""

    index: Tensor  # (n,)
    labels: Tensor  # (n,)
    vectors: Tensor  # (n, d)
    paths: tuple[str, ...]
    unreadable: tuple[Failure, ...]

    def __len__(self) -> int:
        return len(self.index)


class Parts:
    """A folder of pieces ``part-NUMBER-PIECE.safetensors``, each written atomically.

    ``settings.json`` says what they were computed from. A part is finished when its last piece, which says that it is
    the last, is there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, settings: Mapping[str, str], *, resume: bool) -> None:
        """Make the folder ready; pieces of other settings are refused, or removed if nothing is to be resumed."""
        if self.folder.is_symlink():
            raise DataError(f"{printable(self.folder)} is a link, and unfinished work is written to no other place")
        before = None
        with suppress(DataError):
            before = read_object(self.folder / SETTINGS)
        if before is not None and resume:
            changed = [name for name in settings if before.get(name) != settings[name]]
            if changed:
                raise SettingError(
                    f"{printable(self.folder)} holds the unfinished work of another {' and '.join(changed)}; "
                    "begin anew (--anew, or resume=False), or choose another out"
                )
        elif self.folder.exists():
            self.remove()
        write_json(self.folder / SETTINGS, settings, indent=1)
        finished = self.finished()
        for piece in self._files():
            if _number(piece) not in finished:
                piece.unlink(missing_ok=True)

    def finished(self) -> set[int]:
        """Parts whose last piece is there, with all before it."""
        counts = Counter(map(_number, self._files()))
        lasts = [file.stem.split("-") for file in self._files() if file.stem.endswith("-last")]
        return {int(part) for _, part, place, _ in lasts if counts[int(part)] == int(place) + 1}

    def write(self, part: int, place: int, piece: Piece, *, is_last: bool) -> None:
        name = f"part-{part:06d}-{place:04d}{'-last' if is_last else ''}.safetensors"
        tensors = {"index": piece.index, "labels": piece.labels, "vectors": piece.vectors}
        notes = {
            "paths": json.dumps(piece.paths, ensure_ascii=False),
            "unreadable": json.dumps([asdict(failure) for failure in piece.unreadable], ensure_ascii=False),
        }
        save_sealed(self.folder / name, tensors, notes)

    def pieces(self) -> Iterator[Piece]:
        """All pieces, in the order of parts."""
        for file in self._files():
            try:
                tensors, notes = read_sealed(file)
            except DataError as error:
                raise DataError(f"{error}; remove it and run again: it is made anew") from None
            unreadable = tuple(Failure(**failure) for failure in json.loads(notes["unreadable"]))
            yield Piece(**tensors, paths=tuple(json.loads(notes["paths"])), unreadable=unreadable)

    def remove(self) -> None:
        """The folder, if it is there."""
        try:
            if self.folder.is_dir() and not self.folder.is_symlink():
                shutil.rmtree(self.folder)
        except OSError as error:
            raise DataError(f"cannot remove {printable(self.folder)}: {error.strerror or error}") from None

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.safetensors"))


def _number(file: Path) -> int:
    return int(file.name.split("-")[1])


def joined_piece(rows: list[Piece], *, by_name: bool) -> Piece:
    """Several pieces as one, ordered by name where the order of reading is not fixed; of none, one without rows."""
    unreadable = tuple(failure for piece in rows for failure in piece.unreadable)
    filled = [piece for piece in rows if len(piece)]
    if not filled:
        none = torch.empty(0, dtype=torch.long)
        return Piece(none, none.clone(), torch.empty(0, 0), (), unreadable)
    paths = [path for piece in filled for path in piece.paths]
    order = sorted(range(len(paths)), key=paths.__getitem__) if by_name else list(range(len(paths)))
    index, labels, vectors = (
        torch.cat(columns)[order]
        for columns in zip(*((piece.index, piece.labels, piece.vectors) for piece in filled), strict=True)
    )
    return Piece(index, labels, vectors, tuple(paths[row] for row in order), unreadable)


Pieces = Callable[[], Iterable[Piece]]


def check_out(out: Path, *, overwrite: bool) -> None:
    """Refuse before anything is computed what cannot be written, or would replace a file that was not made here."""
    if out.suffix not in (".parquet", ".npy"):
        raise SettingError(f"embeddings are written as .parquet or .npy; got {out.name!r}")
    if out.suffix == ".parquet":
        extra_module("pyarrow", extra="tables", purpose="writing Parquet")
    if out.is_dir():
        raise SettingError(f"{printable(out)} is a folder; out is the file to write, such as embeddings.parquet")
    files = (out, side_file(out)) if out.suffix == ".npy" else (out,)
    there = next((file for file in files if file.exists()), None)
    if there is not None and not overwrite and not _is_made_here(out):
        raise WriteError(
            f"{printable(there)} is there already, and holds no embeddings made here: name another file, move it away, "
            "or say --overwrite (overwrite=True)"
        )


def _is_made_here(out: Path) -> bool:
    try:
        if out.suffix == ".npy":
            return {"about", "rows", "width"} <= read_object(side_file(out)).keys()
        parquet = extra_module("pyarrow.parquet", extra="tables", purpose="reading Parquet")
        return METADATA in (parquet.read_schema(out).metadata or {})
    except (OSError, ValueError):  # damaged, or something else of that name
        return False


def write_embeddings(out: Path, pieces: Pieces, *, rows: int, width: int, about: About | None) -> None:
    """``pieces`` is called for each pass over them; one piece is in memory at a time."""
    if out.suffix == ".parquet":
        _write_parquet(out, pieces, width, about)
    else:
        _write_npy(out, pieces, rows, width, about)


def side_file(array: Path) -> Path:
    """What lies beside an .npy file: index, paths, labels."""
    return array.with_name(array.name + ".json")


def _write_parquet(out: Path, pieces: Pieces, width: int, about: About | None) -> None:
    arrow = extra_module("pyarrow", extra="tables", purpose="writing Parquet")
    parquet = extra_module("pyarrow.parquet", extra="tables", purpose="writing Parquet")
    fields = [("index", arrow.int64()), ("path", arrow.string()), ("label", arrow.int64())]
    notes = {METADATA: b"null" if about is None else to_json(about).encode()}
    schema = arrow.schema([*fields, ("vector", arrow.list_(arrow.float32(), width))], metadata=notes)
    with (
        atomic_path(out) as file,
        parquet.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer,
    ):
        for piece in pieces():
            labels = piece.labels.numpy()
            columns = [
                arrow.array(piece.index.numpy()),
                arrow.array(piece.paths, type=arrow.string()),
                arrow.array(labels, mask=labels == NO_LABEL),
                arrow.FixedSizeListArray.from_arrays(arrow.array(piece.vectors.numpy().reshape(-1)), width),
            ]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))


def _write_npy(out: Path, pieces: Pieces, rows: int, width: int, about: About | None) -> None:
    notes: dict[str, object] = {"about": None if about is None else asdict(about), "rows": rows, "width": width}
    index: list[int] = []
    paths: list[str] = []
    labels: list[int] = []
    digest = hashlib.sha256()  # pairs the two files: a kill may fall between their renames
    with atomic_path(side_file(out)) as beside, atomic_path(out) as file:
        with file.open("wb") as array:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_1_0(array, header)
            for piece in pieces():
                numbers = piece.vectors.numpy().astype("<f4", copy=False).tobytes()
                array.write(numbers)
                digest.update(numbers)
                index += piece.index.tolist()
                labels += piece.labels.tolist()
                paths += piece.paths
        notes |= {"digest": digest.hexdigest(), "index": index, "path": paths, "label": labels}
        beside.write_text(json.dumps(notes, ensure_ascii=False), encoding="utf-8")
