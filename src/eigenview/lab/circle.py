"""Encoders of two dimensions: embeddings on the circle S¹, where alignment and uniformity can be seen.

The experiment of Wang & Isola (2020), figure 3: distances of positive pairs, and the density of all embeddings and of
each class, by a Gaussian kernel in the plane and a von Mises-Fisher one on the angle θ = atan2(y, x).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import i0e
from torch import Tensor

from eigenview.errors import SettingError, ShapeError
from eigenview.lab.figures import COLOURS, panels
from eigenview.lab.images import ImageSet
from eigenview.lab.small_encoders import Classified, Judged, build_branch, fit, judged
from eigenview.losses import AlignUniformLoss, InfoNCE

OBJECTIVES = {"contrastive": InfoNCE(temperature=0.5), "align-uniform": AlignUniformLoss()}
KINDS = ("untrained", "supervised", *OBJECTIVES)
CONCENTRATION = 40.0  # κ of the angles' kernel: a width of about 1/√κ = 9 degrees; the paper names none
BANDWIDTH = 0.08  # of the plane's Gaussian kernel
ANGLES = 360  # at which densities are drawn
DISTANCES = 24  # bins of the histogram of positive pairs


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


def put_on_circle(images: ImageSet, kind: str, *, steps: int, seed: int = 0) -> Judged:
    """Train an encoder of two dimensions, and see where it puts the test images.

    ``supervised`` is a linear classifier on the circle, trained along; ``contrastive`` InfoNCE at temperature 0.5 as in
    the paper; ``align-uniform`` both metrics with weight 1 each. The paper's encoder is larger and its images CIFAR-10.
    """
    if kind not in KINDS:
        raise SettingError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    branch = build_branch(images, output=2, seed=seed)
    if kind != "untrained":
        objective = Classified(2, images.classes, seed=seed) if kind == "supervised" else OBJECTIVES[kind]
        fit(branch, images.random_pairs(seed=seed), objective, steps=steps)
    return judged(branch, images, seed=seed)


def circle_data(circle: Judged) -> dict[str, object]:
    """The numbers behind the figures, without the embeddings themselves."""
    counts, edges = np.histogram(circle.distances.numpy(), bins=DISTANCES, range=(0, 2))
    return {
        **circle.figures,
        "angles": _turn().tolist(),
        "density": _density(circle.embeddings).tolist(),
        "density_of_class": {str(label): _density(rows).tolist() for label, rows in _by_class(circle)},
        "distance_edges": edges.tolist(),
        "distance_counts": counts.tolist(),
    }


def draw_circle(results: Mapping[str, Judged]) -> Figure:
    """A row for each encoder: distances of positives, density in the plane, and of the angle, all and by class."""
    figure, axes = panels(len(results), 3, width=4.3, height=2.9)
    for row, (kind, circle) in enumerate(results.items()):
        left, middle, right = axes[3 * row : 3 * row + 3]
        left.hist(circle.distances.numpy(), bins=DISTANCES, range=(0, 2), color=COLOURS[0])
        left.axvline(float(circle.distances.mean()), color="black", linestyle=":", linewidth=1.2)
        left.set(title=f"{kind}: alignment {circle.alignment:.2f}", ylabel="test images")
        _draw_plane(middle, circle.embeddings)
        middle.set(title=f"uniformity {circle.uniformity:.2f}".replace("-", "−"), ylabel="y")
        _draw_angles(right, circle)
    for place, label in zip(axes[-3:], ("distance of positive pairs", "x", "angle θ"), strict=True):
        place.set_xlabel(label)
    figure.legend(*axes[2].get_legend_handles_labels(), title="class", loc="outside right upper")
    return figure


def draw_classes(results: Mapping[str, Judged]) -> Figure:
    """The density in the plane of each class alone: a row for each encoder, a column for each class."""
    rows = [(kind, list(_by_class(circle))) for kind, circle in results.items()]
    figure, axes = panels(len(rows), len(rows[0][1]), width=1.55, height=1.75)
    places = iter(axes)
    for kind, classes in rows:
        for label, embeddings in classes:
            place = next(places)
            _draw_plane(place, embeddings)
            place.set(xticks=[], yticks=[], title=f"class {label}" if kind == rows[0][0] else "")
            place.set_ylabel(kind if label == classes[0][0] else "", rotation=90)
    return figure


def _by_class(circle: Judged) -> Iterator[tuple[int, Tensor]]:
    return ((label, circle.embeddings[circle.labels == label]) for label in torch.unique(circle.labels).tolist())


def _turn() -> Tensor:
    return torch.linspace(-math.pi, math.pi, ANGLES, dtype=torch.float64)


def _density(embeddings: Tensor) -> Tensor:
    """Of the angles, at those of :func:`_turn`."""
    return angle_density(_turn(), angles(embeddings))


def _draw_plane(axes: Axes, embeddings: Tensor) -> None:
    side = torch.linspace(-1.4, 1.4, 90, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1).flatten(0, 1)
    density = plane_density(grid, embeddings).view(len(side), len(side))
    axes.imshow(density.numpy(), origin="lower", extent=(-1.4, 1.4, -1.4, 1.4), cmap="magma_r")
    axes.grid(False)
    axes.set_aspect("equal")


def _draw_angles(axes: Axes, circle: Judged) -> None:
    at, colours = _turn().numpy(), [*COLOURS, "#8C564B", "#17BECF"]
    for place, (label, rows) in enumerate(_by_class(circle)):
        axes.plot(at, _density(rows).numpy(), linewidth=1.1, color=colours[place % len(colours)], label=str(label))
    axes.fill_between(at, _density(circle.embeddings).numpy(), color="#BBBBBB", alpha=0.7, linewidth=0)
    axes.set_xticks([-math.pi, 0, math.pi], ["−π", "0", "π"])
    axes.set(title=f"linear accuracy {circle.linear:.0%}", ylabel="density (grey: all)")
