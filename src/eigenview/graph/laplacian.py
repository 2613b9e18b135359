"""Graph Laplacians and what their small eigenvectors say: embedding, clusters, how many of them.

A graph is a symmetric, non-negative weight matrix W (n, n): a dense torch tensor, or any scipy sparse matrix. A torch
sparse tensor is refused, with the conversion: its eigenproblems would be scipy's anyway. Self-edges are ignored, as
scipy and scikit-learn do: the degrees D are sums over the *other* nodes, and no walk stays where it is. A node without
edges has a row of zeros in every Laplacian, and so counts as a component of its own with eigenvalue 0.

The eigenproblems are solved in float64 on the CPU and carry no gradient; the Laplacians of a tensor and
:func:`laplacian_trace` do.
"""

from dataclasses import dataclass
from typing import Literal, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import csgraph
from torch import Tensor

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.clustering import best_clustering
from eigenview.graph.eigen import smallest_eigenpairs

Normalization = Literal["unnormalized", "symmetric", "random_walk"]
Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Scale = TypeVar("Scale", Tensor, NDArray[np.float64])


@dataclass(frozen=True)
class Eigengap:
    """How many clusters a spectrum suggests."""

    clusters: int  # the k with the largest gap between the k-th and the next eigenvalue
    eigenvalues: Tensor  # the smallest, ascending, float64

    @property
    def gaps(self) -> Tensor:
        return self.eigenvalues.diff()


def joined(starts: Ints, ends: Ints, nodes: int) -> sparse.csr_array:
    """The symmetric 0/1 graph that joins ``starts`` (e,) to ``ends`` (e,); what is joined twice is joined."""
    edges = sparse.csr_array(sparse.coo_array((np.ones(len(starts)), (starts, ends)), shape=(nodes, nodes)))
    graph = edges + edges.T
    graph.data[:] = 1.0
    return graph


def neighbour_graph(neighbours: Ints) -> sparse.csr_array:
    """Of ``neighbours`` (n, k), the nearest of each node: two are joined when either is among the other's."""
    nodes, width = neighbours.shape
    return joined(np.repeat(np.arange(nodes), width), neighbours.ravel(), nodes)


@overload
def laplacian(graph: Tensor, *, normalization: Normalization = ...) -> Tensor: ...
@overload
def laplacian(graph: sparse.csr_array, *, normalization: Normalization = ...) -> sparse.csr_array: ...
def laplacian(graph: Tensor | sparse.csr_array, *, normalization: Normalization = "symmetric") -> object:
    """D − W (``unnormalized``), I − D^-½ W D^-½ (``symmetric``) or I − D⁻¹ W (``random_walk``).

    A tensor gives a tensor, differentiable, on its device; a scipy sparse matrix gives a float64 ``csr_array``.
    Nodes without edges have rows of zeros, also where the formula says I.
    """
    _check(graph, normalization)
    return _of_tensor(graph, normalization) if isinstance(graph, Tensor) else _of_edges(graph, normalization)


def _of_tensor(graph: Tensor, normalization: Normalization) -> Tensor:
    weights = graph if graph.dtype == torch.float64 else graph.float()
    weights = weights - torch.diag(weights.diagonal())
    degree = weights.sum(dim=1)
    left, right = _scales(torch.where(degree > 0, degree, 1), normalization)
    return (torch.diag(degree) - weights) * left[:, None] * right


def _of_edges(graph: sparse.csr_array, normalization: Normalization) -> sparse.csr_array:
    edges, degree = _without_self_edges(graph)
    left, right = _scales(np.where(degree > 0, degree, 1.0), normalization)
    node = np.arange(len(degree))
    entries = np.concatenate([-edges.data * left[edges.row] * right[edges.col], degree * left * right])
    places = (np.concatenate([edges.row, node]), np.concatenate([edges.col, node]))
    return sparse.csr_array(sparse.coo_array((entries, places), shape=edges.shape))


def laplacian_trace(embeddings: Tensor, graph: Tensor | sparse.csr_array) -> Tensor:
    """tr(ZᵀLZ) = ½ Σ_ij W_ij ‖z_i − z_j‖² with L = D − W, which is never built; differentiable.

    ``embeddings`` (n, d), and a graph over the n nodes; one that is not symmetric counts as its symmetric part, and
    weights may be negative. With a tensor the cost is one product W·Z, and gradient flows to the weights too; with a
    scipy sparse matrix, one difference an edge.
    """
    if embeddings.ndim != 2 or tuple(graph.shape) != (len(embeddings), len(embeddings)):
        shapes = f"{tuple(embeddings.shape)} and {tuple(graph.shape)}"
        raise ShapeError(f"laplacian_trace needs embeddings (n, d) and a graph (n, n); got {shapes}")
    rows = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    if isinstance(graph, Tensor):
        weights = graph.to(rows)
        rows = rows - rows.mean(dim=0)  # changes nothing but rounding: the two terms below no longer dwarf the result
        degree = (weights.sum(dim=0) + weights.sum(dim=1)) / 2
        return (degree @ rows.square()).sum() - (rows * (weights @ rows)).sum()
    edges = sparse.coo_array(graph)
    start, end = (torch.as_tensor(index, dtype=torch.long, device=rows.device) for index in (edges.row, edges.col))
    weights = torch.as_tensor(edges.data, dtype=rows.dtype, device=rows.device)
    return (weights @ (rows[start] - rows[end]).square()).sum() / 2


