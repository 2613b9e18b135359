"""The random walk, seen: where a walk on eight views of four images steps to, before and after training.

Moummad, Pasdeloup & Farrugia (2023) draw it as their figure 1: W_ij = exp(z_i·z_j/τ), W_ii = 0, P = D⁻¹W, and training
sends P_{i,i⁺} "toward 1". On the sphere it cannot get there at their τ = 1: see :func:`ceiling`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import SettingError, ShapeError
from eigenview.graph.laplacian import eigengap
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import interval, panels, written
from eigenview.lab.images import ImageSet, first_of_each, on_images
from eigenview.lab.small_encoders import build_branch, encoded, fit
from eigenview.losses import RandomWalkLaplacian

IMAGES = 4  # two views of each: the paper's eight
WIDTH = 64  # of the embeddings


WALKS = {  # the two forms of the loss, each with the temperature that it is used with
    "paper": RandomWalkLaplacian(form="absolute", temperature=1.0, reduction="mean"),
    "authors' code": RandomWalkLaplacian(form="squared", temperature=0.4, reduction="mean"),
}


def transition_matrix(first: Tensor, second: Tensor, *, temperature: float = 1.0) -> Tensor:
    """P = D⁻¹W with W_ij = exp(z_i·z_j/τ), W_ii = 0, over both views: (2n, 2n), rows sum to 1. Float64.

    ``first``, ``second`` (n, d) are put on the sphere. Views alternate, 1a 1b 2a 2b …, so that pairs make 2 × 2 blocks.
    """
    weights = similarity_graph(first, second, temperature=temperature)
    return weights / weights.sum(dim=1, keepdim=True)


def similarity_graph(first: Tensor, second: Tensor, *, temperature: float = 1.0) -> Tensor:
    """W of :func:`transition_matrix`: symmetric and positive but for its zero diagonal."""
    if first.shape != second.shape or first.ndim != 2 or len(first) < 2:
        shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise ShapeError(f"two views need the same (n, d) with n >= 2; got {shapes}")
    if not temperature > 0:
        raise SettingError(f"temperature must be positive; got {temperature}")
    rows = normalize(torch.stack([first, second], dim=1).flatten(0, 1).double(), dim=1)
    weights = (rows @ rows.T / temperature).exp()
    return weights - torch.diag(weights.diagonal())


def partner_probability(transitions: Tensor) -> Tensor:
    """P_{i,i⁺} (2n,) of views in the order of :func:`transition_matrix`."""
    place = torch.arange(len(transitions))
    return transitions[place, place ^ 1]


def ceiling(images: int, *, temperature: float = 1.0) -> float:
    """P_{i,i⁺} when both views of an image coincide and the images are a regular simplex: the most a batch can have.

    1/(1 + 2(m−1)·exp(−(1 + 1/(m−1))/τ)) for m images in at least m − 1 dimensions. Free embeddings, optimised, end
    there and not above. It falls as batches grow: at τ = 1 a walk on many views cannot know its partner.
    """
    if images < 2:
        raise SettingError(f"a walk needs at least 2 images; got {images}")
    others = images - 1
    return 1 / (1 + 2 * others * math.exp(-(1 + 1 / others) / temperature))


def run(settings: LabSettings) -> Outcome:
    """Both forms of the loss on the digits, and on CIFAR-10 where ``settings.data`` holds it."""
    return on_images(settings, lambda images: _look(images, settings))


def _look(images: ImageSet, settings: LabSettings) -> Outcome:
    pair = images.held_out_pairs(seed=settings.seed)
    four = first_of_each(images.test_labels, 1)[:IMAGES]
    seen: dict[str, dict[str, Any]] = {}
    shown = []
    steps = 20 if settings.is_quick else 400 if images.is_tiny else 160
    for name, walk in WALKS.items():
        branch, temperature = build_branch(images, output=WIDTH, seed=settings.seed), float(walk.temperature)
        seen[name] = {
            "form": walk.form,
            "temperature": temperature,
            "ceiling": ceiling(IMAGES, temperature=temperature),
            "chance": 1 / (2 * IMAGES - 1),
            "matrices": {},
        }
        for when in ("before", "after"):
            if when == "after":
                fit(branch, images.random_pairs(batch=64, seed=settings.seed), walk, steps=steps)
            first, second = (encoded(branch, views) for views in pair)
            matrix = transition_matrix(first[four], second[four], temperature=temperature)
            shown.append((f"{name}, τ = {temperature:g}: {when}", matrix))
            seen[name]["matrices"][when] = matrix.tolist()
            seen[name][when] = _groups(first, second, temperature)
    figure = _drawn(torch.stack([views[four] for views in pair], dim=1).flatten(0, 1), shown)
    return Outcome(seen, {images.figure: figure}, [_line(images.name, walk, figures) for walk, figures in seen.items()])


def _groups(first: Tensor, second: Tensor, temperature: float) -> dict[str, object]:
    """Over held-out groups of four images: P to the partner, and how often the eigengap counts four clusters."""
    count = len(first) // IMAGES
    graphs = [
        similarity_graph(first[start : start + IMAGES], second[start : start + IMAGES], temperature=temperature)
        for start in range(0, count * IMAGES, IMAGES)
    ]
    steps = [float(partner_probability(graph / graph.sum(dim=1, keepdim=True)).mean()) for graph in graphs]
    fours = [eigengap(graph, most=2 * IMAGES - 1).clusters == IMAGES for graph in graphs]
    return {"partner": interval(steps), "counts_four": sum(fours) / count, "groups": count}


def _line(name: str, walk: str, figures: dict[str, Any]) -> str:
    before, after = (
        f"{written(figures[when]['partner'])} {when} "
        f"(eigengap counts four clusters in {figures[when]['counts_four']:.0%} of groups)"
        for when in ("before", "after")
    )
    return (
        f"{name}, {walk} (τ = {figures['temperature']}): a step goes to the partner with probability {before}, "
        f"{after}; chance {figures['chance']:.3f}, the most possible on the sphere {figures['ceiling']:.3f}."
    )


def _drawn(views: Tensor, shown: Sequence[tuple[str, Tensor]]) -> Figure:
    """Heat maps of the transition matrices, a row for each form of the loss, with the views along the axes."""
    figure, axes = panels(len(shown) // 2, 2, width=5.2, height=4.9)
    for place, (title, matrix) in zip(axes, shown, strict=True):
        image = place.imshow(matrix.numpy(), vmin=0, vmax=1, cmap="viridis")
        place.set(title=title, xticks=[], yticks=[])
        place.grid(False)
        place.set_xlabel("to view", labelpad=34)
        place.set_ylabel("from view", labelpad=34)
        for (row, column), value in np.ndenumerate(matrix.numpy()):
            if row != column:
                ink = "white" if value < 0.6 else "black"
                place.text(column, row, f"{value:.2f}"[1:], ha="center", va="center", color=ink, fontsize=8)
        _thumbnails(place, views)
    figure.colorbar(image, ax=axes, shrink=0.6, label="probability of the step")
    return figure


def _thumbnails(axes: Axes, views: Tensor) -> None:
    """The views beside the rows and under the columns of a matrix."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    low, high = float(views.min()), float(views.max())
    size = 22 / views.shape[-1]
    for place, view in enumerate(views):
        pixels = ((view - low) / (high - low)).permute(1, 2, 0).squeeze(-1).numpy()
        for corner, shift, system in (
            ((place, 0.0), (0, -15), ("data", "axes fraction")),
            ((0.0, place), (-15, 0), ("axes fraction", "data")),
        ):
            picture = OffsetImage(pixels, zoom=size, cmap="gray", interpolation="nearest")
            style: dict[str, Any] = {"xycoords": system, "boxcoords": "offset points", "frameon": False, "pad": 0}
            axes.add_artist(AnnotationBbox(picture, corner, xybox=shift, **style))
