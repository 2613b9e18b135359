"""What a sample's features hold: neighbours, maps in two dimensions, spectra, duplicates, a probe's confusion."""

import warnings
from dataclasses import dataclass
from inspect import signature

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.diagnostics import cluster_count, duplicate_share, spectrum
from eigenview.diagnostics.clusters import ClusterCount
from eigenview.errors import EigenviewError
from eigenview.evaluation import fit_logistic
from eigenview.evaluation.features import column_statistics
from eigenview.extras import optional_module
from eigenview.graph.laplacian import neighbour_graph, spectral_embedding
from eigenview.graph.nearest import nearest
from eigenview.graph.principal import principal_directions
from eigenview.runs import Sample

NEIGHBOURS = 10
PROBED, FOLDS, INVERSE_PENALTY = 5000, 5, 0.01
TSNE_POINTS = 5000  # beyond, scikit-learn's t-SNE takes minutes
KEPT_DIRECTIONS = 50  # principal directions that t-SNE works on
SHOWN_VALUES = 512  # singular values of a curve

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Projection:
    """The sample on a plane."""

    name: str
    note: str  # how it was made, for the reader
    places: Floats  # (n, 2)


@dataclass(frozen=True)
class Confusion:
    """How often each class (row) was read as each (column), by classifiers that had not seen the item."""

    counts: Ints  # (K, K)
    classes: tuple[str, ...]
    items: int

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.counts) / self.counts.sum())


@dataclass(frozen=True)
class Structure:
    """Everything the report computes from one sample. What could not be computed is empty or None."""

    neighbours: Ints  # (n, k), the nearest first
    cosines: Floats  # (n, k)
    projections: tuple[Projection, ...]
    spectra: tuple[tuple[str, tuple[float, ...]], ...]  # (name, singular values around the mean, σ/σ₁)
    laplacian: ClusterCount | None
    duplicates: tuple[tuple[int, int, float], ...]  # rows and their cosine, the closest first
    confusion: Confusion | None


def structure_of(sample: Sample) -> Structure:
    """The structure of a sample, by cosine of its features. Repeats itself: every random choice is seeded."""
    features = torch.from_numpy(np.asarray(sample.features, dtype=np.float32))
    near = nearest(features, features, k=min(NEIGHBOURS, len(features) - 1), excludes_self=True)
    index = near.index.numpy()
    return Structure(
        neighbours=index,
        cosines=near.similarity.double().numpy(),
        projections=projections(features, index, seed=sample.seed),
        spectra=spectra(sample),
        laplacian=_laplacian(features, sample.seed),
        duplicates=_duplicates(features, sample.seed),
        confusion=confusion(features, sample),
    )


def outline_of(sample: Sample) -> Structure:
    """Spectra alone, for comparisons: no neighbours, maps, duplicates or confusion."""
    features = torch.from_numpy(np.asarray(sample.features, dtype=np.float32))
    nothing = np.zeros((0, 0))
    laplacian = _laplacian(features, sample.seed)
    return Structure(nothing.astype(np.int64), nothing, (), spectra(sample), laplacian, (), None)


def projections(features: Tensor, neighbours: Ints, *, seed: int) -> tuple[Projection, ...]:
    """Maps of the sample, the best for looking at first: UMAP if installed, or t-SNE; spectral embedding; PCA."""
    unit = normalize(features.double(), dim=1)
    principal = _principal(unit, min(KEPT_DIRECTIONS, *unit.shape))
    maps = [*_neighbourhood_map(unit, principal, seed), _spectral_map(neighbours)]
    maps.append(Projection("PCA", "the two widest directions; distances are true within this plane", principal[:, :2]))
    return tuple(maps)


def first_projection(features: Tensor, *, seed: int = 0, neighbours: Ints | None = None) -> Projection:
    """The map that is best for looking at; of more rows than t-SNE takes in seconds, the spectral one.

    ``neighbours`` (n, k) of each row, where they are known already.
    """
    unit = normalize(features.double(), dim=1)
    principal = _principal(unit, min(KEPT_DIRECTIONS, *unit.shape))
    for projection in _neighbourhood_map(unit, principal, seed):
        return projection
    if neighbours is None:
        neighbours = nearest(features, features, k=min(NEIGHBOURS, len(features) - 1), excludes_self=True).index.numpy()
    return _spectral_map(neighbours[:, :NEIGHBOURS])


def _neighbourhood_map(unit: Tensor, principal: Floats, seed: int) -> list[Projection]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # UMAP's, about its seed and threads
        if (library := optional_module("umap")) is not None:  # and one that works here
            made = library.UMAP(metric="cosine", random_state=seed, n_neighbors=min(15, len(unit) - 1))
            places: Floats = np.asarray(made.fit_transform(unit.float().numpy()), dtype=np.float64)
            return [Projection("UMAP", "neighbourhoods are kept, distances between groups are not", places)]
    if len(unit) > TSNE_POINTS:
        return []
    note = "neighbourhoods are kept; sizes of groups and distances between them mean little"
    return [Projection("t-SNE", note, _tsne(principal, seed))]


