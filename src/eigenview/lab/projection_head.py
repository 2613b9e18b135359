"""The role of the projection head: what features and embeddings are like on either side of it.

SimCLR (Chen et al. 2020) throws the head away: the loss asks its output to forget what the views change, and the
features before it need not. Here the same encoder is trained with no head, a linear one and an MLP, and every layer on
the way is measured: alignment, uniformity, effective rank, accuracy, and whether it still tells how a view was moved.
"""

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from eigenview.diagnostics import alignment_figure, effective_rank, uniformity_figure
from eigenview.errors import SettingError
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, Interval, Measure, intervals, panels, reach, written
from eigenview.lab.finite_views import SHIFTS, shifted
from eigenview.lab.images import ImageSet, first_of_each, on_images
from eigenview.lab.small_encoders import (
    FEATURES,
    Branch,
    HeadKind,
    accuracies,
    build_branch,
    encoded,
    fit,
    four_encoded,
)
from eigenview.losses import InfoNCE

HEADS: tuple[HeadKind, ...] = ("none", "linear", "mlp")
OUTPUT = 64  # width after a head
FEW = 5  # labels a class for classifiers of digits
MEASURES = {  # of one layer of one trained encoder
    "linear": Measure("linear accuracy"),
    "knn": Measure("5-NN accuracy"),
    "shift": Measure("accuracy of naming the shift"),  # which of nine a view has, chance 1/9
    "alignment": Measure("alignment (lower: views closer)"),
    "uniformity": Measure("uniformity (lower: more even)"),
    "rank": Measure("effective rank"),  # RankMe
}


def layers_of(branch: Branch) -> dict[str, nn.Module]:
    """Modules from images to each layer: the features, and after each linear map of the head (before its ReLU)."""
    layers = list(branch.head.children())
    ends = [place + 1 for place, layer in enumerate(layers) if isinstance(layer, nn.Linear)]
    branches: dict[str, nn.Module] = {"features": branch.encoder}
    for number, end in enumerate(ends, start=1):
        name = "projection" if number == len(ends) else f"head layer {number}"
        branches[name] = nn.Sequential(branch.encoder, *layers[:end])
    return branches


def measured(layer: nn.Module, images: ImageSet, *, seed: int = 0) -> dict[str, float]:
    """All measures of a layer, and its width: learned from training images, measured on held-out ones.

    Digits are easy: there the classifiers get ``FEW`` labels a class, so that representations differ.
    """
    train, test, first, second = four_encoded(layer, images, seed=seed)
    known = first_of_each(images.train_labels, FEW) if images.is_tiny else torch.arange(len(train))
    labels = images.train_labels[known]
    linear, knn = accuracies(_scaled(train, train)[known], labels, _scaled(test, train), images.test_labels)
    return {
        "width": train.shape[1],
        "linear": linear,
        "knn": knn,
        "shift": _shift_accuracy(layer, images),
        "alignment": alignment_figure(first, second),
        "uniformity": uniformity_figure(first).value,
        "rank": effective_rank(torch.cat([first, second])),
    }


def _scaled(rows: Tensor, like: Tensor) -> Tensor:
    """Each column at mean 0 and deviation 1 of ``like``: layers differ in scale, and a penalty must not care."""
    deviation = like.std(dim=0)
    return (rows - like.mean(dim=0)) / torch.where(deviation > 1e-6, deviation, 1)


def _shift_accuracy(layer: nn.Module, images: ImageSet, *, items: int = 100) -> float:
    step = 1 if images.is_tiny else 4
    moved_sets = []
    for views in images.fixed_views():
        moved = [encoded(layer, shifted(views[:items], *shift, step=step, mode="replicate")) for shift in SHIFTS]
        moved_sets.append((torch.cat(moved), torch.arange(len(SHIFTS)).repeat_interleave(len(moved[0]))))
    (train, train_shift), (test, test_shift) = moved_sets
    return accuracies(_scaled(train, train), train_shift, _scaled(test, train), test_shift)[0]