def spectral_embedding(
    graph: Tensor | sparse.csr_array,
    dimensions: int,
    *,
    normalization: Normalization = "random_walk",  # scikit-learn's
    drop_first: bool = True,
) -> Tensor:
    """Each node's coordinates (n, dimensions) in the eigenvectors of the smallest eigenvalues, ascending.

    ``symmetric`` and ``unnormalized`` give orthonormal columns u. ``random_walk`` gives D^-½ u with the u of the
    symmetric Laplacian: eigenvectors of the random-walk one, orthonormal in the inner product weighted by D, and what
    scikit-learn's ``SpectralEmbedding`` returns for a connected graph (its name for it is a normalised Laplacian, and
    it does not rescale the columns either). ``unnormalized`` is its ``norm_laplacian=False``. The entry of largest
    magnitude in each column is positive; within a repeated eigenvalue the basis is arbitrary.

    ``drop_first`` leaves out the trivial eigenvector, constant after the scaling by D^-½. A disconnected graph keeps
    the other vectors of eigenvalue 0, which tell its components apart; here scikit-learn warns, and gives nodes
    without edges the eigenvalue 1 instead of 0. Float64 on the CPU, or the device and precision of the tensor given.
    """
    _check(graph, normalization)
    nodes, first = graph.shape[0], int(drop_first)
    if not 1 <= dimensions <= nodes - first:
        rule = f"1 to {nodes - first} for {nodes} nodes" + (" without the first vector" if drop_first else "")
        raise SettingError(f"dimensions must be {rule}; got {dimensions}")
    vectors = eigenpairs(graph, dimensions + first, normalization)[1][:, first:]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    coordinates = torch.from_numpy(vectors * np.where(largest < 0, -1.0, 1.0))
    if not isinstance(graph, Tensor):
        return coordinates
    return coordinates.to(graph.device, torch.float64 if graph.dtype == torch.float64 else torch.float32)


def spectral_clustering(
    graph: Tensor | sparse.csr_array, clusters: int, *, restarts: int = 10, seed: int = 0
) -> Tensor:
    """The cluster (n,) of each node: k-means on the first K eigenvectors of the symmetric Laplacian, rows normalised.

    Ng, Jordan & Weiss 2001. The best of ``restarts`` starts of spherical k-means is kept. With more components than
    clusters, the K − 1 largest stand alone and the others share a cluster.
    """
    if restarts < 1:
        raise SettingError(f"restarts must be at least 1; got {restarts}")
    rows = spectral_embedding(graph, clusters, normalization="symmetric", drop_first=False)
    return best_clustering(rows, clusters, starts=restarts, seed=seed).assignment


def eigengap(
    graph: Tensor | sparse.csr_array, *, most: int = 10, normalization: Normalization = "symmetric"
) -> Eigengap:
    """The number of clusters k ≤ ``most`` after which the eigenvalues jump furthest: argmax of λ_{k+1} − λ_k.

    Where all the eigenvalues looked at are 0, the graph has more than ``most`` components and the answer is the most.
    """
    _check(graph, normalization)
    nodes = graph.shape[0]
    if most < 1 or nodes < 2:
        raise SettingError(f"eigengap needs most >= 1 and at least two nodes; got {most} and {nodes}")
    values = eigenpairs(graph, min(most + 1, nodes), normalization)[0]
    gaps = np.diff(values)
    clusters = int(gaps.argmax()) + 1 if gaps.max() > 0 else len(gaps)
    return Eigengap(clusters, torch.from_numpy(values))


def eigenpairs(graph: Tensor | sparse.csr_array, count: int, normalization: Normalization) -> tuple[Array, Array]:
    """The smallest eigenvalues (count,) and eigenvectors (n, count), the trivial one first.

    Component by component: each has the eigenvalue 0 exactly once, with a known vector, so that an iterative solver
    never meets the repeated eigenvalue of a disconnected graph.
    """
    kind: Normalization = "unnormalized" if normalization == "unnormalized" else "symmetric"
    whole = graph.detach().cpu().double().numpy() if isinstance(graph, Tensor) else sparse.csr_array(graph)
    whole = (whole + whole.T) / 2  # symmetric to the last bit
    edges, degree = _without_self_edges(whole)
    matrix = _of_edges(whole, kind) if sparse.issparse(whole) else _of_tensor(torch.from_numpy(whole), kind).numpy()
    degree = np.where(degree > 0, degree, 1.0)
    root = np.ones_like(degree) if kind == "unnormalized" else np.sqrt(degree)
    components, member = csgraph.connected_components(edges, directed=False)
    values, vectors = np.zeros(min(components, count)), _null_vectors(member, root, count)
    if components < count:
        more, pairs = count - components, []  # (eigenvalue, nodes, vector on the nodes)
        for component in np.flatnonzero(np.bincount(member) > 1):
            nodes = np.flatnonzero(member == component)
            block = matrix if len(nodes) == len(degree) else matrix[nodes][:, nodes]
            some, inside = _nontrivial(block, root[nodes] / np.linalg.norm(root[nodes]), more)
            pairs += [(value, nodes, vector) for value, vector in zip(some, inside.T, strict=True)]
        pairs = sorted(pairs, key=lambda pair: float(pair[0]))[:more]
        rest = np.zeros((len(degree), more))
        for place, (_, nodes, vector) in enumerate(pairs):
            rest[nodes, place] = vector
        values, vectors = np.append(values, [pair[0] for pair in pairs]), np.hstack([vectors, rest])
    return values, vectors / np.sqrt(degree)[:, None] if normalization == "random_walk" else vectors


