"""Rows that wait in a file: tensors and notes with a checksum of both, so that a damaged file is never believed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from eigenview.errors import DataError
from eigenview.files import atomic_path, save_tensors
from eigenview.names import printable

DIGEST = "digest"  # among the notes


def save_sealed(file: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Whole or not at all."""
    given = {} if notes is None else dict(notes)
    with atomic_path(file) as beside:
        save_tensors(beside, tensors, metadata={**given, DIGEST: digest_of(tensors, given)})


def read_sealed(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and notes of a file whose checksum is right; any other is refused."""
    try:
        with safe_open(file, framework="pt") as opened:
            notes = dict(opened.metadata() or {})
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{printable(file)} is damaged: {str(error).splitlines()[0]}") from None
    if notes.pop(DIGEST, None) != digest_of(tensors, notes):
        raise DataError(f"{printable(file)} is damaged: its checksum does not fit")
    return tensors, notes


def digest_of(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    for name in sorted(notes):
        digest.update(f"{name}\n{notes[name]}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
