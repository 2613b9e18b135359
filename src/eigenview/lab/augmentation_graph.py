"""The augmentation graph of real data, its spectral embedding, and what encoders trained on its pairs learn.

Digits with finitely many coarse views, where the graph is exact (:mod:`eigenview.lab.finite_views`); CIFAR-10 with
sampled views and Gaussian smoothing (:mod:`eigenview.lab.smoothed_views`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from eigenview.lab.agreement import Interval, clusters_of, interval, rand_index, written
from eigenview.lab.augmentation_figures import draw_bandwidths, draw_digits
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.finite_views import FiniteViews, digit_views
from eigenview.lab.images import ImageSet, on_images
from eigenview.lab.similarity import captured, linear_cka, shared_neighbours
from eigenview.lab.small_encoders import encoded, fit
from eigenview.lab.smoothed_views import (
    BANDWIDTHS,
    compare,
    encoder_scores,
    features_of,
    nearest_stranger,
    sample_views,
    smoothed_graph,
    squared_distances,
    train_on,
)
from eigenview.lab.view_graph import GraphSpectrum, ViewGraph, population_loss
from eigenview.losses import InfoNCE, SpectralContrastive
from eigenview.nn import MLP

DIMENSIONS = 16  # of the encoders; the constant function and 15 more
OBJECTIVES = {
    "spectral": SpectralContrastive(mu=1e4),  # a ball so large that nothing reaches its edge: the loss of the theorem
    "InfoNCE": InfoNCE(temperature=0.5),
}
COARSENESS = ((8, 17), (8, 2), (4, 5), (4, 4), (4, 3), (4, 2), (2, 5), (2, 3))  # side, levels
MAIN = (4, 2)
EIGENVALUES = 31
CLASSES = 10


@dataclass(frozen=True)
class Learned:
    """What an encoder of the patterns shares with the spectral embedding; everything weighted as views are drawn."""

    cka: float
    captured: tuple[float, ...]  # of each eigenfunction, R² of a linear map of the encoder's output
    neighbours: float  # shared ten nearest of the images
    rand_index: float  # of ten clusters of the images with their classes
    rand_index_with_graph: float  # … with the ten spectral clusters
    loss: float  # the spectral contrastive loss over all pairs


def learn(views: FiniteViews, graph: ViewGraph, name: str, *, steps: int, seed: int) -> Tensor:
    """(V, 16) what an encoder makes of every pattern: an MLP of the squares, trained on pairs drawn from π.

    ``spectral`` by the spectral contrastive loss, ``InfoNCE`` at temperature 0.5, ``untrained`` not at all; ``pixels``
    are the patterns themselves, ``free`` the exact minimiser, without an encoder.
    """
    if name == "pixels":
        return views.patterns
    if name == "free":
        spectrum = graph.spectrum(DIMENSIONS)
        return spectrum.functions * (1 - spectrum.eigenvalues).clamp_min(0).sqrt()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = nn.Sequential(MLP(views.patterns.shape[1], 256, 256), nn.ReLU(), MLP(256, DIMENSIONS))
    if name in OBJECTIVES:
        fit(encoder, views.pairs(batch=512, seed=seed), OBJECTIVES[name], steps=steps)
    return encoded(encoder, views.patterns)


def judged(values: Tensor, views: FiniteViews, graph: ViewGraph, spectrum: GraphSpectrum, clusters: Tensor) -> Learned:
    """How far ``values`` (V, d) agree with the graph's spectral embedding, and both with the classes."""
    spectral = spectrum.embedding(DIMENSIONS - 1)
    rows, theirs = views.of_images(values.double()), views.of_images(spectral)
    own = clusters_of(rows - rows.mean(dim=0), CLASSES)
    return Learned(
        cka=linear_cka(values, spectral, weights=spectrum.weights),
        captured=tuple(captured(spectral, values, weights=spectrum.weights).tolist()),
        neighbours=shared_neighbours(rows - rows.mean(dim=0), theirs),
        rand_index=rand_index(own, views.labels),
        rand_index_with_graph=rand_index(own, clusters),
        loss=population_loss(values, graph),
    )


