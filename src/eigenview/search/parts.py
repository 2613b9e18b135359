"""Finished parts of a long computation, kept in a folder until they are joined: what is there need not be redone."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from eigenview.data import Failure
from eigenview.errors import DataError, SettingError
from eigenview.files import JSON, read_object, write_json
from eigenview.names import printable
from eigenview.tensors import read_sealed, save_sealed

SETTINGS = "settings.json"


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
        before = self._settings()
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

    def _settings(self) -> dict[str, JSON] | None:
        try:
            return read_object(self.folder / SETTINGS)
        except DataError:
            return None


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
