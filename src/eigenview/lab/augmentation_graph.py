"""The augmentation graph of real data, its spectral embedding, and what encoders trained on its pairs learn.

Digits with finitely many coarse views, where the graph is exact (:mod:`eigenview.lab.finite_views`); CIFAR-10 with
sampled views and Gaussian smoothing (:mod:`eigenview.lab.smoothed_views`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import Tensor, nn

from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, Interval, interval, panels, reach, written
from eigenview.lab.finite_views import FiniteViews, digit_views
from eigenview.lab.images import ImageSet, on_images
from eigenview.lab.similarity import captured, clusters_of, linear_cka, rand_index, shared_neighbours
from eigenview.lab.small_encoders import encoded, fit
from eigenview.lab.smoothed_views import draw_spectrum, look_at_photographs
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

Learned = dict[str, Any]  # what an encoder of the patterns shares with the spectral embedding


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
    """How far ``values`` (V, d) agree with the graph's spectral embedding, and both with the classes.

    Everything is weighted as views are drawn.
    """
    spectral = spectrum.embedding(DIMENSIONS - 1)
    rows, theirs = views.of_images(values.double()), views.of_images(spectral)
    own = clusters_of(rows - rows.mean(dim=0), CLASSES)
    return {
        "cka": linear_cka(values, spectral, weights=spectrum.weights),
        "captured": captured(spectral, values, weights=spectrum.weights).tolist(),  # R² of each eigenfunction
        "neighbours": shared_neighbours(rows - rows.mean(dim=0), theirs),  # ten nearest of the images
        "rand_index": rand_index(own, views.labels),  # of ten clusters of the images with their classes
        "rand_index_with_graph": rand_index(own, clusters),  # … with the ten spectral clusters
        "loss": population_loss(values, graph),  # the spectral contrastive loss over all pairs
    }


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
    shares = torch.tensor([run["captured"] for run in runs], dtype=torch.float64)
    means = {name: _mean([run[name] for run in runs]) for name in runs[0] if name != "captured"}
    return {**means, "captured": shares.mean(dim=0).tolist(), "captured_mean": _mean(shares.mean(dim=1).tolist())}


def _mean(values: list[float]) -> Interval:
    return interval(values) if len(values) > 1 else dict.fromkeys(("mean", "low", "high"), values[0])


def run(settings: LabSettings) -> Outcome:
    """The exact graph of the digits, and, where there is data, the smoothed one of CIFAR-10."""

    def look(images: ImageSet) -> Outcome:
        if images.is_tiny:
            exact = digits_part(settings)
            return Outcome(exact, {images.figure: _figure(exact)}, _digit_lines(exact))
        return look_at_photographs(images, seed=settings.seed)

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


def _said(interval: Interval) -> str:
    """Without ends where there is but one value."""
    return written(interval) if interval["low"] < interval["high"] else f"{interval['mean']:.3f}"


def _figure(data: Mapping[str, Any]) -> Figure:
    """Spectra by coarseness; what each encoder explains of each eigenfunction; agreement; classes against the gap."""
    figure, (spectra, shares, bars, planted) = panels(2, 2, width=6.2, height=4.3)
    for row, colour, marker in zip(data["coarseness"], COLOURS, MARKERS, strict=False):
        label = f"{row['side']} × {row['side']}, {row['levels']} levels; parts: {row['components']}"
        draw_spectrum(spectra, row["eigenvalues"], marker=marker, markersize=3.5, color=colour, label=label)
    spectra.set(title="exact graph: eigenvalues by coarseness of the views", ylim=(-0.03, 1.25))
    spectra.legend(fontsize=8, ncols=2, loc="upper center")

    encoders = data["encoders"]
    for (name, encoder), colour, marker in zip(encoders.items(), COLOURS, MARKERS, strict=False):
        own = encoder["captured"]
        shares.plot(range(2, len(own) + 2), own, marker=marker, color=colour, label=name)
    shares.set(title="eigenfunctions that a linear map of the encoder explains", ylabel="R²", ylim=(0, 1.05))
    shares.set_xlabel("eigenfunction (1 is constant)")
    shares.legend(loc="upper right", bbox_to_anchor=(1, 0.95))

    kinds = {
        "cka": "CKA",
        "neighbours": "shared neighbours",
        "rand_index_with_graph": "ARI with graph's clusters",
        "rand_index": "ARI with classes",
    }
    for number, (key, title) in enumerate(kinds.items()):
        values = [encoder[key] for encoder in encoders.values()]
        place, height = [index + (number - 1.5) * 0.2 for index in range(len(encoders))], [v["mean"] for v in values]
        style: dict[str, Any] = {"yerr": reach(values), "error_kw": {"lw": 0.9}, "color": COLOURS[number]}
        bars.bar(place, height, width=0.19, label=title, **style)
    bars.axhline(data["rand_index_of_graph"], color=COLOURS[3], linestyle=":", linewidth=1.4)
    bars.set_xticks(range(len(encoders)), list(encoders))
    bars.set(title="agreement with the spectral embedding (dotted: graph's ARI)", ylim=(0, 1.3))
    bars.legend(ncols=2, fontsize=8.5, loc="upper left")

    graphs = data["planted"]["graphs"]
    for classes, colour, marker in zip(sorted({len(row["classes"]) for row in graphs}), COLOURS, MARKERS, strict=False):
        own = [row for row in graphs if len(row["classes"]) == classes]
        gaps, agreed = [row["gap"] for row in own], [row["rand_index"] for row in own]
        planted.scatter(gaps, agreed, marker=marker, color=colour, s=40, label=f"{classes} classes")
    planted.set(title="graphs of some classes", xlabel="eigengap after as many eigenvalues as classes")
    planted.set(ylabel="ARI of spectral clusters with classes", ylim=(-0.05, 1.05))
    planted.legend(loc="lower right")
    return figure