def _principal(unit: Tensor, count: int) -> Floats:
    centred = unit - unit.mean(dim=0)
    places: Floats = (centred @ principal_directions(centred, count)).float().numpy()
    return places if places.shape[1] > 1 else np.hstack([places, np.zeros_like(places)])


def _spectral_map(neighbours: Ints) -> Projection:
    """Random-walk eigenvectors on the graph of neighbours, and a faint ring through all points: islands of the graph
    stay joined, so that more than their membership shows.

    Loosely joined points reach far out and would leave one dot for all others: so coordinates are cut at their outer
    hundredths and drawn on an arcsinh scale, linear within the usual distance from the median.
    """
    ring = neighbour_graph(np.roll(np.arange(len(neighbours)), -1)[:, None])
    places: Floats = spectral_embedding(neighbour_graph(neighbours) + 1e-3 * ring, 2).numpy()
    low, high = np.quantile(places, [0.01, 0.99], axis=0)
    off = np.clip(places, low, high) - np.median(places, axis=0)
    usual = np.maximum(np.median(np.abs(off), axis=0), 1e-12)
    scaled = np.arcsinh(off / usual)
    note = "two eigenvectors of the neighbour graph's Laplacian, on an arcsinh scale"
    return Projection("spectral", note, scaled / np.maximum(np.ptp(scaled, axis=0), 1e-12))


def _tsne(principal: Floats, seed: int) -> Floats:
    """Barnes-Hut t-SNE, coarse and half as long as scikit-learn's default: a third of the time, as trustworthy."""
    from sklearn.manifold import TSNE

    start = principal[:, :2] / max(principal[:, 0].std(), 1e-12) * 1e-4  # as scikit-learn scales its own start
    steps = "max_iter" if "max_iter" in signature(TSNE).parameters else "n_iter"  # before scikit-learn 1.5
    perplexity = min(30.0, (len(principal) - 1) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, about its own defaults
        made = TSNE(
            init=start.astype(np.float32), perplexity=perplexity, angle=0.8, random_state=seed, n_jobs=1, **{steps: 500}
        )
        places: Floats = made.fit_transform(principal.astype(np.float32)).astype(np.float64)
    return places


def spectra(sample: Sample) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Singular values around the mean, as shares of the largest: before and after the head."""
    rows = {"features": sample.features, "projections": sample.first_view}
    curves = []
    for name, values in rows.items():
        if values is None:
            continue
        try:
            centred = spectrum(np.asarray(values, dtype=np.float32)).centred
        except EigenviewError:
            continue
        if float(centred[0]) > 0:
            shares = (centred / centred[0]).tolist()[:SHOWN_VALUES]
            curves.append((name, tuple(share for share in shares if share > 0)))
    return tuple(curves)


def _laplacian(features: Tensor, seed: int) -> ClusterCount | None:
    try:
        return cluster_count(features, seed=seed)
    except EigenviewError:
        return None


def _duplicates(features: Tensor, seed: int) -> tuple[tuple[int, int, float], ...]:
    try:
        duplicates = duplicate_share(features, anchors=len(features), seed=seed)
    except EigenviewError:
        return ()
    unit = normalize(features.double(), dim=1)
    pairs = [(int(a), int(b), float((unit[a] * unit[b]).sum().clamp_max(1))) for a, b in duplicates.pairs]
    return tuple(sorted(pairs, key=lambda pair: -pair[2]))


def confusion(features: Tensor, sample: Sample) -> Confusion | None:
    """A logistic regression on the sample's standardised features, five folds, each predicted by the other four.

    Classes with fewer items than folds are left out; None without labels, or with fewer than two classes.
    """
    from sklearn.model_selection import StratifiedKFold

    if sample.labels is None:
        return None
    labels = np.asarray(sample.labels)
    usual = [int(label) for label in np.unique(labels[labels >= 0]) if (labels == label).sum() >= FOLDS]
    rows = np.flatnonzero(np.isin(labels, usual))
    rows = np.sort(np.random.default_rng(sample.seed).permutation(rows)[:PROBED])
    kept = [label for label in usual if (labels[rows] == label).sum() >= FOLDS]
    rows = rows[np.isin(labels[rows], kept)]
    if len(kept) < 2:
        return None
    truth = np.searchsorted(kept, labels[rows])
    given = features[torch.from_numpy(rows)].double()
    mean, scale = column_statistics(given)
    given = (given - mean) / scale
    read = np.zeros_like(truth)
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=sample.seed).split(rows, truth):
        target = torch.from_numpy(truth[train])
        classifier = fit_logistic(given[train].float(), target, inverse_penalty=INVERSE_PENALTY, classes=len(kept))
        read[test] = classifier.predict(given[test].float()).numpy()
    counts = np.zeros((len(kept), len(kept)), dtype=np.int64)
    np.add.at(counts, (truth, read), 1)
    return Confusion(counts, tuple(class_name(sample, label) for label in kept), len(rows))


def class_name(sample: Sample, label: int) -> str:
    if label < 0:
        return "no label"
    if sample.classes is not None and label < len(sample.classes):
        return sample.classes[label]
    return f"class {label}"
