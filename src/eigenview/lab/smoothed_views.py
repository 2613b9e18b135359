"""The augmentation graph of photographs: views are sampled, and a Gaussian of the pixels' distance lets them meet.

No two random views of different photographs are ever equal, so π of a sample is one island an image. Smoothed, an image
gives a sampled view x with A_σ(x|x̄) ∝ Σ_a exp(−‖x − a‖²/2σ²) over its own sampled views a: noise of width σ after the
augmentation, seen at the sampled views. σ → 0 gives the islands back, σ → ∞ makes all images alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from eigenview.errors import SettingError, ShapeError
from eigenview.evaluation import knn_predict
from eigenview.lab.experiment import Outcome
from eigenview.lab.figures import COLOURS, MARKERS, panels
from eigenview.lab.images import ImageSet
from eigenview.lab.similarity import (
    captured,
    clusters_of,
    leading_directions,
    linear_cka,
    rand_index,
    shared_neighbours,
)
from eigenview.lab.small_encoders import build_branch, encoded, fit
from eigenview.lab.view_graph import GraphSpectrum, ViewGraph
from eigenview.losses import SpectralContrastive
from eigenview.views import Views

BANDWIDTHS = (0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.5)  # × the median distance of a view to the nearest of another image
DIMENSIONS = 16  # of spectral embeddings
LEADING = 64  # principal directions of features that may explain them
NEIGHBOURS = 10
SMALLEST = 1e-12  # choices less likely than this are left out


@dataclass(frozen=True)
class SampledViews:
    """V views, the same number of each image."""

    views: Tensor  # (V, c, h, w), as an encoder takes them
    image: Tensor  # (V,), which image each shows
    labels: Tensor  # (V,), of the image

    @property
    def pixels(self) -> Tensor:
        return self.views.flatten(1)


def sample_views(images: ImageSet, *, items: int, pairs: int, seed: int = 0) -> SampledViews:
    """2·``pairs`` random views of each of the first ``items`` training images."""
    views, numbers = Views(images.recipe, seed=seed + 13), torch.arange(items)
    drawn = [view for epoch in range(pairs) for view in views(images.train[:items], numbers, epoch=epoch).views]
    image = numbers.repeat(len(drawn))
    return SampledViews(torch.cat(drawn), image, images.train_labels[image])


def squared_distances(rows: Tensor) -> Tensor:
    """‖x − y‖² of all rows (V, d), by one product; 0 on the diagonal."""
    off = rows - rows.mean(dim=0)
    length = off.square().sum(dim=1)
    squared = (length[:, None] + length - 2 * off @ off.T).clamp_min_(0)
    return squared.fill_diagonal_(0)


def nearest_stranger(squared: Tensor, image: Tensor) -> float:
    """The median over views of the distance to the nearest view of another image: the unit of bandwidths."""
    strangers = squared.masked_fill(image[:, None] == image, torch.inf)
    return float(strangers.amin(dim=1).sqrt().median())


def smoothed_graph(squared: Tensor, image: Tensor, bandwidth: float) -> ViewGraph:
    """The graph with A_σ(x|x̄) ∝ Σ_{a of x̄} exp(−‖x − a‖²/2σ²), σ = ``bandwidth``, from ‖·‖² (V, V) of the views."""
    if not bandwidth > 0:
        raise SettingError(f"bandwidth must be positive; got {bandwidth}")
    if squared.shape != (len(image), len(image)):
        raise ShapeError(f"distances must be ({len(image)}, {len(image)}), all views; got {tuple(squared.shape)}")
    kernel = (squared.double() / (-2 * bandwidth**2)).exp_()
    choices = torch.zeros(int(image.max()) + 1, len(image), dtype=torch.float64).index_add_(0, image, kernel)
    choices /= choices.sum(dim=1, keepdim=True)
    choices[choices < SMALLEST] = 0
    kept = sparse.csr_array((choices / choices.sum(dim=1, keepdim=True)).numpy())
    return ViewGraph(kept)


def compare(
    sampled: SampledViews, graph: ViewGraph, encoders: dict[str, Tensor], bandwidth: float, *, seed: int = 0
) -> dict[str, Any]:
    """What the smoothed graph says at one bandwidth, and how far encoders agree with it.

    ``encoders``: features (V, d) of the sampled views by name; ``bandwidth``: in units of the nearest stranger's.
    """
    spectrum = graph.spectrum(DIMENSIONS + 1)
    spectral = spectrum.embedding(DIMENSIONS)
    labels = sampled.labels[: len(torch.unique(sampled.image))]
    return {
        "bandwidth": bandwidth,
        "components": int(graph.components().max()) + 1,
        "eigenvalues": spectrum.eigenvalues.tolist(),
        "clusters_by_gap": spectrum.clusters_by_gap(),
        "rand_index": rand_index(spectrum.image_clusters(10, seed=seed), labels),  # of ten clusters with the classes
        "accuracy": image_accuracy(_of_images(spectral, sampled.image), labels),  # in the spectral embedding
        "agreement": {name: agreement(rows, spectrum, spectral) for name, rows in encoders.items()},
    }


def agreement(features: Tensor, spectrum: GraphSpectrum, spectral: Tensor) -> dict[str, float]:
    """CKA, explained share of the eigenfunctions and shared neighbours, of features and a spectral embedding.

    The share is what the ``LEADING`` principal directions of the features explain, so that wider ones gain nothing.
    """
    shares = captured(spectral, leading_directions(features, LEADING), weights=spectrum.weights)
    return {
        "cka": linear_cka(features, spectral, weights=spectrum.weights),
        "captured": float(shares.mean()),
        "neighbours": shared_neighbours(features, spectral.to(features.dtype), neighbours=NEIGHBOURS),
    }


def image_accuracy(rows: Tensor, labels: Tensor) -> float:
    """10-NN by cosine among the images themselves, each left out in turn."""
    predicted = knn_predict(rows, labels, rows, k=(NEIGHBOURS,), excludes_self=True)[NEIGHBOURS]
    return float((predicted == labels).double().mean())


def encoder_scores(features: Tensor, sampled: SampledViews, *, seed: int = 0) -> dict[str, float]:
    """Accuracy and clusters of features (V, d), averaged over each image's views."""
    rows = _of_images(features, sampled.image)
    labels = sampled.labels[: len(rows)]
    return {
        "accuracy": image_accuracy(rows, labels),
        "rand_index": rand_index(clusters_of(rows, 10, seed=seed), labels),
    }


