"""The role of the projection head: what features and embeddings are like on either side of it.

SimCLR (Chen et al. 2020) throws the head away: the loss asks its output to forget what the views change, and the
features before it need not. Here the same encoder is trained with no head, a linear one and an MLP, and every layer on
the way is measured: alignment, uniformity, effective rank, accuracy, and whether it still tells how a view was moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from eigenview.diagnostics import alignment_figure, effective_rank, uniformity_figure
from eigenview.errors import SettingError
from eigenview.lab.agreement import interval
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, panels
from eigenview.lab.small_encoders import (
    FEATURES,
    Branch,
    HeadKind,
    ImageSet,
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
from eigenview.losses import info_nce

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS: tuple[HeadKind, ...] = ("none", "linear", "mlp")
OUTPUT = 64  # width after a head
FEW = 5  # labels a class for classifiers of digits
FIGURES = {
    "linear": "linear accuracy",
    "knn": "5-NN accuracy",
    "shift": "accuracy of naming the shift",
    "alignment": "alignment (lower: views closer)",
    "uniformity": "uniformity (lower: more even)",
    "rank": "effective rank",
}
SHIFTS = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1))


@dataclass(frozen=True)
class Layer:
    """What is known of one layer of one trained encoder."""

    width: int
    linear: float
    knn: float
    shift: float  # accuracy of telling which of nine shifts a view has, chance 1/9
    alignment: float
    uniformity: float
    rank: float  # RankMe


def shifted(views: Tensor, down: int, right: int, *, step: int = 1) -> Tensor:
    """Views (n, c, h, w) moved by ``step`` times (``down``, ``right``) pixels; what enters repeats the border."""
    reach = step * max(abs(down), abs(right))
    if reach == 0:
        return views
    height, width = views.shape[2:]
    wide = pad(views, (reach, reach, reach, reach), mode="replicate")
    top, left = reach - step * down, reach - step * right
    return wide[:, :, top : top + height, left : left + width]


def layers_of(branch: Branch) -> dict[str, nn.Module]:
    """Modules from images to each layer: the features, and after each linear map of the head (before its ReLU)."""
    layers = list(branch.head.children())
    ends = [place + 1 for place, layer in enumerate(layers) if isinstance(layer, nn.Linear)]
    branches: dict[str, nn.Module] = {"features": branch.encoder}
    for number, end in enumerate(ends, start=1):
        name = "projection" if number == len(ends) else f"head layer {number}"
        branches[name] = nn.Sequential(branch.encoder, *layers[:end])
    return branches


def measure(layer: nn.Module, images: ImageSet, *, seed: int = 0) -> Layer:
    """All the figures of a layer: classifiers learn from training images, everything is measured on held-out ones.

    Digits are easy: there the classifiers get ``FEW`` labels a class, so that representations differ.
    """
    train, test = (encoded(layer, views) for views in fixed_views(images))
    first, second = (encoded(layer, views) for views in held_out_pairs(images, seed=seed))
    known = _few_of_each(images.train_labels) if images.is_tiny else torch.arange(len(train))
    labels = images.train_labels[known]
    linear, knn = accuracies(_scaled(train, train)[known], labels, _scaled(test, train), images.test_labels)
    both = torch.cat([first, second])
    return Layer(
        width=train.shape[1],
        linear=linear,
        knn=knn,
        shift=_shift_accuracy(layer, images),
        alignment=alignment_figure(first, second),
        uniformity=uniformity_figure(first).value,
        rank=effective_rank(both),
    )


def _few_of_each(labels: Tensor) -> Tensor:
    """The places of the first ``FEW`` items of each class."""
    return torch.cat([(labels == label).nonzero()[:FEW, 0] for label in torch.unique(labels)])


def _scaled(rows: Tensor, like: Tensor) -> Tensor:
    """Each column at mean 0 and deviation 1 of ``like``: layers differ in scale, and a penalty must not care."""
    deviation = like.std(dim=0)
    return (rows - like.mean(dim=0)) / torch.where(deviation > 1e-6, deviation, 1)


def _shift_accuracy(layer: nn.Module, images: ImageSet, *, items: int = 100) -> float:
    step = 1 if images.is_tiny else 4
    moved_sets = []
    for views in fixed_views(images):
        moved = [encoded(layer, shifted(views[:items], *shift, step=step)) for shift in SHIFTS]
        moved_sets.append((torch.cat(moved), torch.arange(len(SHIFTS)).repeat_interleave(len(moved[0]))))
    (train, train_shift), (test, test_shift) = moved_sets
    return accuracies(_scaled(train, train), train_shift, _scaled(test, train), test_shift)[0]


def trained(images: ImageSet, head: HeadKind, *, steps: int, seed: int) -> Branch:
    """A branch trained by InfoNCE at temperature 0.2."""
    if steps < 1:
        raise SettingError(f"steps must be at least 1; got {steps}")
    branch = build_branch(images, output=FEATURES if head == "none" else OUTPUT, head=head, seed=seed)
    draw = random_pairs(
        images, batch=128 if images.is_tiny else 256, seed=seed, versions=32 if images.is_tiny else None
    )
    fit(branch, draw, lambda x, y, labels: info_nce(x, y, temperature=0.2), steps=steps)
    return branch


def run(settings: LabSettings) -> Outcome:
    """Three heads on the digits, five seeds each; on CIFAR-10, where there is data, the MLP head with two seeds."""
    tiny = digits()
    seeds, steps = (2, 20) if settings.is_quick else (5, 300)
    data = {tiny.name: _table(tiny, HEADS, range(settings.seed, settings.seed + seeds), steps)}
    real = None if settings.is_quick else cifar10(settings.data, train=8_000, test=1_000, seed=settings.seed)
    if real is not None:
        data[real.name] = _table(real, ("mlp",), range(settings.seed, settings.seed + 2), 80)
    lines = [line for name, table in data.items() for line in _lines(name, table)]
    if real is None:
        lines.append("CIFAR-10 was left out: no data folder with cifar10 in it was given, or the run was quick.")
    figures = {"" if name == tiny.name else name.lower(): _drawn(table) for name, table in data.items()}
    return Outcome(data, figures, lines)


Table = dict[str, dict[str, dict[str, float]]]  # "head: layer" → figure → mean, low, high


def _table(images: ImageSet, heads: Sequence[HeadKind], seeds: Sequence[int], steps: int) -> Table:
    measured: dict[str, list[Layer]] = {}
    for seed in seeds:
        untrained = build_branch(images, output=OUTPUT, seed=seed)
        measured.setdefault("untrained: features", []).append(measure(untrained.encoder, images, seed=seed))
        for head in heads:
            branch = trained(images, head, steps=steps, seed=seed)
            for name, layer in layers_of(branch).items():
                measured.setdefault(f"{head} head: {name}", []).append(measure(layer, images, seed=seed))
    return {
        name: {
            **{figure: interval([getattr(layer, figure) for layer in layers]) for figure in FIGURES},
            "width": {"mean": layers[0].width},
        }
        for name, layers in measured.items()
    }


def _lines(name: str, table: Table) -> list[str]:
    def said(row: str, figure: str) -> str:
        interval = table[row][figure]
        return f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"

    before, after = "mlp head: features", "mlp head: projection"
    return [
        f"{name}: before an MLP head against after it, {FIGURES[figure]}: {said(before, figure)} against "
        f"{said(after, figure)}."
        for figure in FIGURES
    ] + [
        f"{name}: linear accuracy of the features trained with {row.split(':')[0].replace('none', 'no')}: "
        f"{said(row, 'linear')}."
        for row in table
        if row.endswith("features")
    ]


def _drawn(table: Table) -> Figure:
    """A panel for each figure, a bar for each layer, with the interval over seeds."""
    figure, axes = panels(2, 3, width=4.6, height=0.34 * len(table) + 1.5)
    names = list(table)
    colour = {"untrained": COLOURS[7], "none head": COLOURS[2], "linear head": COLOURS[4], "mlp head": COLOURS[0]}
    for place, (key, title) in enumerate(FIGURES.items()):
        values = [table[name][key] for name in names]
        means = [value["mean"] for value in values]
        reach = [[value["mean"] - value["low"], value["high"] - value["mean"]] for value in values]
        ends = list(zip(*reach, strict=True))
        colours = [colour[name.split(":")[0]] for name in names]
        axes[place].barh(range(len(names)), means, color=colours, xerr=ends, error_kw={"lw": 1})
        axes[place].set_title(title)
        axes[place].invert_yaxis()
        axes[place].set_yticks(range(len(names)), [_label(name, table) if place % 3 == 0 else "" for name in names])
        axes[place].grid(axis="y", visible=False)
        if key in ("linear", "knn"):
            axes[place].set_xlim(max(0.0, min(value["low"] for value in values) - 0.05), 1.0)
    axes[2].axvline(1 / len(SHIFTS), color="black", linestyle=":", linewidth=1)
    axes[2].text(1 / len(SHIFTS), -0.55, " chance", fontsize=9, va="bottom")
    return figure


def _label(name: str, table: Table) -> str:
    return f"{name.replace('none head', 'no head')} ({table[name]['width']['mean']:.0f})"