def coarseness(settings: LabSettings) -> list[dict[str, Any]]:
    """How the graph hangs together, and what its clusters are, from views as they are to very coarse ones."""
    rows = []
    for side, levels in COARSENESS[5:] if settings.is_quick else COARSENESS:
        views = digit_views(side=side, levels=levels, items=_items(settings))
        graph = views.graph()
        spectrum, component = graph.spectrum(min(EIGENVALUES, len(views.patterns))), graph.components()
        rows.append(
            {
                "side": side,
                "levels": levels,
                "patterns": len(views.patterns),
                "components": int(component.max()) + 1,
                "largest_component": float(np.bincount(component).max() / len(component)),
                "eigenvalues": spectrum.eigenvalues.tolist(),
                "clusters_by_gap": spectrum.clusters_by_gap(),
                "rand_index": rand_index(spectrum.image_clusters(CLASSES), views.labels),
            }
        )
    return rows


def planted_classes(settings: LabSettings) -> dict[str, Any]:
    """Graphs of some classes only: does the eigengap count them, and does spectral clustering tell them apart?"""
    generator = np.random.default_rng(settings.seed)
    rows: list[dict[str, Any]] = []
    for classes in (2, 3) if settings.is_quick else (2, 3, 4, 5):
        for _ in range(2 if settings.is_quick else 6):
            chosen = sorted(generator.choice(CLASSES, classes, replace=False).tolist())
            views = digit_views(side=MAIN[0], levels=MAIN[1], classes=chosen, items=_items(settings))
            spectrum = views.graph().spectrum(12)
            rows.append(
                {
                    "classes": chosen,
                    "counted": spectrum.clusters_by_gap(least=2),
                    "gap": float(spectrum.eigenvalues.diff()[classes - 1]),
                    "rand_index": rand_index(spectrum.image_clusters(classes), views.labels),
                }
            )
    agreed, gaps = ([row[key] for row in rows] for key in ("rand_index", "gap"))
    return {
        "graphs": rows,
        "counted_right": sum(len(row["classes"]) == row["counted"] for row in rows) / len(rows),
        "rand_index": interval(agreed),
        "gap_against_rand_index": float(spearmanr(gaps, agreed).statistic),
    }


def _items(settings: LabSettings) -> int:
    return 300 if settings.is_quick else 1797


def digits_part(settings: LabSettings) -> dict[str, Any]:
    """The exact graph at its main coarseness, and encoders of its patterns, several seeds each."""
    views = digit_views(side=MAIN[0], levels=MAIN[1], items=_items(settings))
    graph = views.graph()
    spectrum = graph.spectrum(EIGENVALUES)
    clusters = spectrum.image_clusters(CLASSES)
    steps, seeds = (60, 2) if settings.is_quick else (1000, 3)
    encoders = {}
    for name in ("pixels", "untrained", "InfoNCE", "spectral", "free"):
        count = 1 if name in ("pixels", "free") else seeds
        learned = [learn(views, graph, name, steps=steps, seed=settings.seed + seed) for seed in range(count)]
        encoders[name] = _over_seeds([judged(values, views, graph, spectrum, clusters) for values in learned])
    gamma = 1 - spectrum.eigenvalues[:DIMENSIONS]
    return {
        "coarseness": coarseness(settings),
        "planted": planted_classes(settings),
        "eigenvalues": spectrum.eigenvalues.tolist(),
        "rand_index_of_graph": rand_index(clusters, views.labels),
        "loss_floor": -float(gamma.square().sum()),
        "encoders": encoders,
    }


def _over_seeds(runs: Sequence[Learned]) -> dict[str, Any]:
    shares = torch.tensor([run.captured for run in runs], dtype=torch.float64)
    names = ("cka", "neighbours", "rand_index", "rand_index_with_graph", "loss")
    means = {name: _mean([getattr(run, name) for run in runs]) for name in names}
    return {**means, "captured": shares.mean(dim=0).tolist(), "captured_mean": _mean(shares.mean(dim=1).tolist())}


