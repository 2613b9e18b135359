"""Tensors in a file with a checksum of all that it holds, so that a damaged file is never believed; mapped arrays."""

import errno
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from eigenview.errors import DataError
from eigenview.files import atomic_path, umask
from eigenview.names import printable, reason_of

DIGEST = "digest"  # among the notes


def save_tensors(file: Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str] | None = None) -> None:
    """Safetensors into a file that the atomic ways above gave; trouble with the disk is an OSError."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(ready, file, metadata=None if metadata is None else dict(metadata))
    except SafetensorError as error:
        raise OSError(_why(str(error))) from None
    file.chmod(0o666 & ~umask())  # safetensors lets nobody else read it


def save_torch(file: Path, content: object) -> None:
    """``torch.save``; trouble with the disk, which torch calls a RuntimeError, is OSError."""
    try:
        torch.save(content, file)
    except RuntimeError as error:
        raise OSError(_why(str(error))) from None


def save_sealed(file: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Whole or not at all, and believed under this name alone."""
    with atomic_path(file) as beside:
        save_tensors(beside, tensors, metadata=sealed(tensors, notes, name=file.name))


def sealed(tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None, *, name: str = "") -> dict[str, str]:
    """The notes with a checksum of themselves and of the tensors, and of the only ``name`` that a file may have."""
    given = {} if notes is None else dict(notes)
    return {**given, DIGEST: _digest(tensors, {**given, "": name})}


def read_sealed(file: Path, *, from_anywhere: bool = False) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and notes of a file whose checksum is right; one ``from_anywhere`` may have none, and any name."""
    try:
        with safe_open(file, framework="pt") as opened:
            notes = dict(opened.metadata() or {})
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        why = f"{printable(file)} is no readable safetensors file ({reason_of(error)})"
        raise DataError(f"{why}; is it cut short?") from None
    digest = notes.pop(DIGEST, None)
    name = "" if from_anywhere else file.name
    if not (digest is None and from_anywhere) and digest != _digest(tensors, {**notes, "": name}):
        raise DataError(f"{printable(file)} is damaged: its checksum does not fit")
    return tensors, notes


def map_array(path: Path) -> NDArray[Any]:
    """The array of an .npy file, mapped: it declares no more than the file has, and writing to it changes a copy."""
    try:
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # a header that lies makes NumPy raise nearly anything
        rule = f"{printable(path)} must be an .npy file of numbers (np.save writes one)"
        raise DataError(f"{rule}: {why_no_array(error)}") from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise DataError(f"{printable(path)} must be an .npy file with one array, not an .npz archive")
    return array


def why_no_array(error: Exception) -> str:
    """What NumPy says of a file, but where it takes anything unknown for a pickle and advises to trust it."""
    text = str(error)
    if "Object arrays" in text or "Python objects" in text:
        return "it holds Python objects, which are never loaded; save plain arrays"
    return "it is not readable as an array" if "pickle" in text else reason_of(error)


def _why(text: str) -> str:
    """What a library's error says about the disk, in a few words."""
    if number := re.search(r"(?:os error|Os { code:) (\d+)", text):
        return os.strerror(int(number[1]))
    if "No space left" in text or "unexpected pos" in text or "failed writing" in text:
        return os.strerror(errno.ENOSPC)
    return text.splitlines()[0][:200]


def _digest(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    for name in sorted(notes):
        digest.update(f"{name}\n{notes[name]}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
