"""A hash of a source that does not read it whole."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from eigenview.batches.identity import DIGITS, images_identity
from eigenview.data import Source, subset
from eigenview.data.files import FilesSource
from eigenview.search.reading import Reader

SAMPLED = 64  # images whose content is hashed


def source_identity(reader: Reader) -> str:
    """Names, labels, numbers of bytes and times of change where images or shards are files; of others a sample."""
    source = reader.source
    digest = hashlib.sha256(f"{reader.parts} {reader.part_items}\n".encode())
    if not isinstance(source, Source):
        shards = [str(shard) for shard in getattr(source, "shards", ())]
        digest.update("\n".join([*map(_facts, shards), source.describe().kind]).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()[:DIGITS]
    digest.update(f"{len(source)} {source.classes}\n".encode())
    if source.labels is not None:
        digest.update(np.ascontiguousarray(source.labels).tobytes())
    if isinstance(source, FilesSource):
        for number in range(len(source)):
            name = source.relative_path(number)
            digest.update(f"{name} {_facts(source.root / name)}\n".encode("utf-8", "backslashreplace"))
    sample = np.unique(np.linspace(0, len(source) - 1, min(SAMPLED, len(source))).astype(np.int64))
    digest.update(images_identity(subset(source, sample)).encode())
    return digest.hexdigest()[:DIGITS]


def _facts(path: str | Path) -> str:
    """Number of bytes and time of the last change; an address or a file that is gone has none."""
    try:
        found = Path(path).stat()
    except OSError:
        return f"{path}"
    return f"{found.st_size} {found.st_mtime_ns}"
