"""Which pictures to label next: typical ones that cover the graph, and once there are labels, what they leave unsure.

Coverage takes, one after another, the row that raises Σ_j w_j·max_{i chosen} K(i, j) most. Its kernel is that of the
graph, all its edges alike: K(i, j) = G_ij/√(G_ii·G_jj) with G = (I − α·S)⁻¹, the correlation of the random field whose
most likely value label spreading finds, so that j is covered as far as a label of i would tell about it.
"""

from collections.abc import Callable

import torch
from scipy import sparse
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.graph.clustering import spherical_kmeans
from eigenview.graph.nearest import Neighbours
from eigenview.labels.graph import NEIGHBOURS, ImageGraph, graph_of_neighbours, image_graph
from eigenview.labels.spreading import NO_LABEL, label_spreading
from eigenview.names import Table

ALPHA = 0.9  # of the kernel: how far a label is taken to reach
COVERED = 4000  # rows that stand for all: their kernel is a matrix of 64 MB
COPY = 0.99  # cosine from which two rows are near-duplicates
MOST_CLUSTERS, RESTARTS = 500, 3  # of TypiClust's k-means
BLOCK = 256  # rows of a kernel at a time
AT_ONCE = 16  # gains brought up to date together

Kernel = Callable[[ImageGraph], Tensor]


def choose(
    graph: ImageGraph, count: int, *, labels: Tensor | None = None, way: str = "coverage", seed: int = 0
) -> Tensor:
    """The ``count`` rows to label next (count,), the most useful first; none that has a label, nor a copy of one.

    ``labels`` (n,) are those so far, −1 for none. ``way`` is a name of :data:`CHOOSERS`. ``seed`` draws what is drawn:
    the order, the starts of k-means, the rows that stand for all in larger sets.
    """
    chooser = CHOOSERS.find(way)
    known = torch.full((len(graph),), NO_LABEL) if labels is None else labels
    if known.shape != (len(graph),):
        raise DataError(f"labels must be {len(graph)} numbers, −1 where there is none; got {tuple(known.shape)}")
    free = int((known == NO_LABEL).sum())
    if free == 0:
        raise SettingError(f"all {len(graph):,} rows have a label: there is none left to choose")
    if isinstance(count, bool) or not 1 <= count <= free:
        raise SettingError(f"choose 1 to {free} rows, as many as have no label; got {count}")
    return chooser(graph, count, known, torch.Generator().manual_seed(seed))


def needs_edges(images: int, classes: int) -> bool:
    """Whether :func:`choose` looks at edges of the graph: not of many images while labels are of one class or none."""
    return images <= COVERED or classes > 1


def unjoined(rows: Tensor) -> ImageGraph:
    """The graph of ``rows`` without an edge: to choose by while that needs none, and they are not found yet."""
    none = Neighbours(rows.new_empty(len(rows), 0), torch.empty(len(rows), 0, dtype=torch.long))
    return ImageGraph(rows, none, NEIGHBOURS, sparse.csr_array((len(rows), len(rows)), dtype="float32"))


def random_rows(graph: ImageGraph, count: int, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Any rows without labels, copies too: for comparison."""
    free = (labels == NO_LABEL).nonzero().flatten()
    return free[torch.randperm(len(free), generator=generator)[:count]]


def typical(graph: ImageGraph, count: int, labels: Tensor, generator: torch.Generator) -> Tensor:
    """TypiClust, Hacohen et al. 2022: the densest row of each of the largest k-means clusters that have no label.

    As many clusters as labels there will be, at most 500; the density is 1 / mean distance to 20 neighbours.
    """
    known = labels != NO_LABEL
    clusters = min(int(known.sum()) + count, MOST_CLUSTERS, len(graph))
    seeds = torch.randint(2**31, (RESTARTS,), generator=generator).tolist()
    rows = torch.where((graph.rows == 0).all(dim=1, keepdim=True), graph.rows.new_ones(()), graph.rows)
    runs = [spherical_kmeans(rows, clusters, iterations=50, seed=start) for start in seeds]
    cluster = max(runs, key=lambda run: run.objective).assignment
    labelled, sizes = cluster[known].bincount(minlength=clusters), cluster.bincount(minlength=clusters)
    picks = _Picks(graph, labels)
    while len(picks.rows) < count:
        order = sorted(range(clusters), key=lambda cluster: (int(labelled[cluster]), -int(sizes[cluster])))
        for number in order:
            inside = ((cluster == number) & picks.free).nonzero().flatten()
            if len(inside):
                picks.take(int(inside[graph.density[inside].argmax()]))
                labelled[number] += 1
                break
        else:
            picks.allow_copies()
    return torch.tensor(picks.rows)


def coverage(graph: ImageGraph, count: int, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Our own best: coverage by the graph's kernel, rows weighed by (1 − margin)² of what the labels so far say."""
    return _covering(graph, count, labels, generator, graph_kernel)


def max_herding(graph: ImageGraph, count: int, labels: Tensor, generator: torch.Generator) -> Tensor:
    """MaxHerding, Bae et al. 2024: coverage by the kernel exp(−d²/2) of the unit rows, all rows alike."""
    return _covering(graph, count, labels, generator, _gaussian_kernel, weighs=False)


def graph_kernel(graph: ImageGraph) -> Tensor:
    """K (n, n): the correlations of (I − α·S)⁻¹."""
    flat = graph_of_neighbours(graph.rows, graph.neighbours, graph.joined, sharpness=0)
    matrix = torch.from_numpy(flat.normalized.toarray()).mul_(-ALPHA)
    matrix.diagonal().add_(1)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(matrix))
    scale = inverse.diagonal().rsqrt()
    return inverse.mul_(scale).mul_(scale[:, None])