def _mean(values: list[float]) -> Interval:
    return interval(values) if len(values) > 1 else dict.fromkeys(("mean", "low", "high"), values[0])


def photographs_part(images: ImageSet, settings: LabSettings) -> dict[str, Any]:
    """The smoothed graph of sampled views at every bandwidth, against an encoder trained on such views."""
    sampled = sample_views(images, items=1000, pairs=2, seed=settings.seed)
    squared = squared_distances(sampled.pixels)
    unit = nearest_stranger(squared, sampled.image)
    untrained, trained = train_on(images, steps=120, seed=settings.seed)
    encoders = {"pixels": None, "untrained": untrained, "trained": trained}
    features = {name: features_of(sampled, encoder) for name, encoder in encoders.items()}
    bandwidths = [
        compare(sampled, smoothed_graph(squared, sampled.image, share * unit), features, share, seed=settings.seed)
        for share in BANDWIDTHS
    ]
    return {
        "unit": unit,
        "views": len(sampled.image),
        "images": 1000,
        "encoders": {name: encoder_scores(rows, sampled) for name, rows in features.items()},
        "bandwidths": [asdict(bandwidth) for bandwidth in bandwidths],
    }


def run(settings: LabSettings) -> Outcome:
    """The exact graph of the digits, and, where there is data, the smoothed one of CIFAR-10."""

    def look(images: ImageSet) -> Outcome:
        if images.is_tiny:
            exact = digits_part(settings)
            return Outcome(exact, {images.figure: draw_digits(exact)}, _digit_lines(exact))
        smoothed = photographs_part(images, settings)
        return Outcome(smoothed, {images.figure: draw_bandwidths(smoothed)}, _cifar_lines(smoothed))

    return on_images(settings, look)


def _digit_lines(exact: dict[str, Any]) -> list[str]:
    planted = exact["planted"]
    return [
        *(
            f"digits seen as {row['side']} × {row['side']} squares of {row['levels']} levels: {row['patterns']} "
            f"distinct views, {row['components']} components, the largest with {row['largest_component']:.0%} of the "
            f"images; ARI of ten spectral clusters with the classes {row['rand_index']:.2f}."
            for row in exact["coarseness"]
        ),
        *(
            f"digits, {name}: CKA with the spectral embedding {_said(encoder['cka'])}, eigenfunctions explained "
            f"{_said(encoder['captured_mean'])}, neighbours shared {_said(encoder['neighbours'])}, ARI with the "
            f"classes {_said(encoder['rand_index'])}, spectral loss {_said(encoder['loss'])} "
            f"(floor {exact['loss_floor']:.3f})."
            for name, encoder in exact["encoders"].items()
        ),
        f"digits of some classes: ARI of as many spectral clusters {_said(planted['rand_index'])}; the largest gap "
        f"after the first counts the classes in {planted['counted_right']:.0%} of {len(planted['graphs'])} graphs; the "
        f"gap after the true number and the ARI have a rank correlation of {planted['gap_against_rand_index']:.2f}.",
    ]


def _cifar_lines(smoothed: dict[str, Any]) -> list[str]:
    lines = [
        f"CIFAR-10, {name}: 10-NN {encoder['accuracy']:.3f}, ARI {encoder['rand_index']:.3f}."
        for name, encoder in smoothed["encoders"].items()
    ]
    for row in smoothed["bandwidths"]:
        said = [f"{name} {encoder['cka']:.2f}, {encoder['captured']:.2f}" for name, encoder in row["agreement"].items()]
        lines.append(
            f"CIFAR-10, σ = {row['bandwidth']} nearest strangers: {row['components']} components, "
            f"{row['clusters_by_gap']} clusters by the gap, 10-NN of the spectral embedding {row['accuracy']:.3f}, ARI "
            f"{row['rand_index']:.3f}; CKA and eigenfunctions explained: {'; '.join(said)}."
        )
    return lines


def _said(interval: Interval) -> str:
    """Without ends where there is but one value."""
    return written(interval) if interval["low"] < interval["high"] else f"{interval['mean']:.3f}"
