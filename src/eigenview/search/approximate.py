"""Neighbours in large sets by faiss: an inverted file over unit vectors, built once and kept beside the embeddings."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.files import atomic_path
from eigenview.search.stored import Embeddings

LARGE = 1_000_000  # rows from which auto prefers it
PROBED = 32  # cells that a query looks into; all are, in small sets
TRAINED_ON = 64  # rows for each cell, to find the cells by
ADDED_ROWS = 1 << 16  # at a time


def has_faiss() -> bool:
    return find_spec("faiss") is not None


def approximate_nearest(stored: Embeddings, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(q, k) cosines and rows, −1 where none was found. Recall is below one: what lies in other cells is missed."""
    faiss = extra_module("faiss", extra="faiss", purpose="approximate search")
    index = _kept(stored, faiss)
    index.nprobe = min(index.nlist, PROBED)
    cosines, rows = index.search(_unit(vectors), k)
    return torch.from_numpy(cosines), torch.from_numpy(rows)


def _kept(stored: Embeddings, faiss: Any) -> Any:
    """The index in ``FILE.KEY.faiss``, built if it is not there; where it cannot be kept, it serves this once."""
    key = f"{len(stored)}x{stored.width}" if stored.about is None else stored.about.key
    stamp = stored.place.stat()
    file = stored.place.with_name(f"{stored.place.name}.{key}-{stamp.st_size:x}-{stamp.st_mtime_ns:x}.faiss")
    if file.is_file():
        try:
            return faiss.read_index(str(file))
        except RuntimeError:  # damaged: built anew
            file.unlink(missing_ok=True)
    index = _built(stored, faiss)
    try:
        with atomic_path(file) as beside:
            beside.write_bytes(faiss.serialize_index(index).tobytes())
    except DataError:
        pass
    return index


def _built(stored: Embeddings, faiss: Any) -> Any:
    rows = len(stored)
    cells = max(1, min(rows // TRAINED_ON, round(4 * math.sqrt(rows))))
    index = faiss.index_factory(stored.width, f"IVF{cells},Flat", faiss.METRIC_INNER_PRODUCT)
    chosen = torch.linspace(0, rows - 1, min(rows, cells * TRAINED_ON)).long()
    index.train(_unit(stored.vectors[chosen]))
    for start in range(0, rows, ADDED_ROWS):
        index.add(_unit(stored.vectors[start : start + ADDED_ROWS]))
    return index


def _unit(vectors: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    unit: np.ndarray[Any, np.dtype[np.float32]] = normalize(vectors.float(), dim=1).contiguous().numpy()
    return unit
