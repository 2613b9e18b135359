"""The alignment-uniformity plane: the circle, the sweep between the two, and many encoders with their accuracy.

Wang & Isola (2020), figures 3, 5 and 7. The sweep trains (1 − λ)·alignment + λ·uniformity, α = t = 2. On the circle S¹,
with encoders of two dimensions, both can be seen: distances of positive pairs, and the density of all embeddings and of
each class, by a Gaussian kernel in the plane and a von Mises-Fisher one on the angle θ = atan2(y, x).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import i0e
from scipy.stats import spearmanr
from torch import Tensor, nn

from eigenview.errors import SettingError, ShapeError
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, Measure, curve, intervals, panels, written
from eigenview.lab.images import ImageSet, digits, on_images
from eigenview.lab.small_encoders import Classified, Judged, build_branch, fit, judged
from eigenview.losses import AlignUniformLoss, InfoNCE, uniformity_floor
from eigenview.names import Table

KINDS: Table[nn.Module | None] = Table(  # what an encoder learns by; the supervised one's depends on the classes
    "kind of encoder",
    {
        "untrained": None,
        "supervised": None,
        "contrastive": InfoNCE(temperature=0.5),
        "align-uniform": AlignUniformLoss(),
    },
)
CONCENTRATION = 40.0  # κ of the angles' kernel: a width of about 1/√κ = 9 degrees; the paper names none
BANDWIDTH = 0.08  # of the plane's Gaussian kernel
ANGLES = torch.linspace(-math.pi, math.pi, 360, dtype=torch.float64)  # at which densities are drawn
DISTANCES = 24  # bins of the histogram of positive pairs
WIDTH = 16  # of the embeddings in the plane
MEASURES = {
    "alignment": Measure("alignment"),
    "uniformity": Measure("uniformity"),
    "exp_uniformity": Measure("exp(uniformity)"),
    "linear": Measure("linear accuracy"),
    "knn": Measure("5-NN accuracy"),
}
SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)  # λ: of uniformity

Point = dict[str, Any]  # an encoder in the plane: objective, share λ (None outside the sweep), seed, Judged.figures
Curve = dict[str, Any]  # a share λ, and the interval over seeds of each measure


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
    objective = Classified(2, images.classes, seed=seed) if kind == "supervised" else KINDS.find(kind)
    branch = build_branch(images, output=2, seed=seed)
    if objective is not None:
        fit(branch, images.random_pairs(seed=seed), objective, steps=steps)
    return judged(branch, images, seed=seed)


def circle_data(circle: Judged) -> dict[str, object]:
    """The numbers behind the figures, without the embeddings themselves."""
    counts, edges = np.histogram(circle.distances.numpy(), bins=DISTANCES, range=(0, 2))
    return {
        **circle.figures,
        "angles": ANGLES.tolist(),
        "density": _density(circle.embeddings).tolist(),
        "density_of_class": {str(label): _density(rows).tolist() for label, rows in _by_class(circle)},
        "distance_edges": edges.tolist(),
        "distance_counts": counts.tolist(),
    }


def draw_circle(results: Mapping[str, Judged]) -> Figure:
    """A row for each encoder: distances of positives, density in the plane, and of the angle, all and by class."""
    at, (figure, axes) = ANGLES.numpy(), panels(len(results), 3, width=4.3, height=2.9)
    for row, (kind, circle) in enumerate(results.items()):
        left, middle, right = axes[3 * row : 3 * row + 3]
        left.hist(circle.distances.numpy(), bins=DISTANCES, range=(0, 2), color=COLOURS[0])
        left.axvline(float(circle.distances.mean()), color="black", linestyle=":", linewidth=1.2)
        left.set(title=f"{kind}: alignment {circle.alignment:.2f}", ylabel="test images")
        _draw_density(middle, circle.embeddings)
        middle.set(title=f"uniformity {circle.uniformity:.2f}".replace("-", "−"), ylabel="y")
        for place, (label, rows) in enumerate(_by_class(circle)):
            colour = (*COLOURS, "#8C564B", "#17BECF")[place % (len(COLOURS) + 2)]
            right.plot(at, _density(rows).numpy(), linewidth=1.1, color=colour, label=str(label))
        right.fill_between(at, _density(circle.embeddings).numpy(), color="#BBBBBB", alpha=0.7, linewidth=0)
        right.set_xticks([-math.pi, 0, math.pi], ["−π", "0", "π"])
        right.set(title=f"linear accuracy {circle.linear:.0%}", ylabel="density (grey: all)")
    for panel, axis in zip(axes[-3:], ("distance of positive pairs", "x", "angle θ"), strict=True):
        panel.set_xlabel(axis)
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
            _draw_density(place, embeddings)
            place.set(xticks=[], yticks=[], title=f"class {label}" if kind == rows[0][0] else "")
            place.set_ylabel(kind if label == classes[0][0] else "", rotation=90)
    return figure


def _by_class(circle: Judged) -> Iterator[tuple[int, Tensor]]:
    return ((label, circle.embeddings[circle.labels == label]) for label in torch.unique(circle.labels).tolist())


def _density(embeddings: Tensor) -> Tensor:
    """Of the angles, at ``ANGLES``."""
    return angle_density(ANGLES, angles(embeddings))


def _draw_density(axes: Axes, embeddings: Tensor) -> None:
    side = torch.linspace(-1.4, 1.4, 90, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1).flatten(0, 1)
    density = plane_density(grid, embeddings).view(len(side), len(side))
    axes.imshow(density.numpy(), origin="lower", extent=(-1.4, 1.4, -1.4, 1.4), cmap="magma_r")
    axes.grid(False)
    axes.set_aspect("equal")


def weighted(share: float) -> AlignUniformLoss:
    """(1 − λ)·alignment + λ·uniformity: 0 is alignment alone, 1 uniformity alone."""
    if not 0 <= share <= 1:
        raise SettingError(f"the share of uniformity lies in [0, 1]; got {share}")
    return AlignUniformLoss(align_weight=1 - share, uniform_weight=share)


def place(images: ImageSet, objective: nn.Module, name: str, *, steps: int, seed: int, share: float | None) -> Point:
    """Train an encoder by ``objective`` (``steps`` 0: leave it untrained) and find its place in the plane."""
    branch = build_branch(images, output=WIDTH, head="linear", seed=seed)
    if steps:
        fit(branch, images.random_pairs(seed=seed), objective, steps=steps)
    return {"objective": name, "share": share, "seed": seed, **judged(branch, images, seed=seed).figures}


def run(settings: LabSettings) -> Outcome:
    """The sweep and the scatter on the digits; the circle there and, where there is data, on CIFAR-10."""
    tiny, steps, seeds = digits(), *((20, 2) if settings.is_quick else (150, 4))
    shares = (0.0, 0.5, 1.0) if settings.is_quick else SHARES
    sweep = [
        place(tiny, weighted(share), "alignment + uniformity", steps=steps, seed=seed, share=share)
        for share in shares
        for seed in range(settings.seed, settings.seed + seeds)
    ]
    scatter = sweep + [
        place(tiny, objective, name, steps=0 if name == "untrained" else steps, seed=settings.seed, share=None)
        for name, objective in _others(settings)
    ]
    figures = [{**point, "exp_uniformity": math.exp(point["uniformity"])} for point in sweep]
    curves = [
        {"share": share, **intervals([each for each in figures if each["share"] == share], MEASURES)}
        for share in shares
    ]

    def look(images: ImageSet) -> Outcome:
        turns = 3 * steps if images.is_tiny else 120
        ring = {kind: put_on_circle(images, kind, steps=turns, seed=settings.seed) for kind in KINDS}
        lines = [
            f"{images.name} on the circle, {kind}: alignment {circle.alignment:.3f}, uniformity "
            f"{circle.uniformity:.3f} (floor {uniformity_floor(2):.3f}), linear accuracy {circle.linear:.3f}, "
            f"5-NN {circle.knn:.3f}."
            for kind, circle in ring.items()
        ]
        name = images.name.lower()
        figures = {f"circle-{name}": draw_circle(ring), f"classes-{name}": draw_classes(ring)}
        return Outcome({kind: circle_data(circle) for kind, circle in ring.items()}, figures, lines)

    circles = on_images(settings, look)
    data = {"sweep": curves, "encoders": scatter, "circle": circles.data}
    drawn = {"": _draw_plane(curves, scatter), **circles.figures}
    alignment, uniformity, accuracy = np.array([[p["alignment"], p["uniformity"], p["linear"]] for p in scatter]).T
    ranks = [spearmanr(values, accuracy).statistic for values in (alignment, uniformity, alignment + uniformity)]
    said = (
        f"digits, {len(scatter)} encoders: linear accuracy has a rank correlation of {ranks[0]:.2f} with alignment, "
        f"{ranks[1]:.2f} with uniformity and {ranks[2]:.2f} with their sum."
    )
    return Outcome(data, drawn, [*_sweep_lines(curves), said, *circles.lines])


def _others(settings: LabSettings) -> list[tuple[str, nn.Module]]:
    if settings.is_quick:
        return [("contrastive", InfoNCE(temperature=0.2))]
    more_even = [AlignUniformLoss(align_weight=0.0, contrastive_weight=1.0, temperature=at) for at in (0.2, 0.5, 1.0)]
    return [
        ("untrained", InfoNCE()),
        *(("contrastive", InfoNCE(temperature=at)) for at in (0.05, 0.1, 0.2, 0.5, 1.0, 3.0)),
        *(("contrastive + uniformity", objective) for objective in more_even),
    ]


def _sweep_lines(curves: Sequence[Curve]) -> list[str]:
    verdict = {2: "falls at both ends", 1: "falls clearly at one end only", 0: "does not clearly fall at the ends"}
    lines = []
    for name in ("linear", "knn"):
        best = max(curves, key=lambda curve: curve[name]["mean"])
        first, last = curves[0], curves[-1]
        falls = sum(end[name]["high"] < best[name]["low"] for end in (first, last))
        said = ", ".join(f"λ = {curve['share']}: {written(curve[name])}" for curve in (first, best, last))
        lines.append(f"digits: {MEASURES[name].title} {verdict[falls]} of the sweep ({said}).")
    return lines


def _draw_plane(curves: Sequence[Curve], scatter: Sequence[Point]) -> Figure:
    """Left the sweep, right all encoders in the plane, coloured by accuracy."""
    figure, (left, right) = panels(1, 2, width=6.2, height=4.6)
    for name, colour, marker in zip(("linear", "knn", "alignment", "exp_uniformity"), COLOURS, MARKERS, strict=False):
        shares, values = [each["share"] for each in curves], [each[name] for each in curves]
        curve(left, shares, values, colour, marker=marker, label=MEASURES[name].title)
    left.set(xlabel="share λ of uniformity (0: alignment alone, 1: uniformity alone)", ylim=(-0.05, 1.1))
    left.set_ylabel("accuracy, and the two metrics")
    left.legend(loc="center", bbox_to_anchor=(0.6, 0.45))
    style: dict[str, Any] = {"vmin": 0.5, "vmax": 1.0, "edgecolors": "black", "linewidths": 0.4, "s": 46}
    for kind, marker in zip(dict.fromkeys(point["objective"] for point in scatter), MARKERS, strict=False):
        own = [point for point in scatter if point["objective"] == kind]
        x, y, colours = ([point[key] for point in own] for key in ("uniformity", "alignment", "linear"))
        drawn = right.scatter(x, y, c=colours, marker=marker, label=kind, **style)
    right.axvline(uniformity_floor(WIDTH), color="black", linestyle=":", linewidth=1)
    right.set(xlabel="uniformity (dotted: its floor)", ylabel="alignment")
    right.legend(loc="upper right")
    figure.colorbar(drawn, ax=right, label="linear accuracy", extend="min")
    return figure
