"""Checkpoints: safetensors for weights and buffers, a small file for the rest; sealed, whole or not there at all."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from torch import Tensor

from eigenview.errors import DataError
from eigenview.files import atomic_folder, file_digest, inside, read_folder, restore_folder
from eigenview.names import did_you_mean, printable
from eigenview.runs.stored import stored_object, write_stored
from eigenview.tensors import save_tensors, save_torch, sealed

WEIGHTS, STATE, SEAL = "weights.safetensors", "state.pt", "complete.json"
LAST, PREVIOUS, BEST = "last", "previous", "best"

Content = TypeVar("Content")


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood: all tensors of the method, and what the optimizer, loader and generators need to go on."""

    weights: dict[str, Tensor]
    state: dict[str, Any]


class Checkpoints:
    """The folder ``checkpoints`` of a run. A checkpoint is a folder that appears by one rename, sealed by hashes.

    The seal has the number of the format of all three files.

    ``last`` is where a run goes on, ``previous`` the one before; ``best`` and ``epoch-00010`` are kept beside them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, checkpoint: Checkpoint, *, also: Sequence[str] = ()) -> None:
        """The checkpoint becomes ``last``, what was ``last`` becomes ``previous``; it is kept under ``also`` too.

        ``last`` is renamed at the very end: a run that is killed before goes on from the one before, and comes to
        write the same again. So no kill leaves a ``best`` or a kept epoch that is missing or behind ``last``.
        """
        with atomic_folder(self.folder / LAST) as folder:
            save_tensors(folder / WEIGHTS, checkpoint.weights, metadata=sealed(checkpoint.weights))
            save_torch(folder / STATE, checkpoint.state)
            write_stored(folder / SEAL, {name: file_digest(folder / name) for name in (WEIGHTS, STATE)})
            for name in also:
                self._copy(folder, name)
            if self._is_whole(restore_folder(self.folder / LAST)):
                self._copy(restore_folder(self.folder / LAST), PREVIOUS)

    def _copy(self, place: Path, name: str) -> None:
        """Under another name too. Files are shared where the disk can, since none is ever written to again."""
        with atomic_folder(self.folder / name) as folder:
            for file in (WEIGHTS, STATE, SEAL):
                try:
                    os.link(place / file, folder / file)
                except OSError:  # a file system without links
                    shutil.copyfile(place / file, folder / file)

    def tidy(self) -> None:
        """Remove what a kill left of checkpoints that others have replaced."""
        for old in self.folder.glob(".*.old"):
            if self._is_whole(self.folder / old.name[1:-4]):
                shutil.rmtree(old, ignore_errors=True)

    def names(self) -> list[str]:
        """Those that are there, the newest first where it matters: last, previous, best, then kept epochs."""
        if not self.folder.is_dir():
            return []
        listed = {path.name for path in self.folder.glob("[!.]*") if self._is_whole(path)}
        listed |= {path.name[1:-4] for path in self.folder.glob(".*.old") if self._is_whole(path)}
        usual = [name for name in (LAST, PREVIOUS, BEST) if name in listed]
        return [*usual, *sorted(listed - set(usual))]

    def load(self, name: str) -> Checkpoint:
        """A checkpoint whose hashes are right; reading it executes nothing."""
        return self._read(
            name,
            (WEIGHTS, STATE),
            lambda place: Checkpoint(load_file(place / WEIGHTS), torch.load(place / STATE, weights_only=True)),
        )

    def weights(self, name: str) -> dict[str, Tensor]:
        """The tensors of a checkpoint whose hash is right."""
        return self._read(name, (WEIGHTS,), lambda place: dict(load_file(place / WEIGHTS)))

    def _read(self, name: str, files: Sequence[str], read: Callable[[Path], Content]) -> Content:
        """What ``read`` makes of a checkpoint whose ``files`` fit its seal; a run may be saving it anew."""
        return read_folder(lambda: self._place(name), lambda place: self._checked(name, place, files, read))

    def _checked(self, name: str, place: Path, files: Sequence[str], read: Callable[[Path], Content]) -> Content:
        place = inside(self.folder.parent, f"{self.folder.name}/{place.name}")
        try:
            _, seal = stored_object(inside(place, SEAL))
            changed = [file for file in files if file_digest(inside(place, file)) != seal.get(file)]
        except (OSError, DataError) as error:
            raise self._unusable(name, str(error)) from None
        if changed:
            raise self._unusable(name, f"{' and '.join(changed)} changed after it was written, or was cut short")
        try:
            return read(place)
        except Exception as error:  # whatever a file can cause that was damaged before it was sealed
            raise self._unusable(name, str(error)) from None

    def _place(self, name: str) -> Path:
        place = self.folder / name
        if name not in ("", "..") and Path(name).name == name:  # it leads nowhere else
            for candidate in (place, restore_folder(place), place.with_name(f".{name}.old")):
                if self._is_whole(candidate):
                    return candidate
            if place.is_dir():
                return place
        listed = ", ".join(self.names()) or "none"
        raise DataError(
            f"no checkpoint {name} in {printable(self.folder)}; there are: {listed}{did_you_mean(name, self.names())}"
        )

    def _is_whole(self, place: Path) -> bool:
        return (place / SEAL).is_file() and (place / WEIGHTS).is_file()

    def _unusable(self, name: str, why: str) -> DataError:
        others = ", ".join(other for other in self.names() if other != name) or "none"
        return DataError(
            f"the checkpoint {name} in {printable(self.folder)} cannot be used: {why}; take another one: {others}"
        )
