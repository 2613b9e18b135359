"""Neighbours in large sets by faiss, for whoever asks for it: an inverted file over unit vectors, built once and kept.

It is approximate, so what it misses is measured when it is built. It lies beside the embeddings as ``FILE.faiss``, with
a seal in ``FILE.faiss.json``: its checksum and whose vectors it holds. Without a seal that fits it is built anew.
"""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.files import atomic_path, file_digest, from_json, to_json, write_text
from eigenview.graph.nearest import Neighbours, nearest
from eigenview.search.stored import Embeddings

PROBED = 32  # cells that a query looks into; all are, in small sets
TRAINED_ON = 64  # rows for each cell, to find the cells by
BLOCK_ROWS = 1 << 16  # added or hashed at a time
MEASURED, MEASURED_AT = 100, 10  # rows whose nearest are sought both ways, and how many of the nearest


@dataclass(frozen=True)
class Recall:
    """How many of the exact nearest approximate search finds."""

    share: float
    queries: int  # images of the set, spread over it, that it was measured on
    k: int  # of the nearest

    def __str__(self) -> str:
        share = f"{self.share:.1%} of the {self.k} nearest"
        return f"approximate: {share} are found (measured on {self.queries} of the images)"


@dataclass(frozen=True)
class Seal:
    """What belongs to a kept index."""

    digest: str  # of the index's file and of its recall
    content: str  # of the vectors it holds
    recall: Recall
    version: int = 1


def approximate_nearest(
    stored: Embeddings, vectors: Tensor, k: int, *, measured_at: int | None = None
) -> tuple[Neighbours, Recall]:
    """(q, k) cosines and rows, −1 where none was found; what lies in cells that were not looked into is missed.

    The recall is that of the nearest ten, or of ``measured_at``.
    """
    faiss = extra_module("faiss", extra="faiss", purpose="approximate search")
    index, recall = _kept(stored, faiss)
    if measured_at is not None:
        recall = _measured(stored, index, measured_at)
    return _searched(index, vectors, k), recall


def _searched(index: Any, vectors: Tensor, k: int) -> Neighbours:
    index.nprobe = min(index.nlist, PROBED)
    cosines, rows = index.search(_unit(vectors), k)
    return Neighbours(torch.from_numpy(cosines), torch.from_numpy(rows))


def _kept(stored: Embeddings, faiss: Any) -> tuple[Any, Recall]:
    """The index that lies beside the embeddings, if its seal fits; otherwise a new one, kept where that is possible."""
    file = stored.place.with_name(f"{stored.place.name}.faiss")
    seal = _fitting_seal(stored, file)
    if seal is not None:
        with file.open("rb") as opened:
            return faiss.read_index(faiss.PyCallbackIOReader(opened.read)), seal.recall
    rows = len(stored)
    cells = max(1, min(rows // TRAINED_ON, round(4 * math.sqrt(rows))))
    index = faiss.index_factory(stored.width, f"IVF{cells},Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(_unit(stored.vectors[torch.linspace(0, rows - 1, min(rows, cells * TRAINED_ON)).long()]))
    for start in range(0, rows, BLOCK_ROWS):
        index.add(_unit(stored.vectors[start : start + BLOCK_ROWS]))
    recall = _measured(stored, index)
    try:
        with atomic_path(file) as beside:
            with beside.open("wb") as opened:
                faiss.write_index(index, faiss.PyCallbackIOWriter(opened.write))
            digest = _digest(beside, recall)
        write_text(_seal_file(file), to_json(Seal(digest, content_digest(stored), recall)) + "\n")
    except DataError:
        pass  # a folder that cannot be written to: it serves this once
    return index, recall


def _fitting_seal(stored: Embeddings, file: Path) -> Seal | None:
    """The seal of the index in ``file``, if it is whole and of these very vectors."""
    try:
        seal = from_json(Seal, _seal_file(file).read_bytes(), _seal_file(file))
        return seal if seal.digest == _digest(file, seal.recall) and seal.content == content_digest(stored) else None
    except (OSError, DataError):
        return None


def _digest(file: Path, recall: Recall) -> str:
    return hashlib.sha256(f"{file_digest(file)} {recall}".encode()).hexdigest()


def _seal_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.json")


def content_digest(stored: Embeddings) -> str:
    """Of the vectors, in hexadecimal: what is kept beside them is theirs if it names this."""
    digest = hashlib.sha256(f"{len(stored)}x{stored.width}\n".encode())
    for start in range(0, len(stored), BLOCK_ROWS):
        digest.update(np.ascontiguousarray(stored.vectors[start : start + BLOCK_ROWS].numpy()).data)
    return digest.hexdigest()


def _measured(stored: Embeddings, index: Any, nearest_of: int = MEASURED_AT) -> Recall:
    """Of the exact nearest to some images of the set (themselves left out), the share that ``index`` finds.

    A neighbour as near as the last of the exact ones counts, whichever it is: among equals the order is free.
    """
    own = torch.linspace(0, len(stored) - 1, min(len(stored), MEASURED)).long()
    k = min(nearest_of, len(stored) - 1)
    if k == 0:
        return Recall(1.0, 0, 0)
    exact = nearest(stored.vectors, stored.vectors[own], k=k, own=own)
    quick = _searched(index, stored.vectors[own], k + 1)
    is_hit = (quick.similarity >= exact.similarity[:, -1:] - 1e-6) & (quick.index != own[:, None]) & (quick.index >= 0)
    return Recall(float(is_hit.sum(dim=1).clamp_max(k).double().mean()) / k, len(own), k)


def _unit(vectors: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    unit: np.ndarray[Any, np.dtype[np.float32]] = normalize(vectors.float(), dim=1).contiguous().numpy()
    return unit
