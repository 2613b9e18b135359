"""Hashes of what features and scores depend on: weights, images, labels, settings."""

import hashlib
import heapq
import json
import os
from collections.abc import Iterator, Mapping
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
        try:
            digest.update(source.image(index).digest())
        except UnreadableImage as error:
            digest.update(f"unreadable {error.reason}\n".encode())
    return digest.hexdigest()[:DIGITS]


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


SKETCHED = 1024  # keys of a sketch: the share of one set within another is told to about 3 %


def image_keys(source: Source) -> Iterator[str]:
    """A hash for each image, in order: of its pixels where they are at hand, else of its file's absolute path.

    Empty where an image is neither: nothing is read for it.
    """
    if isinstance(source, BatchSource):
        for start in range(0, len(source), HASHED_AT_ONCE):
            images = source.batch(np.arange(start, min(start + HASHED_AT_ONCE, len(source)), dtype=np.int64))
            shape = f"{tuple(images.shape[1:])}\n".encode()
            yield from (_key(image.tobytes(), shape) for image in images.numpy())
        return
    for index in range(len(source)):
        path = source.path(index)
        yield "" if path is None else _key(os.fsencode(path))


def _key(content: bytes, shape: bytes = b"") -> str:
    return hashlib.blake2b(shape + content, digest_size=DIGITS // 2).hexdigest()


def sketch(source: Source) -> str:
    """The smallest keys of a source's images, one after the other (the bottom-k sketch of Broder, 1997)."""
    return "".join(heapq.nsmallest(SKETCHED, {key for key in image_keys(source) if key}))


def share_within(source: Source, sketched: str) -> float:
    """The share of a source's images that are among those of a sketch; 0 where that cannot be told.

    Exact where the sketch holds all of its images; otherwise by those of the source whose keys are small enough to be
    in it.
    """
    known = {sketched[start : start + DIGITS] for start in range(0, len(sketched), DIGITS)}
    if not known:
        return 0.0
    last = max(known) if len(known) == SKETCHED else "g"  # beyond every hexadecimal key
    comparable = [key for key in image_keys(source) if key and key <= last]
    return sum(key in known for key in comparable) / len(comparable) if comparable else 0.0
