"""The image graph: every image joined to those most like it, near ones strongly.

Rows are centred, put on the sphere, reduced to their principal directions, joined to their k nearest there by the one
exact search, and weighed by w_ij = exp(−4·d²_ij/(σ_i·σ_j)), σ_i the distance to the k-th neighbour (Zelnik-Manor
& Perona 2004), so that dense and thin regions hang together alike. An edge counts in both directions if it counts in
one.

The graph of a file of embeddings is found once and kept beside it as ``FILE.graph``, sealed with whose graph it is. The
neighbours are kept; the weights follow from them at once. A graph that is damaged, or of other vectors, or of too few
neighbours, is made anew; where the folder cannot be written to, or something else has that name, it serves this once.
"""

import os
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy import sparse
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import check_features
from eigenview.extras import extra_module
from eigenview.files import from_json, to_json
from eigenview.graph.communities import SHARPNESS, distances, self_tuned_weights
from eigenview.graph.nearest import Neighbours, nearest
from eigenview.graph.principal import DIRECTIONS, Projection, projection
from eigenview.names import printable
from eigenview.search.approximate import Recall, approximate_nearest, content_digest
from eigenview.search.neighbour_search import OPERATIONS_A_SECOND, Engine
from eigenview.search.stored import Embeddings
from eigenview.tensors import read_sealed, save_sealed

NEIGHBOURS = 15
KNOWN = 20  # neighbours of each row that are kept, for TypiClust's density
BEARABLE = 900  # seconds that exact search may take, on the slow side: about 180,000 pictures

Array = NDArray[np.float32]
GraphEngine = Literal["auto", "exact", "faiss"]  # auto: exact while that is bearable, faiss beyond


@dataclass(frozen=True)
class ImageGraph:
    """n images, their nearest, and the weights between them."""

    rows: Tensor  # (n, p) of length 1: what distances are taken between
    neighbours: Neighbours  # of each row among the others, nearest first; cosines
    joined: int  # how many of them each row is joined to
    weights: sparse.csr_array  # (n, n) float32 in [0, 1], symmetric, without self-edges

    def __len__(self) -> int:
        return int(self.weights.shape[0])

    @cached_property
    def normalized(self) -> sparse.csr_array:
        """S = D^-½ W D^-½; a node without edges has a row of zeros."""
        degree = np.asarray(self.weights.sum(axis=1)).ravel()
        scale = sparse.dia_array((np.where(degree > 0, degree, 1.0)[None] ** -0.5, [0]), shape=self.weights.shape)
        return sparse.csr_array(scale @ self.weights @ scale).astype(np.float32)

    @cached_property
    def density(self) -> Tensor:
        """TypiClust's typicality (n,): 1 / mean distance to the neighbours that are kept, at most 20."""
        return 1 / distances(self.neighbours).mean(dim=1).clamp_min(1e-6)


def image_graph(embeddings: Tensor, *, neighbours: int = NEIGHBOURS, sharpness: float = SHARPNESS) -> ImageGraph:
    """The graph of ``embeddings`` (n, d): each row joined to its ``neighbours`` nearest, or to all if there are fewer.

    Rows that coincide are neighbours like any others. A row that is the mean of all has no direction: it is equally
    far from every other.
    """
    check_features(embeddings, "embeddings")
    known = check_wish(len(embeddings), neighbours)
    rows = projection(embeddings)(embeddings)
    return graph_of_neighbours(rows, nearest(rows, rows, k=known, excludes_self=True), neighbours, sharpness)


def check_wish(images: int, neighbours: int) -> int:
    """How many neighbours of each image to find, so that ``neighbours`` can be joined."""
    if images < 2:
        raise SettingError(f"a graph needs at least two images; got {images}")
    if isinstance(neighbours, bool) or neighbours < 1:
        raise SettingError(f"neighbours must be at least 1; got {neighbours}")
    return min(max(neighbours, KNOWN), images - 1)


def graph_of_neighbours(
    rows: Tensor, known: Neighbours, neighbours: int = NEIGHBOURS, sharpness: float = SHARPNESS
) -> ImageGraph:
    """The graph in which each row is joined to the first ``neighbours`` of those known."""
    joined = min(neighbours, known.index.shape[1])
    return ImageGraph(rows, known, joined, self_tuned_weights(known, joined, sharpness))


@dataclass(frozen=True)
class KeptGraph:
    """The graph of stored embeddings, and how its neighbours were found."""

    graph: ImageGraph
    projection: Projection
    recall: Recall | None  # of approximate search, as measured on the set; None: exact


@dataclass(frozen=True)
class _Notes:
    content: str
    recall: Recall | None = None
    version: int = 1


