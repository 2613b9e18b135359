"""Groups in a graph of neighbours, their number chosen, and how sure that number is: from the weights alone.

Clusters that are set apart leave a gap in the spectrum: after as many eigenvalues as clusters, log λ jumps by far more
than it does afterwards. Where nothing jumps, the groups are the fewest whose modularity is as good as the best, as
communities are sought in networks; they run into each other, and their number is a matter of degree. Either way two
halves of the nodes, clustered apart, have to agree, and groups must not come apart as easily as they are told apart,
as the pieces of a ring do; where they fail, there is one cloud.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, sparse
from torch import Tensor

from eigenview.errors import SettingError
from eigenview.graph.clustering import adjusted_rand_index, spherical_kmeans
from eigenview.graph.laplacian import eigenpairs
from eigenview.graph.nearest import Neighbours

MOST = 38  # clusters that are looked for
FOLLOWING = 6  # gaps that the one before them is compared with
NEARLY = 0.01  # eigenvalues below it, or a twentieth of the median, are all but 0: clusters that hardly touch
JUMP = 10.0  # from which on a gap tells; chosen on planted clusters, as NEARLY and FOLLOWING were
AS_GOOD = 0.01  # of the modularity: fewer groups with so much less are as good
AGREED = {"clear": 0.2, "blurred": 0.4}  # of two halves, from which on there are groups at all
THIN, TOUGHER = 0.08, 3.0  # cut through below it, and less than so many times as hard as around: pieces of a curve
FEWEST = 10  # nodes of a group; of fewer than 200 nodes, a twentieth
ITERATIONS = 10  # of k-means, from starts that are nearly right
SHARPNESS = 4.0  # an edge to the k-th neighbour, where both reach as far, weighs exp(−4)

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
Certainty = Literal["clear", "blurred", "one cloud", "given"]


@dataclass(frozen=True)
class Communities:
    """The group of every node, and how sure their number is."""

    member: Ints  # (n,) from 0, the largest group first
    eigenvalues: Array  # the smallest of the normalised Laplacian, ascending
    certainty: Certainty  # of the number: a gap tells it, modularity does, there are none, or it was given
    agreement: float  # adjusted Rand index of two halves of the nodes clustered apart: 1 the same, 0 by chance
    modularity: float  # of the groups that were considered, also where they turned out to be one cloud

    @property
    def clusters(self) -> int:
        return int(self.member.max()) + 1


def communities(
    graph: sparse.csr_array, *, clusters: int | None = None, most: int = MOST, seed: int = 0
) -> Communities:
    """Spectral clusters of a symmetric, weighted graph; as many as ``clusters`` says, or as there are, up to ``most``.

    Ng, Jordan & Weiss 2001, started from the rows that a pivoted QR picks (Damle, Minden & Ying 2019), so that nothing
    is drawn but the halves, by ``seed``. Nodes of groups of fewer than ten are strays, and join what they are tied to.
    """
    nodes = graph.shape[0]
    if nodes < 2:
        raise SettingError(f"groups need at least two nodes; got {nodes}")
    if clusters is not None and not 1 <= clusters <= nodes:
        raise SettingError(f"clusters must be from 1 to {nodes}, the number of rows; got {clusters}")
    most = min(most, max(2, nodes // 6))
    asked = most if clusters is None else clusters
    values, vectors = eigenpairs(graph, min(asked + FOLLOWING + 1, nodes), "symmetric")
    certainty: Certainty = "given"
    if clusters is not None:
        member = _solid_groups(graph, vectors, clusters)
    elif (number := clear_gap(values)) is not None:
        certainty, member = "clear", _without_strays(graph, spectral_groups(vectors, number))
    else:
        groups = [spectral_groups(vectors, count) for count in range(2, max(2, most) + 1)]
        modular = np.array([modularity(graph, member) for member in groups])
        fewest = groups[int(np.argmax(modular >= modular.max() * (1 - AS_GOOD)))]
        certainty, member = "blurred", _without_strays(graph, fewest)
    agreement, quality = _agreement(graph, int(member.max()) + 1, seed), modularity(graph, member)
    if clusters is None and (agreement < AGREED[certainty] or member.max() == 0 or _are_pieces(graph, member)):
        certainty, member = "one cloud", np.zeros(nodes, dtype=np.int64)
    return Communities(_largest_first(member), values, certainty, agreement, quality)


def clear_gap(eigenvalues: Array) -> int | None:
    """The number of eigenvalues before the jump, where there is one; None where none is large enough.

    With g_k = log(λ_{k+1} + ε) − log(λ_k + ε), ε a twentieth of the median λ and at most 0.01, the jump at k ≥ 2 is g_k
    over the mean of the six gaps after it.
    """
    values = np.maximum(eigenvalues, 0)
    gaps = np.diff(np.log(values + min(NEARLY, float(np.median(values)) / 20) + 1e-6))
    places = range(1, len(gaps) - FOLLOWING + 1)
    jumps = [gaps[place] / (gaps[place + 1 : place + 1 + FOLLOWING].mean() + 1e-3) for place in places]
    if not jumps or max(jumps) < JUMP:
        return None
    return int(np.argmax(jumps)) + 2


def spectral_groups(vectors: Array, clusters: int) -> Ints:
    """(n,) by k-means on the first ``clusters`` columns of ``vectors`` (n, k), rows normalised."""
    if clusters == 1:
        return np.zeros(len(vectors), dtype=np.int64)
    kept = vectors[:, :clusters]
    length = np.linalg.norm(kept, axis=1, keepdims=True)
    rows = torch.from_numpy(np.where(length > 0, kept / np.where(length > 0, length, 1), clusters**-0.5))
    picked = linalg.qr(kept.T, mode="r", pivoting=True)[1][:clusters]
    start = rows[torch.from_numpy(picked.astype(np.int64))]
    member: Ints = spherical_kmeans(rows, clusters, start=start, iterations=ITERATIONS).assignment.numpy()
    return member


def modularity(graph: sparse.csr_array, member: Ints) -> float:
    """Σ_c (w_c/w − (v_c/v)²): the share of weight within groups, less what nodes of such degrees would have by chance.

    Newman & Girvan 2004; ``member`` (n,) the group of each node.
    """
    edges = sparse.coo_array(graph)
    degree = np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()
    total = max(float(degree.sum()), np.finfo(np.float64).tiny)
    within = float(edges.data[member[edges.row] == member[edges.col]].sum(dtype=np.float64))
    return within / total - float(np.square(np.bincount(member, weights=degree) / total).sum())


def cuts(graph: sparse.csr_array, member: Ints) -> tuple[float, float]:
    """(conductance through, conductance around) the middle group: how hard it is to split, and to tell from the rest.

    Through: of the weakest cut along the group's own second eigenvector that leaves a fifth of its nodes on each side,
    weight cut over the weight of the lighter side. Around: the share of the group's weight that leaves it.
    """
    through, around = [], []
    degree = np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()
    for group in range(int(member.max()) + 1):
        nodes = np.flatnonzero(member == group)
        inside = sparse.csr_array(graph[nodes][:, nodes])
        around.append(1 - inside.sum() / max(degree[nodes].sum(), np.finfo(np.float64).tiny))
        through.append(_weakest_cut(inside))
    return float(np.median(through)), float(np.median(around))


def _are_pieces(graph: sparse.csr_array, member: Ints) -> bool:
    """Whether groups are but pieces of a curve or a sheet, which come apart anywhere."""
    through, around = cuts(graph, member)
    return through < min(THIN, TOUGHER * around)


def _weakest_cut(graph: sparse.csr_array) -> float:
    degree = np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()
    nodes = len(degree)
    if nodes < 5:
        return 1.0  # too few to have two sides
    along = eigenpairs(graph, 2, "symmetric")[1][:, 1] / np.sqrt(np.where(degree > 0, degree, 1))
    order = np.argsort(along, kind="stable")
    sorted_graph = sparse.coo_array(graph[order][:, order])
    ahead = np.where(sorted_graph.col > sorted_graph.row, 1.0, -1.0) * sorted_graph.data
    cut = np.cumsum(np.bincount(sorted_graph.row, weights=ahead, minlength=nodes))  # between the first i and the rest
    first = np.cumsum(degree[order])
    lighter = np.maximum(np.minimum(first, first[-1] - first), np.finfo(np.float64).tiny)
    return float((cut / lighter)[nodes // 5 : nodes - nodes // 5].min())


def self_tuned_weights(known: Neighbours, neighbours: int, sharpness: float = SHARPNESS) -> sparse.csr_array:
    """w_ij = exp(−sharpness·d²_ij/(σ_i·σ_j)), σ_i the distance to the last of the first ``neighbours`` known ones.

    ``known`` are the nearest of each of n unit rows among the others, by cosine. (n, n) float32, without self-edges; an
    edge counts in both directions if it counts in one. Zelnik-Manor & Perona 2004.
    """
    index = known.index[:, :neighbours].numpy()
    distance = distances(known)[:, :neighbours].numpy()
    reach = distance[:, -1]
    some = reach[reach > 0]
    reach = np.where(reach > 0, reach, np.median(some) if len(some) else 1.0)  # a row whose nearest are all its copies
    weights = np.exp(-sharpness * distance**2 / (reach[:, None] * reach[index])).astype(np.float32)
    first = np.arange(len(index) + 1) * index.shape[1]
    directed = sparse.csr_array((weights.ravel(), index.ravel(), first), shape=(len(index), len(index)))
    directed.sort_indices()
    return sparse.csr_array(directed.maximum(directed.T))


def distances(known: Neighbours) -> Tensor:
    """d = √(2 − 2·cos), (n, k); ascending."""
    squares = (2 - 2 * known.similarity).clamp_min(0)
    return squares.where(squares > 4 * torch.finfo(squares.dtype).eps, 0).sqrt()


def _without_strays(graph: sparse.csr_array, member: Ints) -> Ints:
    """Nodes of tiny groups join the group they are tied to most; what is tied to none, the largest."""
    sizes = np.bincount(member)
    fewest = min(FEWEST, max(2, len(member) // 20))
    solid = np.flatnonzero(sizes >= fewest)
    if len(solid) == 0:
        return np.zeros_like(member)
    number = np.full(len(sizes), -1, dtype=np.int64)
    number[solid] = np.arange(len(solid))
    joined = number[member]
    for _ in range(fewest):
        lost = np.flatnonzero(joined < 0)
        ties = graph[lost] @ _indicators(joined, len(solid))
        joined[lost] = np.where(ties.max(axis=1) > 0, ties.argmax(axis=1), -1) if len(lost) else joined[lost]
    return np.where(joined < 0, int(sizes[solid].argmax()), joined)


def _agreement(graph: sparse.csr_array, clusters: int, seed: int) -> float:
    """Both halves are clustered apart; each node is then also told its group by its neighbours in the other half."""
    nodes = graph.shape[0]
    if clusters < 2 or nodes < 4 * clusters:
        return 0.0
    order = np.random.default_rng(seed).permutation(nodes)
    halves = order[: nodes // 2], order[nodes // 2 :]
    rows = [sparse.csr_array(graph[half]) for half in halves]
    own, tables = [], []
    for place, half in enumerate(halves):
        inside = sparse.csr_array(rows[place][:, half])
        vectors = eigenpairs(inside, min(clusters + FOLLOWING, len(half)), "symmetric")[1]
        own.append(_solid_groups(inside, vectors, clusters))
    for place in (0, 1):
        told = rows[place][:, halves[1 - place]] @ _indicators(own[1 - place], clusters)
        has_ties = told.max(axis=1) > 0
        both = own[place][has_ties] * clusters + told.argmax(axis=1)[has_ties]
        tables.append(np.bincount(both, minlength=clusters**2).reshape(clusters, clusters).astype(np.float64))
    return float(np.mean([adjusted_rand_index(table) for table in tables]))


def _solid_groups(graph: sparse.csr_array, vectors: Array, clusters: int) -> Ints:
    """As many groups as asked for that are more than strays: stray ones are asked for in addition.

    Where no number of them leaves as many, they are what k-means gives, strays included.
    """
    for more in range(min(FOLLOWING, vectors.shape[1] - clusters) + 1):
        member = _without_strays(graph, spectral_groups(vectors, clusters + more))
        if int(member.max()) + 1 == clusters:
            return member
    return spectral_groups(vectors, clusters)


def _indicators(member: Ints, groups: int) -> Array:
    """(n, groups): 1 where a node belongs; a negative number belongs nowhere."""
    table = np.zeros((len(member), groups))
    some = np.flatnonzero(member >= 0)
    table[some, member[some]] = 1.0
    return table


def _largest_first(member: Ints) -> Ints:
    sizes = np.bincount(member)
    order = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    place = np.zeros(len(sizes), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[member]