def trained(images: ImageSet, head: HeadKind, *, steps: int, seed: int) -> Branch:
    """A branch trained by InfoNCE at temperature 0.2."""
    if steps < 1:
        raise SettingError(f"steps must be at least 1; got {steps}")
    branch = build_branch(images, output=FEATURES if head == "none" else OUTPUT, head=head, seed=seed)
    draw = images.random_pairs(batch=128 if images.is_tiny else 256, seed=seed)
    fit(branch, draw, InfoNCE(temperature=0.2), steps=steps)
    return branch


def run(settings: LabSettings) -> Outcome:
    """Three heads on the digits, five seeds each; on CIFAR-10, where there is data, the MLP head with two seeds."""

    def look(images: ImageSet) -> Outcome:
        seeds, steps = (2, 20) if settings.is_quick else (5, 300) if images.is_tiny else (2, 80)
        heads = HEADS if images.is_tiny else HEADS[-1:]
        table = _table(images, heads, range(settings.seed, settings.seed + seeds), steps)
        return Outcome(table, {images.figure: _drawn(table)}, _lines(images.name, table))

    return on_images(settings, look)


Table = dict[str, dict[str, Interval]]  # "head: layer" → figure → mean, low, high; a width has a mean only


def _table(images: ImageSet, heads: Sequence[HeadKind], seeds: Sequence[int], steps: int) -> Table:
    every: dict[str, list[dict[str, float]]] = {}
    for seed in seeds:
        untrained = build_branch(images, output=OUTPUT, seed=seed)
        every.setdefault("untrained: features", []).append(measured(untrained.encoder, images, seed=seed))
        for head in heads:
            branch = trained(images, head, steps=steps, seed=seed)
            for name, layer in layers_of(branch).items():
                every.setdefault(f"{head} head: {name}", []).append(measured(layer, images, seed=seed))
    return {
        name: {**intervals(layers, MEASURES), "width": {"mean": layers[0]["width"]}} for name, layers in every.items()
    }


def _lines(name: str, table: Table) -> list[str]:
    before, after = table["mlp head: features"], table["mlp head: projection"]
    return [
        f"{name}: before an MLP head against after it, {measure.title}: {written(before[key])} against "
        f"{written(after[key])}."
        for key, measure in MEASURES.items()
    ] + [
        f"{name}: linear accuracy of the features trained with {row.split(':')[0].replace('none', 'no')}: "
        f"{written(figures['linear'])}."
        for row, figures in table.items()
        if row.endswith("features")
    ]


def _drawn(table: Table) -> Figure:
    """A panel for each figure, a bar for each layer, with the interval over seeds."""
    figure, axes = panels(2, 3, width=4.6, height=0.34 * len(table) + 1.5)
    shade = {"untrained": COLOURS[7], "none head": COLOURS[2], "linear head": COLOURS[4], "mlp head": COLOURS[0]}
    colours = [shade[name.split(":")[0]] for name in table]
    labels = [f"{name.replace('none head', 'no head')} ({row['width']['mean']:.0f})" for name, row in table.items()]
    for place, (axis, (key, measure)) in enumerate(zip(axes, MEASURES.items(), strict=True)):
        values = [row[key] for row in table.values()]
        means = [value["mean"] for value in values]
        axis.barh(range(len(table)), means, color=colours, xerr=reach(values), error_kw={"lw": 1})
        axis.set_title(measure.title)
        axis.invert_yaxis()
        axis.set_yticks(range(len(table)), labels if place % 3 == 0 else [""] * len(table))
        axis.grid(axis="y", visible=False)
        if key in ("linear", "knn"):
            axis.set_xlim(max(0.0, min(value["low"] for value in values) - 0.05), 1.0)
    axes[2].axvline(1 / len(SHIFTS), color="black", linestyle=":", linewidth=1)
    axes[2].text(1 / len(SHIFTS), -0.55, " chance", fontsize=9, va="bottom")
    return figure
