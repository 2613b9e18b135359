"""The augmentation graph of photographs: views are sampled, and a Gaussian of the pixels' distance lets them meet.

No two random views of different photographs are ever equal, so π of a sample is one island an image. Smoothed, an image
gives a sampled view x with A_σ(x|x̄) ∝ Σ_a exp(−‖x − a‖²/2σ²) over its own sampled views a: noise of width σ after the
augmentation, seen at the sampled views. σ → 0 gives the islands back, σ → ∞ makes all images alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from eigenview.errors import SettingError, ShapeError
from eigenview.evaluation import knn_predict
from eigenview.lab.agreement import clusters_of, leading_directions, rand_index
from eigenview.lab.images import ImageSet
from eigenview.lab.similarity import captured, linear_cka, shared_neighbours
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


def train_on(images: ImageSet, *, steps: int, seed: int = 0) -> tuple[nn.Module, nn.Module]:
    """(untrained, trained) encoders: the encoder ``small`` by the spectral contrastive loss, head of 64 dimensions."""
    untrained = build_branch(images, output=64, seed=seed)
    branch = build_branch(images, output=64, seed=seed)
    draw = images.random_pairs(batch=256, seed=seed)
    fit(branch, draw, SpectralContrastive(mu=10.0), steps=steps)
    return untrained.encoder, branch.encoder


@dataclass(frozen=True)
class AtBandwidth:
    """What the smoothed graph says at one bandwidth, and how far an encoder agrees with it."""

    bandwidth: float  # in units of the nearest stranger's distance
    components: int
    eigenvalues: tuple[float, ...]
    clusters_by_gap: int
    rand_index: float  # of ten spectral clusters of the images with the classes
    accuracy: float  # of 10-NN in the spectral embedding, leaving the image itself out
    agreement: dict[str, dict[str, float]]  # by encoder


def compare(
    sampled: SampledViews, graph: ViewGraph, encoders: dict[str, Tensor], bandwidth: float, *, seed: int = 0
) -> AtBandwidth:
    """``encoders``: features (V, d) of the sampled views by name."""
    spectrum = graph.spectrum(DIMENSIONS + 1)
    spectral = spectrum.embedding(DIMENSIONS)
    labels = sampled.labels[: len(torch.unique(sampled.image))]
    return AtBandwidth(
        bandwidth=bandwidth,
        components=int(graph.components().max()) + 1,
        eigenvalues=tuple(spectrum.eigenvalues.tolist()),
        clusters_by_gap=spectrum.clusters_by_gap(),
        rand_index=rand_index(spectrum.image_clusters(10, seed=seed), labels),
        accuracy=image_accuracy(_of_images(spectral, sampled.image), labels),
        agreement={name: agreement(rows, spectrum, spectral) for name, rows in encoders.items()},
    )


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
