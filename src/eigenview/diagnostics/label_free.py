"""Which encoder is better, without labels: measures of a table of features, and how far each was found to be right."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.cluster.hierarchy import single
from scipy.spatial.distance import pdist
from torch import Tensor

from eigenview.diagnostics.clusters import cluster_count
from eigenview.diagnostics.dimensions import rank_of, spectrum
from eigenview.diagnostics.neighbours import neighbourhood_preservation
from eigenview.diagnostics.rows import Embeddings, open_rows, sampled_rows
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.names import Table

RIDGE = 1e-4  # of the mean variance within images, added to it: LiDAR's δ, without units
TREE_ROWS, TREE_SIZES = 2000, 4  # of the largest spanning tree; how many, each half as large as the one before
FEWEST = 20  # rows of a spanning tree
KEPT = 10  # neighbours that two views should share


@dataclass(frozen=True)
class LabelFree:
    """What is measured of (n, d) features, and of several views of some images. None: there were no views."""

    rank_me: float
    alpha_req: float  # NaN where fewer than two directions vary
    intrinsic_dimension: float  # NaN where all rows are the same
    modularity: float  # of the groups that the graph of neighbours has
    agreement: float  # of two halves of the rows, clustered apart
    lidar: float | None = None
    neighbours_kept: float | None = None


@dataclass(frozen=True)
class Measure:
    """``field`` of :class:`LabelFree`; ``sign``: 1 where more is better, −1 where less is, 0 where near 1 is."""

    field: str
    sign: int
    rule: str

    def score(self, measured: LabelFree) -> float:
        """Higher is better; NaN where there is none."""
        value: float | None = getattr(measured, self.field)
        if value is None:
            return math.nan
        return -abs(value - 1) if self.sign == 0 else self.sign * value


MEASURES: Table[Measure] = Table(
    "measure",
    {
        "LiDAR": Measure("lidar", 1, "more is better"),
        "RankMe": Measure("rank_me", 1, "more is better"),
        "α-ReQ": Measure("alpha_req", 0, "near 1 is better"),
        "IdEst": Measure("intrinsic_dimension", -1, "less is better"),
        "neighbours kept": Measure("neighbours_kept", 1, "more is better"),
        "modularity": Measure("modularity", 1, "more is better"),
        "agreement": Measure("agreement", 1, "more is better"),
    },
)


MEASURED_ON = "37 short runs and encoders on CIFAR-10"  # benchmarks/label_free.py; the table is in docs/clusters.md
WORTH = {  # Spearman's correlation with 20-NN accuracy there
    "LiDAR": -0.10,
    "RankMe": 0.24,
    "α-ReQ": 0.24,
    "IdEst": 0.0,
    "neighbours kept": 0.88,
    "modularity": -0.38,
    "agreement": -0.47,
}


class Ranked(dict[str, LabelFree]):
    """The measures of several encoders, by name."""

    @property
    def best(self) -> str:
        """Which is probably the best, by the measure :attr:`by`."""
        return best_by(self)[0]

    @property
    def by(self) -> str:
        """The measure worth most that all of them have."""
        return best_by(self)[1]

    @property
    def worth(self) -> Mapping[str, float]:
        """Of each measure: how far it was found to be right, 1 always, 0 as a guess is."""
        return WORTH


def best_by(measured: Mapping[str, LabelFree]) -> tuple[str, str]:
    """Which of several is probably best, and the measure that says so: the one worth most that all of them have."""
    if not measured:
        raise SettingError("there is nothing to compare; give at least one encoder")
    for title in sorted(MEASURES, key=lambda title: -WORTH[title]):
        scores = {name: MEASURES[title].score(figures) for name, figures in measured.items()}
        if not any(math.isnan(score) for score in scores.values()):
            return max(scores, key=lambda name: scores[name]), title
    raise DataError("no measure is there for all of these: some of them do not vary at all")


def label_free(features: Embeddings, views: Tensor | None = None, *, seed: int = 0) -> LabelFree:
    """All measures of ``features`` (n, d), and of ``views`` (v, m, d) of m images where there are some."""
    rows = open_rows(features, least=FEWEST, directions=False)
    shape = spectrum(rows)
    count = cluster_count(rows, seed=seed)
    return LabelFree(
        rank_me=shape.effective_rank(),
        alpha_req=shape.decay(),
        intrinsic_dimension=tree_dimension(rows, seed=seed),
        modularity=count.modularity or 0.0,
        agreement=count.agreement or 0.0,
        lidar=None if views is None else lidar(views),
        neighbours_kept=None if views is None else _kept(views),
    )


def lidar(views: Tensor) -> float:
    """Effective rank of S_w^-½ S_b S_w^-½, images as classes and their views as samples (Thilak et al. 2023).

    ``views`` (v, n, d): v views of n images, two or more of both. S_b is the covariance of the images' means, S_w the
    mean covariance of an image's views around their mean, to which 10⁻⁴ of its own mean variance is added on the
    diagonal (the paper adds 10⁻⁴ as it is, which depends on the features' scale). Between 1 and min(n − 1, d); 0 where
    all images are the same.
    """
    if views.ndim != 3 or min(views.shape[:2]) < 2:
        raise ShapeError(f"LiDAR needs two or more views of two or more images, (v, n, d); got {tuple(views.shape)}")
    rows = views.detach().double().cpu()
    if not bool(rows.isfinite().all()):
        raise DataError("LiDAR needs finite views; there is NaN or Inf in them")
    means = rows.mean(dim=0)
    around, within = means - means.mean(dim=0), (rows - means).flatten(0, 1)
    between, inside = around.T @ around / len(around), within.T @ within / len(within)
    ridge = max(RIDGE * float(inside.diagonal().mean()), torch.finfo(torch.float64).tiny ** 0.5)
    values, vectors = torch.linalg.eigh(inside)
    scaled = vectors / (values.clamp_min(0) + ridge).sqrt()
    return rank_of(torch.linalg.eigvalsh(scaled.T @ between @ scaled).clamp_min(0))


def tree_dimension(embeddings: Embeddings, *, seed: int = 0) -> float:
    """IdEst: d = 1/(1 − m), m the slope of ln(length of the minimum spanning tree) on ln n.

    Of unit rows, by trees of n, n/2, n/4 and n/8 rows (n at most 2,000), drawn one within the other. NaN where a tree
    has no length; infinity where the length grows as fast as the number of rows.
    """
    rows = open_rows(embeddings, least=FEWEST, directions=False)
    taken = rows.take(sampled_rows(rows.n, TREE_ROWS, seed)).double().cpu()
    taken = taken[torch.randperm(len(taken), generator=torch.Generator().manual_seed(seed))]
    unit = torch.nn.functional.normalize(taken, dim=1)
    sizes = [len(unit) >> place for place in range(TREE_SIZES) if len(unit) >> place >= FEWEST // 2]
    lengths = [spanning_tree_length(unit[:size]) for size in sizes]
    if min(lengths) <= 0:
        return math.nan
    slope = float(np.polyfit(np.log(sizes), np.log(lengths), 1)[0])
    return math.inf if slope >= 1 else 1 / (1 - slope)


def spanning_tree_length(rows: Tensor) -> float:
    """The sum of the edges of the minimum spanning tree of (n, d) rows, along which single linkage joins them."""
    return float(single(pdist(rows.numpy()))[:, 2].sum())


def _kept(views: Tensor) -> float:
    first, second = (open_rows(view, directions=False).centred() for view in views[:2])
    return neighbourhood_preservation(first, second, neighbours=min(KEPT, first.n - 1)).value