def _null_vectors(member: NDArray[np.int32], root: Array, count: int) -> Array:
    """Up to ``count`` orthonormal vectors of eigenvalue 0, the trivial one (``root``) first.

    The components' own vectors, the smallest sharing one if there are too many, turned by the reflection that takes
    the first axis to the trivial vector.
    """
    largest_first = np.argsort(-np.bincount(member), kind="stable")
    group = np.minimum(np.argsort(largest_first)[member], count - 1)
    length = np.sqrt(np.bincount(group, weights=root**2))
    mirror = length / np.linalg.norm(length)
    mirror[0] -= 1
    turned = np.eye(len(length))
    if len(length) > 1:
        turned -= 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    basis: Array = turned[group] * (root / length[group])[:, None]
    return basis


def _nontrivial(matrix: Array | sparse.csr_array, trivial: Array, count: int) -> tuple[Array, Array]:
    """The smallest eigenpairs of the Laplacian of one component but the trivial one, at most ``count``, ascending.

    The trivial vector is projected out of the computed space, not just the first column left out: where a component
    hangs together by less than rounding, a solver mixes the two.
    """
    count = min(count, len(trivial) - 1)
    _, vectors = smallest_eigenpairs(matrix, count + 1)
    basis = linalg.svd(vectors - np.outer(trivial, trivial @ vectors), full_matrices=False)[0][:, :count]
    values, turn = linalg.eigh(basis.T @ (matrix @ basis))
    return np.maximum(values, 0), basis @ turn


def _without_self_edges(graph: Array | sparse.csr_array) -> tuple[sparse.coo_array, Array]:
    """The off-diagonal entries, and the degrees they give."""
    edges = sparse.coo_array(sparse.csr_array(graph).astype(np.float64))
    keep = edges.row != edges.col
    kept = sparse.coo_array((edges.data[keep], (edges.row[keep], edges.col[keep])), shape=edges.shape)
    return kept, np.asarray(kept.sum(axis=1)).ravel()


def _scales(degree: Scale, normalization: Normalization) -> tuple[Scale, Scale]:
    """What to multiply the rows and the columns of D − W by."""
    left, right = {"unnormalized": (0.0, 0.0), "symmetric": (-0.5, -0.5), "random_walk": (-1.0, 0.0)}[normalization]
    return degree**left, degree**right


def _check(graph: Tensor | sparse.csr_array, normalization: str) -> None:
    if normalization not in ("unnormalized", "symmetric", "random_walk"):
        raise SettingError(f"normalization must be unnormalized, symmetric or random_walk; got {normalization!r}")
    if isinstance(graph, Tensor) and graph.layout != torch.strided:
        raise ShapeError(
            f"a sparse graph must be a scipy matrix; got a {graph.layout} tensor: pass scipy.sparse.coo_array((values, "
            "indices), shape) of its coalesced values() and indices()"
        )
    if not isinstance(graph, Tensor) and not sparse.issparse(graph):
        raise ShapeError(f"a graph is a dense torch tensor or a scipy sparse matrix; got {type(graph).__name__}")
    if len(graph.shape) != 2 or graph.shape[0] != graph.shape[1] or graph.shape[0] == 0:
        raise ShapeError(f"a graph is a square matrix of at least one node; got {tuple(graph.shape)}")
    if isinstance(graph, Tensor):
        weights = graph.detach() if graph.dtype == torch.float64 else graph.detach().float()
        low, high = (float(extreme) for extreme in torch.aminmax(weights))
        asymmetry, rounding = float((weights - weights.T).abs().amax()), torch.finfo(weights.dtype).eps ** 0.5
    else:
        weights = sparse.csr_array(graph).astype(np.float64)
        low, high = (float(weights.min()), float(weights.max())) if weights.nnz else (0.0, 0.0)
        low = low if np.isfinite(weights.data).all() else np.nan
        asymmetry, rounding = float(abs(weights - weights.T).max()) if weights.nnz else 0.0, 1.5e-8
    if not np.isfinite([low, high]).all() or low < 0:
        raise DataError(f"the weights of a graph must be finite and non-negative; they run from {low:g} to {high:g}")
    if asymmetry > rounding * high:
        raise DataError(f"a graph must be symmetric; W and its transpose differ by {asymmetry:g}: use (W + W.T) / 2")
