"""Encoders of two dimensions: embeddings on the circle S¹, where alignment and uniformity can be seen.

The experiment of Wang & Isola (2020), figure 3: distances of positive pairs, and the density of all embeddings and of
each class, by a Gaussian kernel in the plane and a von Mises-Fisher one on the angle θ = atan2(y, x).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from scipy.special import i0e
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.diagnostics import alignment_figure, uniformity_figure
from eigenview.errors import SettingError, ShapeError
from eigenview.lab.figures import COLOURS, panels
from eigenview.lab.small_encoders import (
    Classified,
    ImageSet,
    Objective,
    accuracies,
    build_branch,
    encoded,
    fit,
    fixed_views,
    held_out_pairs,
    random_pairs,
)
from eigenview.losses import align_uniform_loss, info_nce

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["untrained", "supervised", "contrastive", "align-uniform"]

KINDS: tuple[Kind, ...] = ("untrained", "supervised", "contrastive", "align-uniform")
CONCENTRATION = 40.0  # κ of the angles' kernel: a width of about 1/√κ = 9 degrees; the paper names none
BANDWIDTH = 0.08  # of the plane's Gaussian kernel
ANGLES = 360  # at which densities are drawn
DISTANCES = 24  # bins of the histogram of positive pairs


@dataclass(frozen=True)
class OnCircle:
    """One encoder's embeddings of the test images."""

    kind: Kind
    embeddings: Tensor  # (n, 2), unit: of the fixed view
    labels: Tensor  # (n,)
    distances: Tensor  # (n,) between two random views of an image
    alignment: float
    uniformity: float
    linear: float  # accuracy
    knn: float


def angles(embeddings: Tensor) -> Tensor:
    """θ = atan2(y, x) in (−π, π], of rows (n, 2)."""
    if embeddings.ndim != 2 or embeddings.shape[1] != 2 or not len(embeddings):
        raise ShapeError(f"embeddings on the circle are (n, 2), n >= 1; got {tuple(embeddings.shape)}")
    return torch.atan2(embeddings[:, 1], embeddings[:, 0])


def angle_density(at: Tensor, centres: Tensor, *, concentration: float = CONCENTRATION) -> Tensor:
    """Von Mises-Fisher density estimate f(θ) = (1/n) Σ_i exp(κ cos(θ − θ_i)) / (2π I₀(κ)). Float64.

    ``at`` (m,) and ``centres`` (n,) in radians. Periodic, and integrates to 1 over a turn; κ → 0 gives 1/2π everywhere.
    """
    if not 0 <= concentration < math.inf:
        raise SettingError(f"concentration must not be negative; got {concentration}")
    off = at.double()[:, None] - centres.double()[None]
    scale = 2 * math.pi * float(i0e(concentration))  # I₀(κ)·e^−κ: no overflow for any κ
    return (concentration * (off.cos() - 1)).exp().mean(dim=1) / scale


def plane_density(at: Tensor, centres: Tensor, *, bandwidth: float = BANDWIDTH) -> Tensor:
    """Gaussian density estimate in R²: (1/n) Σ_i exp(−‖x − z_i‖²/2h²) / (2πh²), at points ``at`` (m, 2). Float64."""
    if not bandwidth > 0:
        raise SettingError(f"bandwidth must be positive; got {bandwidth}")
    squared = torch.cdist(at.double(), centres.double()).square()
    return (-squared / (2 * bandwidth**2)).exp().mean(dim=1) / (2 * math.pi * bandwidth**2)


def put_on_circle(images: ImageSet, kind: Kind, *, steps: int, seed: int = 0) -> OnCircle:
    """Train an encoder of two dimensions, and see where it puts the test images.

    ``supervised`` is a linear classifier on the circle, trained along; ``contrastive`` InfoNCE at temperature 0.5 as in
    the paper; ``align-uniform`` both metrics with weight 1 each. The paper's encoder is larger and its images CIFAR-10.
    """
    if kind not in KINDS:
        raise SettingError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    branch = build_branch(images, output=2, seed=seed)
    if kind != "untrained":
        versions = 32 if images.is_tiny else None
        draw = random_pairs(images, batch=128, seed=seed, versions=versions)
        fit(branch, draw, _objective(kind, images.classes, seed), steps=steps)
    train, test = (normalize(encoded(branch, views), dim=1) for views in fixed_views(images))
    first, second = (normalize(encoded(branch, views), dim=1) for views in held_out_pairs(images, seed=seed))
    linear, knn = accuracies(train, images.train_labels, test, images.test_labels)
    return OnCircle(
        kind,
        embeddings=test,
        labels=images.test_labels,
        distances=(first - second).norm(dim=1),
        alignment=alignment_figure(first, second),
        uniformity=uniformity_figure(test).value,
        linear=linear,
        knn=knn,
    )