def graph_rows(stored: Embeddings) -> tuple[Projection, Tensor]:
    """What distances are taken between (n, p), and how it came of the vectors: all of a graph but its edges."""
    to_rows = projection(stored.vectors)
    return to_rows, to_rows(stored.vectors)


def kept_graph(
    stored: Embeddings,
    *,
    neighbours: int = NEIGHBOURS,
    engine: GraphEngine = "auto",
    rows_known: tuple[Projection, Tensor] | None = None,
) -> KeptGraph:
    """The graph of ``stored``, read or made. ``engine`` auto: what is kept, else exact while bearable, else faiss."""
    known = check_wish(len(stored), neighbours)
    to_rows, rows = rows_known or graph_rows(stored)
    kept = _read(stored, known, engine)
    if kept is None:
        kept = _sought(stored, rows, known, _engine(stored, engine))
        _write(stored, *kept)
    return KeptGraph(graph_of_neighbours(rows, kept[0], neighbours), to_rows, kept[1])


def graph_seconds(stored: Embeddings, *, engine: GraphEngine = "auto") -> float | None:
    """How long the graph will take, about; 0 where one is kept that fits, None where it will be approximate."""
    if _read(stored, min(KNOWN, len(stored) - 1), engine) is not None:
        return 0.0
    return exact_graph_seconds(len(stored), stored.width) if _engine(stored, engine) == "exact" else None


def _file(stored: Embeddings) -> Path:
    return stored.place.with_name(f"{stored.place.name}.graph")


def exact_graph_seconds(images: int, width: int) -> float:
    """How long an exact graph of so many vectors takes, on the slow side."""
    return 2 * images**2 * min(width, DIRECTIONS) / OPERATIONS_A_SECOND


def _engine(stored: Embeddings, wished: GraphEngine) -> Engine:
    if wished not in ("auto", "exact", "faiss"):
        raise SettingError(f"engine must be auto, exact or faiss; got {wished!r}")
    seconds = exact_graph_seconds(len(stored), stored.width)
    if wished == "auto" and seconds > BEARABLE:
        long = f'by exact search (--engine exact, engine="exact") about {seconds / 60:.0f} minutes'
        extra_module("faiss", extra="faiss", purpose=f"a graph of {len(stored):,} images ({long})")
        return "faiss"
    return "exact" if wished == "auto" else wished


def _sought(stored: Embeddings, rows: Tensor, known: int, engine: Engine) -> tuple[Neighbours, Recall | None]:
    if engine == "exact":
        return nearest(rows, rows, k=known, excludes_self=True), None
    place = stored.place.with_name(f"{stored.place.name}.rows")  # whose index is another than that of the vectors
    there = replace(stored, vectors=rows, place=place)
    answer, recall = approximate_nearest(there, rows, known + 1, measured_at=known)
    own = torch.arange(len(rows))[:, None]
    is_kept = answer.index != own
    is_kept[is_kept.all(dim=1), -1] = False  # a row that was not found itself loses the farthest
    index, similarity = (values[is_kept].view(len(rows), known) for values in (answer.index, answer.similarity))
    is_missing = index < 0  # cells with too few rows: the nearest stands in
    index = torch.where(is_missing, index[:, :1], index)
    return Neighbours(torch.where(is_missing, similarity[:, :1], similarity), index), recall


def _read(stored: Embeddings, known: int, engine: GraphEngine) -> tuple[Neighbours, Recall | None] | None:
    """What is kept beside ``stored``, if it is whole, of these vectors, and found as is wished."""
    file = _file(stored)
    try:
        tensors, held = read_sealed(file)
        notes = from_json(_Notes, held["notes"], file)
        found_by = "exact" if notes.recall is None else "faiss"
        if engine not in ("auto", found_by) or tensors["index"].shape[1] < known:
            return None
        if notes != _Notes(content_digest(stored), notes.recall):
            return None
        return Neighbours(tensors["similarity"][:, :known], tensors["index"][:, :known].long()), notes.recall
    except (DataError, KeyError):
        return None


def _write(stored: Embeddings, known: Neighbours, recall: Recall | None) -> None:
    file = _file(stored)
    if not _is_free(file):
        said = f"{printable(file)} is no graph of eigenview's and is left alone: the graph is not kept"
        warnings.warn(f"{said}; move that file away", stacklevel=3)
        return
    tensors = {"index": known.index.int(), "similarity": known.similarity.float()}
    with suppress(DataError):  # a folder that cannot be written to
        save_sealed(file, tensors, {"notes": to_json(_Notes(content_digest(stored), recall))})


def _is_free(file: Path) -> bool:
    """Whether a graph may be written there: nothing is, or a graph, damaged or not."""
    try:
        with safe_open(file, framework="pt") as opened:
            return "notes" in (opened.metadata() or {})
    except (SafetensorError, OSError):
        return not os.path.lexists(file)
