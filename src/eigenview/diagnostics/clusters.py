"""Structure in the embeddings: how many clusters, whether the augmentation graph hangs together, prototypes in use."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csgraph
from torch import Tensor

from eigenview.diagnostics.estimates import Estimate, share_of_sample
from eigenview.diagnostics.neighbours import all_nearest, check_neighbours
from eigenview.diagnostics.rows import Embeddings, JoinedRows, Rows, check_same_shape, open_rows, sampled_rows
from eigenview.diagnostics.sphere import ANCHORS, Labels, checked_labels
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.communities import MOST, communities, self_tuned_weights
from eigenview.graph.laplacian import joined
from eigenview.graph.nearest import nearest
from eigenview.graph.principal import projection

NODES = 2000  # sampled for the graph whose components are sought
COUNTED, TIES = 4000, 15  # rows among which clusters are counted, and the neighbours each is joined to


@dataclass(frozen=True)
class ClusterCount:
    """How many clusters the graph of neighbours suggests."""

    clusters: int
    eigenvalues: tuple[float, ...]  # the smallest of the normalised Laplacian, ascending
    components: int  # of the graph; each has the eigenvalue 0 once
    nodes: int  # sampled rows the graph was built on
    certainty: str = ""  # clear, blurred, one cloud, or given; empty where an earlier version counted, by the eigengap
    agreement: float | None = None  # adjusted Rand index of two halves of the rows clustered apart
    modularity: float | None = None  # of the groups: 0 where they are no closer than chance has it

    def __str__(self) -> str:
        if not self.certainty:
            return f"{self.clusters} by eigengap"
        said = {
            "clear": f"{self.clusters}, set apart clearly",
            "blurred": f"about {self.clusters}, which run into each other",
            "one cloud": "none: one cloud",
            "given": f"{self.clusters}, as given",
        }[self.certainty]
        return said if self.agreement is None else f"{said} (two halves of the rows agree by {self.agreement:.2f})"


@dataclass(frozen=True)
class Connectivity:
    """Do views of different images meet?"""

    meeting: Estimate  # share of images with a view whose nearest neighbours include another image's view
    components: int  # of the graph of images, over ``images`` sampled ones
    largest: float  # the share of those images in the largest component
    images: int


@dataclass(frozen=True)
class PrototypeUsage:
    """How evenly samples spread over prototypes."""

    entropy: float  # of the shares of samples, divided by ln min(K, n): 1 when used alike, 0 when one takes all
    perplexity: float  # exp of the entropy: as if so many prototypes were used alike
    unused: int
    prototypes: int


def cluster_count(
    embeddings: Embeddings, *, neighbours: int = TIES, nodes: int = COUNTED, seed: int = 0
) -> ClusterCount:
    """The number of clusters among ``nodes`` sampled rows, and how sure it is: see :mod:`eigenview.graph.communities`.

    1 means one cloud. A cluster with fewer than about ``neighbours`` sampled rows is not seen.
    """
    return clustered_rows(embeddings, neighbours=neighbours, nodes=nodes, seed=seed)[0]


def clustered_rows(
    embeddings: Embeddings,
    *,
    clusters: int | None = None,
    neighbours: int = TIES,
    most: int = MOST,
    nodes: int = COUNTED,
    seed: int = 0,
) -> tuple[ClusterCount, Tensor, Tensor]:
    """The count, the sampled rows (m,), and the group of each of them (m,), the largest first.

    Rows are centred and joined to their ``neighbours`` nearest by cosine among the sampled ones, fewer where there are
    fewer than eight times as many, with self-tuned weights. ``clusters`` says how many groups, where that is known.
    """
    rows = open_rows(embeddings, least=2, directions=False)
    if neighbours < 1 or most < 1:
        raise SettingError(f"neighbours and most must be at least 1; got {neighbours} and {most}")
    chosen = sampled_rows(rows.n, nodes, seed)
    taken = rows.take(chosen).cpu()
    unit = projection(taken)(taken)
    if not bool(unit.any()):
        if clusters is not None and clusters > 1:
            raise DataError(f"all {len(chosen):,} rows are the same: there are no {clusters} groups")
        same = ClusterCount(1, (0.0,), 1, len(chosen), "one cloud" if clusters is None else "given", 0.0, 0.0)
        return same, chosen, torch.zeros(len(chosen), dtype=torch.long)
    width = min(neighbours, max(2, len(chosen) // 8), len(chosen) - 1)
    graph = self_tuned_weights(nearest(unit, unit, k=width, excludes_self=True), width)
    groups = communities(graph, clusters=clusters, most=most, seed=seed)
    components = csgraph.connected_components(graph, directed=False)[0]
    count = ClusterCount(
        groups.clusters,
        tuple(groups.eigenvalues[: most + 1].tolist()),
        int(components),
        len(chosen),
        groups.certainty,
        groups.agreement,
        groups.modularity,
    )
    return count, chosen, torch.from_numpy(groups.member)


def connectivity(
    *views: Embeddings,
    neighbours: int | None = None,
    cosine: float | None = None,
    images: int = NODES,
    anchors: int = ANCHORS,
    seed: int = 0,
) -> Connectivity:
    """Whether the augmentation graph, as the encoder sees it, joins different images.

    ``views``: two or more (n, d), row i of each from image i. Each view looks at its ``neighbours`` nearest among all
    views of all images; by default as many as it has siblings, so that an encoder that tells every image apart shows
    no meeting at all. Neighbours below ``cosine`` do not count: with that and many ``neighbours``, it is the graph of
    all pairs at least so similar. ``meeting`` is exact for each sampled image; the components are those of ``images``
    sampled images and their views alone, joined when a view of one is among the nearest of a view of the other.

    Nothing meets: images are islands, and nothing is shared between them. All meet in one component: similarity can
    spread from image to image, as spectral clustering needs.
    """
    if len(views) < 2:
        raise ShapeError(f"connectivity needs two or more views of the same images; got {len(views)}")
    rows = [open_rows(view, name=f"view {place}", least=2) for place, view in enumerate(views)]
    check_same_shape({f"view {place}": view for place, view in enumerate(rows)})
    n, width = rows[0].n, len(rows) - 1 if neighbours is None else neighbours
    check_neighbours(width, n * len(rows))
    least = -math.inf if cosine is None else cosine
    chosen = sampled_rows(n, max(2, -(-anchors // len(rows))), seed)  # images: each has an anchor in every view
    meets = torch.zeros(len(chosen), dtype=torch.bool)
    for place, view in enumerate(rows):
        near = nearest(JoinedRows(rows), view.take(chosen), k=width, own=chosen + place * n)
        meets |= ((near.index.cpu() % n != chosen[:, None]) & (near.similarity.cpu() >= least)).any(dim=1)
    few = sampled_rows(n, images, seed)
    blocks = list(all_nearest([Rows(view.take(few), len(few), view.d, view.dtype) for view in rows], width))
    close = torch.cat([near.similarity.cpu() for near in blocks]).flatten() >= least
    end_of = torch.cat([near.index.cpu() for near in blocks]).flatten()[close] % len(few)
    start_of = torch.arange(len(few) * len(rows)).repeat_interleave(width)[close] % len(few)
    graph = joined(start_of.numpy(), end_of.numpy(), len(few))  # of images: row i of each view
    components, member = csgraph.connected_components(graph, directed=False)
    return Connectivity(
        share_of_sample(meets, n), int(components), float(np.bincount(member).max() / len(few)), len(few)
    )


def prototype_usage(assignment: Labels, prototypes: int) -> PrototypeUsage:
    """Entropy of how samples spread over prototypes, −Σ q_k ln q_k / ln min(K, n), q_k the share assigned to k.

    ``assignment`` (n,) the prototype of each sample (argmax of its scores), from 0 to ``prototypes`` − 1. 0 when one
    prototype takes everything; fewer samples than prototypes cannot use them all, and are not asked to.
    """
    if prototypes < 2:
        raise SettingError(f"usage needs at least two prototypes; got {prototypes}")
    numbers = checked_labels(assignment, len(assignment))
    if not len(numbers):
        raise ShapeError("usage needs at least one sample; got none")
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= prototypes:
        raise SettingError(f"assignments must be from 0 to {prototypes - 1}; they run from {low} to {high}")
    counts = torch.bincount(numbers, minlength=prototypes).double()
    entropy = float(torch.special.entr(counts / counts.sum()).sum())
    most = math.log(max(2, min(prototypes, len(numbers))))
    return PrototypeUsage(entropy / most, math.exp(entropy), int((counts == 0).sum()), prototypes)