def features_of(sampled: SampledViews, encoder: nn.Module | None) -> Tensor:
    """(V, 256) of an encoder, or (V, 192) the pixels themselves averaged to 8 × 8."""
    return adaptive_avg_pool2d(sampled.views, 8).flatten(1) if encoder is None else encoded(encoder, sampled.views)


def _of_images(rows: Tensor, image: Tensor) -> Tensor:
    """(n, d) the mean over each image's views, off the mean of all: directions are taken from it."""
    count = int(image.max()) + 1
    means = torch.zeros(count, rows.shape[1], dtype=rows.dtype).index_add_(0, image, rows)
    means = means / torch.bincount(image).to(rows.dtype)[:, None]
    off: Tensor = means - means.mean(dim=0)
    return torch.where(off.norm(dim=1, keepdim=True) > 0, off, torch.full_like(off, float(np.finfo(np.float32).eps)))


def look_at_photographs(images: ImageSet, *, seed: int) -> Outcome:
    """The smoothed graph of sampled views at every bandwidth, against an encoder trained on such views.

    The encoder ``small`` by the spectral contrastive loss, head of 64 dimensions; and the same untrained.
    """
    sampled = sample_views(images, items=1000, pairs=2, seed=seed)
    squared = squared_distances(sampled.pixels)
    unit = nearest_stranger(squared, sampled.image)
    untrained, branch = (build_branch(images, output=64, seed=seed) for _ in range(2))
    fit(branch, images.random_pairs(batch=256, seed=seed), SpectralContrastive(mu=10.0), steps=120)
    encoders = {"pixels": None, "untrained": untrained.encoder, "trained": branch.encoder}
    features = {name: features_of(sampled, encoder) for name, encoder in encoders.items()}
    bandwidths = [
        compare(sampled, smoothed_graph(squared, sampled.image, share * unit), features, share, seed=seed)
        for share in BANDWIDTHS
    ]
    smoothed = {
        "unit": unit,
        "views": len(sampled.image),
        "images": 1000,
        "encoders": {name: encoder_scores(rows, sampled) for name, rows in features.items()},
        "bandwidths": bandwidths,
    }
    return Outcome(smoothed, {images.figure: _figure(smoothed)}, _lines(smoothed))


def _lines(smoothed: dict[str, Any]) -> list[str]:
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


def _figure(data: Mapping[str, Any]) -> Figure:
    """Spectra, agreement with the encoders, and accuracy, along the bandwidths."""
    figure, (spectra, agreement, accuracy) = panels(1, 3, width=5.1, height=4.2)
    rows = data["bandwidths"]
    shares = [row["bandwidth"] for row in rows]
    for row, colour in zip(rows, COLOURS, strict=False):
        draw_spectrum(spectra, row["eigenvalues"], marker="o", markersize=3, color=colour, label=row["bandwidth"])
    spectra.set_title("eigenvalues by bandwidth")
    spectra.legend(title="σ / nearest stranger", title_fontsize=9, fontsize=8.5, ncols=2, loc="best")
    for (name, encoder), colour, marker in zip(data["encoders"].items(), COLOURS, MARKERS, strict=False):
        names = {"cka": f"{name}: CKA", "captured": "explained R²", "neighbours": "shared neighbours"}
        for (key, label), line in zip(names.items(), ("-", "--", ":"), strict=True):
            values = [row["agreement"][name][key] for row in rows]
            agreement.plot(shares, values, line, marker=marker, color=colour, label=label)
        accuracy.axhline(encoder["accuracy"], color=colour, linestyle="--", label=name)
    agreement.set(title="agreement with the spectral embedding", ylim=(0, 1.35))
    agreement.legend(fontsize=7.5, ncols=3, loc="upper center")
    values = [row["accuracy"] for row in rows]
    accuracy.plot(shares, values, marker="o", color=COLOURS[6], label="spectral embedding of the graph")
    accuracy.axhline(0.1, color="black", linestyle=":", linewidth=1, label="chance")
    accuracy.set(title="10-NN accuracy of images", ylim=(0.05, 0.6))
    accuracy.legend(loc="upper left")
    for place in (agreement, accuracy):
        place.set(xscale="log", xlabel="bandwidth σ / nearest stranger's distance")
        place.set_xticks(shares, [f"{share:g}" for share in shares])
        place.minorticks_off()
    return figure


def draw_spectrum(axes: Axes, eigenvalues: Sequence[float], **style: Any) -> None:
    axes.plot(range(1, len(eigenvalues) + 1), eigenvalues, **style)
    axes.set(xlabel="number", ylabel="eigenvalue of the normalised Laplacian")
