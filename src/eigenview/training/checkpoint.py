"""Checkpoints: safetensors for weights and buffers, a small file for the rest; whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from eigenview.errors import DataError

WEIGHTS, STATE, SEAL = "weights.safetensors", "state.pt", "complete.json"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood: all tensors of the method, and what the optimizer, loader and generators need to go on."""

    weights: dict[str, Tensor]
    state: dict[str, Any]


class Checkpoints:
    """The folder ``checkpoints`` of a run. A checkpoint is a folder that appears by one rename, sealed by hashes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, name: str, checkpoint: Checkpoint) -> None:
        """Written beside, synchronised to disk, then renamed: a crash or a full disk leaves what was there before."""
        beside = self.folder / f".{name}.writing"
        try:
            self._clear(beside)
            tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in checkpoint.weights.items()}
            save_file(tensors, beside / WEIGHTS)
            torch.save(checkpoint.state, beside / STATE)
            seal = {part: _digest(beside / part) for part in (WEIGHTS, STATE)}
            (beside / SEAL).write_text(json.dumps(seal))
            for part in (WEIGHTS, STATE, SEAL):
                _to_disk(beside / part)
        except OSError as error:
            raise self._given_up(beside, name, error) from None
        self._swap(beside, self.folder / name)

    def copy(self, name: str, other: str) -> None:
        """The checkpoint ``name`` under another name too. Files are shared, since none is ever written to again."""
        beside, place = self.folder / f".{other}.writing", self._place(name)
        try:
            self._clear(beside)
            for part in (WEIGHTS, STATE, SEAL):
                try:
                    os.link(place / part, beside / part)
                except OSError:  # a file system without links
                    shutil.copyfile(place / part, beside / part)
                    _to_disk(beside / part)
        except OSError as error:
            raise self._given_up(beside, other, error) from None
        self._swap(beside, self.folder / other)

    def _clear(self, beside: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()

    def _given_up(self, beside: Path, name: str, error: OSError) -> DataError:
        shutil.rmtree(beside, ignore_errors=True)
        return DataError(f"cannot write the checkpoint {name} to {self.folder}: {error}; earlier ones are kept")

    def _swap(self, beside: Path, place: Path) -> None:
        old = self.folder / f".{place.name}.old"
        shutil.rmtree(old, ignore_errors=True)
        if place.exists():
            place.rename(old)  # a crash between the two renames leaves .old, which load finds
        beside.rename(place)
        _to_disk(self.folder)
        shutil.rmtree(old, ignore_errors=True)

    def names(self) -> list[str]:
        found = {path.name for path in self.folder.glob("[!.]*") if (path / SEAL).exists()}
        found |= {path.name[1:-4] for path in self.folder.glob(".*.old") if (path / SEAL).exists()}
        return sorted(found)

    def load(self, name: str) -> Checkpoint:
        """A checkpoint whose hashes are right; reading it executes nothing."""
        place = self._place(name)
        try:
            seal = json.loads((place / SEAL).read_text())
            for part in (WEIGHTS, STATE):
                if _digest(place / part) != seal[part]:
                    raise ValueError(f"{part} was changed or cut short")
            weights = load_file(place / WEIGHTS)
            state = torch.load(place / STATE, weights_only=True)
        except Exception as error:  # whatever a damaged file can cause
            others = ", ".join(other for other in self.names() if other != name) or "none"
            raise DataError(
                f"the checkpoint {place} cannot be used: {error}; start from another one ({others})"
            ) from None
        return Checkpoint(weights, state)

    def _place(self, name: str) -> Path:
        place = next((p for p in (self.folder / name, self.folder / f".{name}.old") if p.exists()), None)
        if place is None:
            others = ", ".join(self.names()) or "none"
            raise DataError(f"no checkpoint {name} in {self.folder}; there are: {others}")
        return place


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _by_blocks(file)


def _by_blocks(file: Any) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
