"""The alignment-uniformity plane: the circle, the sweep between the two, and many encoders with their accuracy.

Wang & Isola (2020), figures 3, 5 and 7. The sweep trains (1 − λ)·alignment + λ·uniformity, α = t = 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr
from torch.nn.functional import normalize

from eigenview.diagnostics import alignment_figure, uniformity_figure
from eigenview.errors import SettingError
from eigenview.lab.agreement import interval
from eigenview.lab.circle import KINDS, OnCircle, circle_data, draw_circle, draw_classes, put_on_circle
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, band, panels
from eigenview.lab.small_encoders import (
    ImageSet,
    Objective,
    accuracies,
    build_branch,
    cifar10,
    digits,
    encoded,
    fit,
    fixed_views,
    held_out_pairs,
    random_pairs,
)
from eigenview.losses import align_uniform_loss, info_nce, uniformity_floor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 16  # of the embeddings in the plane
SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)  # λ: of uniformity


@dataclass(frozen=True)
class Point:
    """An encoder in the plane; everything on held-out images."""

    objective: str
    share: float | None  # λ, in the sweep
    seed: int
    alignment: float
    uniformity: float
    linear: float  # accuracy
    knn: float


def weighted(share: float) -> Objective:
    """(1 − λ)·alignment + λ·uniformity: 0 is alignment alone, 1 uniformity alone."""
    if not 0 <= share <= 1:
        raise SettingError(f"the share of uniformity lies in [0, 1]; got {share}")
    return lambda x, y, labels: align_uniform_loss(x, y, align_weight=1 - share, uniform_weight=share)


def contrast(temperature: float, uniform_weight: float = 0.0) -> Objective:
    """InfoNCE, perhaps with more uniformity than it has by itself."""
    if not uniform_weight:
        return lambda x, y, labels: info_nce(x, y, temperature=temperature)
    return lambda x, y, labels: align_uniform_loss(
        x,
        y,
        align_weight=0.0,
        uniform_weight=uniform_weight,
        contrastive_weight=1.0,
        temperature=temperature,
    )


def place(images: ImageSet, objective: Objective, name: str, *, steps: int, seed: int, share: float | None) -> Point:
    """Train an encoder by ``objective`` (``steps`` 0: leave it untrained) and find its place in the plane."""
    branch = build_branch(images, output=WIDTH, head="linear", seed=seed)
    if steps:
        fit(branch, random_pairs(images, seed=seed, versions=32), objective, steps=steps)
    train, test = (normalize(encoded(branch, views), dim=1) for views in fixed_views(images))
    first, second = (normalize(encoded(branch, views), dim=1) for views in held_out_pairs(images, seed=seed))
    linear, knn = accuracies(train, images.train_labels, test, images.test_labels)
    return Point(name, share, seed, alignment_figure(first, second), uniformity_figure(test).value, linear, knn)


def run(settings: LabSettings) -> Outcome:
    """The sweep and the scatter on the digits; the circle there and, where there is data, on CIFAR-10."""
    tiny = digits()
    steps, seeds = (20, 2) if settings.is_quick else (150, 4)
    shares = (0.0, 0.5, 1.0) if settings.is_quick else SHARES
    numbers = range(settings.seed, settings.seed + seeds)
    sweep = [
        place(tiny, weighted(share), "alignment + uniformity", steps=steps, seed=seed, share=share)
        for share in shares
        for seed in numbers
    ]
    scatter = sweep + [
        place(tiny, objective, name, steps=0 if name == "untrained" else steps, seed=seed, share=None)
        for name, objective in _others(settings)
        for seed in numbers[:1]
    ]
    curves = _curves(sweep)
    figures = {"": _draw_plane(curves, scatter)}
    rings = {tiny.name: [put_on_circle(tiny, kind, steps=3 * steps, seed=settings.seed) for kind in KINDS]}
    real = None if settings.is_quick else cifar10(settings.data, train=8_000, test=1_000, seed=settings.seed)
    if real is not None:
        rings[real.name] = [put_on_circle(real, kind, steps=120, seed=settings.seed) for kind in KINDS]
    for name, ring in rings.items():
        figures[f"circle-{name.lower()}"] = draw_circle(ring)
        figures[f"classes-{name.lower()}"] = draw_classes(ring)
    lines = [*_sweep_lines(curves), _scatter_line(scatter), *_circle_lines(rings)]
    if real is None:
        lines.append("CIFAR-10 was left out: no data folder with cifar10 in it was given, or the run was quick.")
    data = {
        "sweep": curves,
        "encoders": [asdict(point) for point in scatter],
        "circle": {name: {circle.kind: circle_data(circle) for circle in ring} for name, ring in rings.items()},
    }
    return Outcome(data, figures, lines)


def _others(settings: LabSettings) -> list[tuple[str, Objective]]:
    if settings.is_quick:
        return [("contrastive", contrast(0.2))]
    planned = [("untrained", contrast(0.2))]
    planned += [("contrastive", contrast(temperature)) for temperature in (0.05, 0.1, 0.2, 0.5, 1.0, 3.0)]
    return planned + [("contrastive + uniformity", contrast(temperature, 1.0)) for temperature in (0.2, 0.5, 1.0)]


def _curves(sweep: Sequence[Point]) -> list[dict[str, object]]:
    """For each λ, the means over seeds with their intervals."""
    shares = sorted({point.share for point in sweep if point.share is not None})
    readings: dict[str, Callable[[Point], float]] = {
        "alignment": lambda point: point.alignment,
        "uniformity": lambda point: point.uniformity,
        "exp_uniformity": lambda point: float(np.exp(point.uniformity)),
        "linear": lambda point: point.linear,
        "knn": lambda point: point.knn,
    }
    return [
        {
            "share": share,
            **{
                name: interval([read(point) for point in sweep if point.share == share])
                for name, read in readings.items()
            },
        }
        for share in shares
    ]


def _reading(curve: dict[str, object], name: str) -> dict[str, float]:
    reading = curve[name]
    assert isinstance(reading, dict)
    return reading


def _sweep_lines(curves: Sequence[dict[str, object]]) -> list[str]:
    lines = []
    for name, title in (("linear", "linear"), ("knn", "5-NN")):
        best = max(curves, key=lambda curve: _reading(curve, name)["mean"])
        ends = [curves[0], curves[-1]]
        falls = [_reading(end, name)["high"] < _reading(best, name)["low"] for end in ends]
        verdict = {2: "falls at both ends", 1: "falls clearly at one end only", 0: "does not clearly fall at the ends"}
        said = ", ".join(f"λ = {curve['share']}: {_said(_reading(curve, name))}" for curve in (ends[0], best, ends[1]))
        lines.append(f"digits: {title} accuracy {verdict[sum(falls)]} of the sweep ({said}).")
    return lines


def _said(reading: dict[str, float]) -> str:
    return f"{reading['mean']:.3f} [{reading['low']:.3f}, {reading['high']:.3f}]"


def _scatter_line(scatter: Sequence[Point]) -> str:
    both = [point.alignment + point.uniformity for point in scatter]
    accuracy = [point.linear for point in scatter]
    ranks = [
        float(spearmanr(values, accuracy).statistic)
        for values in ([point.alignment for point in scatter], [point.uniformity for point in scatter], both)
    ]
    return (
        f"digits, {len(scatter)} encoders: linear accuracy has a rank correlation of {ranks[0]:.2f} with alignment, "
        f"{ranks[1]:.2f} with uniformity and {ranks[2]:.2f} with their sum."
    )


def _circle_lines(rings: dict[str, list[OnCircle]]) -> list[str]:
    return [
        f"{name} on the circle, {circle.kind}: alignment {circle.alignment:.3f}, uniformity {circle.uniformity:.3f} "
        f"(floor {uniformity_floor(2):.3f}), linear accuracy {circle.linear:.3f}, 5-NN {circle.knn:.3f}."
        for name, ring in rings.items()
        for circle in ring
    ]


def _draw_plane(curves: Sequence[dict[str, object]], scatter: Sequence[Point]) -> Figure:
    """Left the sweep, right all encoders in the plane, coloured by accuracy."""
    figure, (left, right) = panels(1, 2, width=6.2, height=4.6)
    shares = [float(str(curve["share"])) for curve in curves]
    shown = {
        "linear": "linear accuracy",
        "knn": "5-NN accuracy",
        "alignment": "alignment",
        "exp_uniformity": "exp(uniformity)",
    }
    for number, (name, title) in enumerate(shown.items()):
        readings = [_reading(curve, name) for curve in curves]
        mean, low, high = ([reading[key] for reading in readings] for key in ("mean", "low", "high"))
        left.plot(shares, mean, marker=MARKERS[number], color=COLOURS[number], label=title)
        band(left, shares, low, high, COLOURS[number])
    left.set_xlabel("share λ of uniformity (0: alignment alone, 1: uniformity alone)")
    left.set_ylabel("accuracy, and the two metrics")
    left.set_ylim(-0.05, 1.1)
    left.legend(loc="center", bbox_to_anchor=(0.6, 0.45))
    kinds = list(dict.fromkeys(point.objective for point in scatter))
    for number, kind in enumerate(kinds):
        own = [point for point in scatter if point.objective == kind]
        drawn = right.scatter(
            [point.uniformity for point in own],
            [point.alignment for point in own],
            c=[point.linear for point in own],
            marker=MARKERS[number],
            vmin=0.5,
            vmax=1.0,
            cmap="viridis",
            edgecolors="black",
            linewidths=0.4,
            s=46,
            label=kind,
        )
    right.axvline(uniformity_floor(WIDTH), color="black", linestyle=":", linewidth=1)
    right.set_xlabel("uniformity (dotted: its floor)")
    right.set_ylabel("alignment")
    right.legend(loc="upper right")
    figure.colorbar(drawn, ax=right, label="linear accuracy", extend="min")
    return figure
