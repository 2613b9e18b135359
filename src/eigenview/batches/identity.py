"""Hashes of what features and scores depend on: weights, images, labels, settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from eigenview.data import BatchSource, Source, StreamSource, UnreadableImage, subset

HASHED_AT_ONCE = 1024  # images
SAMPLED = 64  # images whose content is hashed where the whole is not read
DIGITS = 16  # of a hash that is shown or names a file


def weights_identity(*modules: nn.Module) -> str:
    """A hash of every parameter and buffer of the modules, by name, and of how they are built."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(f"{type(module).__qualname__}\n{module!r}\n".encode())
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            stored = tensor.detach().cpu().contiguous()
            digest.update(f"{name} {stored.dtype} {tuple(stored.shape)}\n".encode())
            digest.update(stored.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:DIGITS]


def images_identity(source: Source) -> str:
    """A hash of every image of a source, in order: of its pixels where they are at hand, otherwise of its file."""
    digest = hashlib.sha256(f"{len(source)}\n".encode())
    if isinstance(source, BatchSource):
        for start in range(0, len(source), HASHED_AT_ONCE):
            images = source.batch(np.arange(start, min(start + HASHED_AT_ONCE, len(source)), dtype=np.int64))
            digest.update(f"{tuple(images.shape)}\n".encode())
            digest.update(images.contiguous().numpy().data)
        return digest.hexdigest()[:DIGITS]
    for index in range(len(source)):
        digest.update(_file_digest(source, index))
    return digest.hexdigest()[:DIGITS]


def _file_digest(source: Source, index: int) -> bytes:
    try:
        return source.image(index).digest()
    except UnreadableImage as error:
        return f"unreadable {error.reason}\n".encode()


def labels_identity(labels: Tensor) -> str:
    return hashlib.sha256(labels.cpu().long().contiguous().numpy().data).hexdigest()[:DIGITS]


def data_identity(source: Source, labels: Tensor) -> str:
    """Which images with which labels: a hash of both, and how many; ``labels`` are those of the readable images."""
    return f"{len(labels)} of {images_identity(source)}/{labels_identity(labels)}"


def settings_identity(settings: Mapping[str, object]) -> str:
    """A hash of plain settings: the same for the same names and values, in any order."""
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:DIGITS]  # half a character, too


def source_identity(source: Source | StreamSource, *, with_times: bool = True) -> str:
    """A hash of a source that does not read it whole, the same on every process that sees the same files.

    Names, labels, numbers of bytes and times of change where images or shards are files; of all, a sample's content.
    Without times, copies on several machines are the same.
    """
    digest = hashlib.sha256(f"{source.describe().kind}\n".encode())
    if not isinstance(source, Source):
        shards = [str(shard) for shard in getattr(source, "shards", ())]
        digest.update("\n".join(_file_facts(shard, with_times) for shard in shards).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()[:DIGITS]
    digest.update(f"{len(source)} {source.classes}\n".encode())
    if source.labels is not None:
        digest.update(np.ascontiguousarray(source.labels).tobytes())
    for number in range(len(source)):
        path = source.path(number)
        if path is not None:
            digest.update(
                f"{source.name(number)} {_file_facts(path, with_times)}\n".encode("utf-8", "backslashreplace")
            )
    sample = np.unique(np.linspace(0, len(source) - 1, min(SAMPLED, len(source))).astype(np.int64))
    digest.update(images_identity(subset(source, sample)).encode())
    return digest.hexdigest()[:DIGITS]


def _file_facts(path: str | Path, with_time: bool) -> str:
    """Number of bytes and time of the last change; an address or a file that is gone has none."""
    try:
        facts = Path(path).stat()
    except OSError:
        return f"{path}"
    return f"{facts.st_size} {facts.st_mtime_ns if with_time else ''}"
