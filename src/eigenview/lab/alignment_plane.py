"""The alignment-uniformity plane: the circle, the sweep between the two, and many encoders with their accuracy.

Wang & Isola (2020), figures 3, 5 and 7. The sweep trains (1 − λ)·alignment + λ·uniformity, α = t = 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import nn

from eigenview.errors import SettingError
from eigenview.lab.agreement import Measure, intervals, written
from eigenview.lab.circle import KINDS, circle_data, draw_circle, draw_classes, put_on_circle
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, curve, panels
from eigenview.lab.images import ImageSet, digits, on_images
from eigenview.lab.small_encoders import Judged, build_branch, fit, judged
from eigenview.losses import AlignUniformLoss, InfoNCE, uniformity_floor

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
    curves = [_curve(share, [point for point in sweep if point["share"] == share]) for share in shares]

    def look(images: ImageSet) -> Outcome:
        turns = 3 * steps if images.is_tiny else 120
        ring = {kind: put_on_circle(images, kind, steps=turns, seed=settings.seed) for kind in KINDS}
        lines = [_circle_line(images.name, kind, circle) for kind, circle in ring.items()]
        name = images.name.lower()
        figures = {f"circle-{name}": draw_circle(ring), f"classes-{name}": draw_classes(ring)}
        return Outcome({kind: circle_data(circle) for kind, circle in ring.items()}, figures, lines)

    circles = on_images(settings, look)
    data = {"sweep": curves, "encoders": scatter, "circle": circles.data}
    figures = {"": _draw_plane(curves, scatter), **circles.figures}
    return Outcome(data, figures, [*_sweep_lines(curves), _scatter_line(scatter), *circles.lines])


def _others(settings: LabSettings) -> list[tuple[str, nn.Module]]:
    if settings.is_quick:
        return [("contrastive", InfoNCE(temperature=0.2))]
    more_even = [AlignUniformLoss(align_weight=0.0, contrastive_weight=1.0, temperature=at) for at in (0.2, 0.5, 1.0)]
    return [
        ("untrained", InfoNCE()),
        *(("contrastive", InfoNCE(temperature=at)) for at in (0.05, 0.1, 0.2, 0.5, 1.0, 3.0)),
        *(("contrastive + uniformity", objective) for objective in more_even),
    ]


def _curve(share: float, points: Sequence[Point]) -> Curve:
    figures = [{**point, "exp_uniformity": math.exp(point["uniformity"])} for point in points]
    return {"share": share, **intervals(figures, MEASURES)}


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


def _scatter_line(scatter: Sequence[Point]) -> str:
    alignment, uniformity, accuracy = np.array([[p["alignment"], p["uniformity"], p["linear"]] for p in scatter]).T
    ranks = [spearmanr(values, accuracy).statistic for values in (alignment, uniformity, alignment + uniformity)]
    return (
        f"digits, {len(scatter)} encoders: linear accuracy has a rank correlation of {ranks[0]:.2f} with alignment, "
        f"{ranks[1]:.2f} with uniformity and {ranks[2]:.2f} with their sum."
    )


def _circle_line(name: str, kind: str, circle: Judged) -> str:
    return (
        f"{name} on the circle, {kind}: alignment {circle.alignment:.3f}, uniformity {circle.uniformity:.3f} "
        f"(floor {uniformity_floor(2):.3f}), linear accuracy {circle.linear:.3f}, 5-NN {circle.knn:.3f}."
    )


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