def _objective(kind: Kind, classes: int, seed: int) -> Objective:
    if kind == "supervised":
        return Classified(2, classes, seed=seed)
    if kind == "contrastive":
        return lambda x, y, labels: info_nce(x, y, temperature=0.5)
    return lambda x, y, labels: align_uniform_loss(x, y)


def circle_data(circle: OnCircle) -> dict[str, object]:
    """The numbers behind the figures, without the embeddings themselves."""
    at = _turn()
    theta = angles(circle.embeddings)
    counts, edges = np.histogram(circle.distances.numpy(), bins=DISTANCES, range=(0, 2))
    return {
        "alignment": circle.alignment,
        "uniformity": circle.uniformity,
        "linear": circle.linear,
        "knn": circle.knn,
        "angles": at.tolist(),
        "density": angle_density(at, theta).tolist(),
        "density_of_class": {
            str(label): angle_density(at, theta[circle.labels == label]).tolist()
            for label in torch.unique(circle.labels).tolist()
        },
        "distance_edges": edges.tolist(),
        "distance_counts": counts.tolist(),
    }


def draw_circle(results: list[OnCircle]) -> Figure:
    """A row for each encoder: distances of positives, density in the plane, and of the angle, all and by class."""
    figure, axes = panels(len(results), 3, width=4.3, height=2.9)
    for row, circle in enumerate(results):
        _draw_distances(axes[3 * row], circle)
        _draw_plane(axes[3 * row + 1], circle.embeddings)
        axes[3 * row + 1].set_title(f"uniformity {circle.uniformity:.2f}".replace("-", "−"))
        axes[3 * row + 1].set_ylabel("y")
        _draw_angles(axes[3 * row + 2], circle)
    for place in axes[-3:]:
        place.set_xlabel({axes[-3]: "distance of positive pairs", axes[-2]: "x"}.get(place, "angle θ"))
    lines, names = axes[2].get_legend_handles_labels()
    figure.legend(lines, names, title="class", loc="outside right upper")
    return figure


def draw_classes(results: list[OnCircle]) -> Figure:
    """The density in the plane of each class alone: a row for each encoder, a column for each class."""
    labels = torch.unique(results[0].labels).tolist()
    figure, axes = panels(len(results), len(labels), width=1.55, height=1.75)
    for row, circle in enumerate(results):
        for column, label in enumerate(labels):
            place = axes[row * len(labels) + column]
            _draw_plane(place, circle.embeddings[circle.labels == label])
            place.set_xticks([])
            place.set_yticks([])
            place.set_ylabel(circle.kind if column == 0 else "", rotation=90)
            if row == 0:
                place.set_title(f"class {label}")
    return figure


def _turn() -> Tensor:
    return torch.linspace(-math.pi, math.pi, ANGLES, dtype=torch.float64)


def _draw_distances(axes: Axes, circle: OnCircle) -> None:
    axes.hist(circle.distances.numpy(), bins=DISTANCES, range=(0, 2), color=COLOURS[0])
    axes.axvline(float(circle.distances.mean()), color="black", linestyle=":", linewidth=1.2)
    axes.set_title(f"{circle.kind}: alignment {circle.alignment:.2f}")
    axes.set_ylabel("test images")


def _draw_plane(axes: Axes, embeddings: Tensor) -> None:
    side = torch.linspace(-1.4, 1.4, 90, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1).flatten(0, 1)
    density = plane_density(grid, embeddings).view(len(side), len(side))
    axes.imshow(density.numpy(), origin="lower", extent=(-1.4, 1.4, -1.4, 1.4), cmap="magma_r")
    axes.grid(False)
    axes.set_aspect("equal")


def _draw_angles(axes: Axes, circle: OnCircle) -> None:
    theta, at = angles(circle.embeddings), _turn()
    colours = [*COLOURS, "#8C564B", "#17BECF"]
    for place, label in enumerate(torch.unique(circle.labels).tolist()):
        own = angle_density(at, theta[circle.labels == label])
        axes.plot(at.numpy(), own.numpy(), linewidth=1.1, color=colours[place % len(colours)], label=str(label))
    axes.fill_between(at.numpy(), angle_density(at, theta).numpy(), color="#BBBBBB", alpha=0.7, linewidth=0)
    axes.set_xticks([-math.pi, 0, math.pi], ["−π", "0", "π"])
    axes.set_title(f"linear accuracy {circle.linear:.0%}")
    axes.set_ylabel("density (grey: all)")