def _gaussian_kernel(graph: ImageGraph) -> Tensor:
    rows = graph.rows.float()
    return (rows @ rows.T).sub_(1).exp_()  # d² = 2 − 2·cos


def _covering(
    graph: ImageGraph,
    count: int,
    labels: Tensor,
    generator: torch.Generator,
    kernel_of: Kernel,
    *,
    weighs: bool = True,
) -> Tensor:
    """On all rows, or on those that stand for them: the labelled ones, and as many others as there is room for."""
    weights = _unsure(graph, labels) if weighs else torch.ones(len(graph))
    chosen = _standing_for_all(labels, count, generator)
    if len(chosen) < len(graph):
        sampled = image_graph(graph.rows[chosen], neighbours=graph.joined)
        places = _most_covering(sampled, count, labels[chosen], weights[chosen], kernel_of(sampled))
        return chosen[places]
    return _most_covering(graph, count, labels, weights, kernel_of(graph))


def _standing_for_all(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Rows, ascending: all if they are few; of very many labels, drawn ones stand for the others too."""
    known, free = (labels != NO_LABEL).nonzero().flatten(), (labels == NO_LABEL).nonzero().flatten()
    room = max(COVERED - len(known), COVERED // 2, 2 * count)
    drawn = free[torch.randperm(len(free), generator=generator)[:room]]
    if len(known) > COVERED // 2 and len(labels) > COVERED:
        known = known[torch.randperm(len(known), generator=generator)[: COVERED // 2]]
    return torch.cat([known, drawn]).sort().values


def _unsure(graph: ImageGraph, labels: Tensor) -> Tensor:
    """(1 − margin)² of label spreading (n,): how much is to be learnt about each row; 1 while it is not known."""
    known = labels[labels != NO_LABEL]
    if len(torch.unique(known)) < 2:
        return torch.ones(len(graph))
    spread = label_spreading(graph, labels, classes=int(known.max()) + 1)
    best = spread.topk(2, dim=1).values
    return (1 - best[:, 0] + best[:, 1]).square()


def _most_covering(graph: ImageGraph, count: int, labels: Tensor, weights: Tensor, kernel: Tensor) -> Tensor:
    """Greedy, and lazy: gains only fall, so one that is up to date and still the largest is the largest of all."""
    picks = _Picks(graph, labels)
    known = (labels != NO_LABEL).nonzero().flatten()
    covered = kernel[known].amax(dim=0) if len(known) else torch.zeros(len(graph))
    gains = torch.cat([(block - covered).clamp_min_(0) @ weights for block in torch.split(kernel, BLOCK)])
    while len(picks.rows) < count:
        if not bool(picks.free.any()):
            picks.allow_copies()
        is_new = torch.zeros(len(graph), dtype=torch.bool)
        while True:
            open_gains = gains.masked_fill(~picks.free, -torch.inf)
            top = open_gains.topk(min(AT_ONCE, len(graph))).indices
            if is_new[top[0]]:
                break
            gains[top] = (kernel[top] - covered).clamp_min_(0) @ weights
            is_new[top] = True
        picks.take(int(top[0]))
        covered = torch.maximum(covered, kernel[top[0]])
    return torch.tensor(picks.rows)


class _Picks:
    """Rows picked so far, and which others may be: not the labelled ones, nor near-duplicates of any of them."""

    def __init__(self, graph: ImageGraph, labels: Tensor) -> None:
        self.unit, self.rows = graph.rows, list[int]()
        self.unlabelled = labels == NO_LABEL
        self.free = self.unlabelled.clone()
        for block in torch.split(self.unit[~self.unlabelled], BLOCK):
            self.free &= (self.unit @ block.T < COPY).all(dim=1)

    def take(self, row: int) -> None:
        self.rows.append(row)
        self.free &= self.unit @ self.unit[row] < COPY
        self.free[row] = self.unlabelled[row] = False

    def allow_copies(self) -> None:
        """When nothing else is left."""
        self.free = self.unlabelled.clone()


Chooser = Callable[[ImageGraph, int, Tensor, torch.Generator], Tensor]
CHOOSERS: Table[Chooser] = Table(
    "way", {"coverage": coverage, "typical": typical, "maxherding": max_herding, "random": random_rows}
)
