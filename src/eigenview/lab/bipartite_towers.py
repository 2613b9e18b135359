"""The bipartite graph again, on trained towers: images on one side, words on the other, captions as edges.

W_ij counts the captions of image i that have word j. A run that learnt from captions has a kernel over the same nodes,
K_ij = exp(s·cos(image i, word j)), the word read alone by the text tower. If CLIP factorises the graph, the leading
singular directions of D^(−1/2)·K·D^(−1/2) span those of D^(−1/2)·W·D^(−1/2) (the first pair, the square roots of the
degrees, says nothing and is left out). The share of the k leading directions that two sides have in common is
‖Uᵀ V‖² / k: 1 for equal spaces, k/n for unrelated ones; beside it the share of the graph's k directions that lies in
the kernel's first 32. With images and words shuffled the graph keeps its spectrum and nothing else.

On Flickr8k (a data folder with flickr8k_112 in it) towers are trained on 6,000 images with EfficientNet-lite0 locked,
and measured on 1,000 others; without, on drawn shapes.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.batches import PROJECTION
from eigenview.data import Source, open_images
from eigenview.evaluation import Measuring, Subject
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, Interval, interval, panels, reach, written
from eigenview.lab.similarity import rotation_to
from eigenview.runs import OpenedRun, RunDirectory, open_run
from eigenview.training import train
from eigenview.training.start import prepare

LEAST, MOST = 10, 0.5  # images that have a word, and the share of them: neither rarities nor "a"
WIDTHS = (1, 2, 4, 8, 16, 32)  # leading directions that are compared
SHOWN_WORDS = 60
SIDES = ("images", "words")
NAMES = {  # what is compared: how a figure calls it
    "graph": "with the graph's as many",
    "within": "the graph's, in the kernel's first 32",
    "shuffled": "with those of the graph shuffled",
}
Shares = dict[str, list[float]]  # of each side, by width


@dataclass(frozen=True)
class WordGraph:
    """``weights`` (images, words) float64: how many captions of an image have a word."""

    weights: Tensor
    words: tuple[str, ...]


def word_graph(captions: Sequence[Sequence[str]], *, least: int = LEAST, most: float = MOST) -> WordGraph:
    """Of words in at least ``least`` images and at most a share ``most`` of them."""
    words_of = [[set(re.findall(r"[^\W\d_]+", text.lower())) for text in several] for several in captions]
    of_each = [Counter(chain.from_iterable(several)) for several in words_of]
    seen = Counter(word for counts in of_each for word in counts)
    words = tuple(sorted(word for word, count in seen.items() if least <= count <= most * len(captions)))
    weights = torch.tensor([[float(counts[word]) for word in words] for counts in of_each], dtype=torch.float64)
    return WordGraph(weights, words)


def directions(weights: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The leading left (n, count) and right (m, count) singular vectors, the constant pair left out, of W over the
    square roots of its degrees; a node without edges stays at 0."""
    rows, columns = (weights.sum(dim=side, keepdim=True).clamp_min(1e-300) for side in (1, 0))
    left, _, right = torch.linalg.svd(weights / (rows * columns).sqrt(), full_matrices=False)
    return left[:, 1 : count + 1], right[1 : count + 1].T


def shared(first: Tensor, second: Tensor) -> float:
    """‖Uᵀ V‖² / k of two orthonormal bases (n, k) and (n, l): the share of the first that lies in the second."""
    return float((first.T @ second).square().sum() / first.shape[1])


def learned_kernel(run: OpenedRun, source: Source, words: Sequence[str]) -> Tensor:
    """exp(s·cos) of every image with every word (images, words), at the scale s that the run learnt."""
    features = Subject.of_run(run, with_head=True).features(source, [PROJECTION], Measuring())
    images = normalize(features[PROJECTION].double(), dim=1)
    assert run.scale is not None
    return (run.scale * (images @ run.needed_text().embed(list(words)).double().T)).exp()


def compared(kernel: Tensor, graph: WordGraph, *, seed: int) -> dict[str, Shares]:
    """The shares that the kernel's leading directions have in common with the graph's, and with a shuffled one's.

    ``within``: the share of the graph's k directions that lies in the kernel's widest space.
    """
    generator = torch.Generator().manual_seed(seed)
    rows, columns = (torch.randperm(count, generator=generator) for count in graph.weights.shape)
    widths = _widths(graph)
    learned, given = directions(kernel, widths[-1]), directions(graph.weights, widths[-1])
    answers: dict[str, Shares] = {name: {} for name in NAMES}
    for side, ours, theirs, order in zip(SIDES, learned, given, (rows, columns), strict=True):
        answers["graph"][side] = [shared(theirs[:, :k], ours[:, :k]) for k in widths]
        answers["within"][side] = [shared(theirs[:, :k], ours) for k in widths]
        answers["shuffled"][side] = [shared(theirs[order, :k], ours[:, :k]) for k in widths]
    return answers


def _widths(graph: WordGraph) -> list[int]:
    return [k for k in WIDTHS if k < min(graph.weights.shape) // 2]


def towers(settings: LabSettings, folder: Path) -> Iterator[tuple[OpenedRun, Source]]:
    """Runs of several seeds on captions, each with images that it has not seen."""
    is_real = settings.data is not None and (settings.data / "flickr8k_112").is_dir() and not settings.is_quick
    seeds = range(10 * settings.seed, 10 * settings.seed + (2 if settings.is_quick else 3))
    given: dict[str, Any] = {"method": "clip", "workers": 0}
    if is_real:
        assert settings.data is not None
        place = settings.data / "flickr8k_112"
        given |= {"source": str(place / "train.parquet"), "steps": 150, "batch_size": 256}
        given |= {"encoder": {"name": "efficientnet-lite0", "locked": True}, "views": {"preset": "laclip", "size": 160}}
        given |= {"method_settings": {"text": {"depth": 1, "width": 128}}}
        given |= {"optimizer": {"weight_decay": 0.2, "warmup_epochs": 1}}
        unseen = open_images(place / "test.parquet", needs_index=True)
    else:
        count, steps = (256, 40) if settings.is_quick else (2048, 300)
        given |= {"source": f"shapes?count={count}&size=24&captioned=yes", "steps": steps, "batch_size": 128}
        given |= {"encoder": {"name": "small"}, "method_settings": {"text": {"depth": 1, "width": 64}}}
        unseen = open_images(f"shapes?count={count}&size=24&seed=1&captioned=yes", needs_index=True)
    features = None
    for seed in seeds:
        out = folder / str(seed)
        if features is not None:
            shutil.copytree(features, RunDirectory(out).features)
        run = train(prepare({**given, "out": str(out), "seed": seed}).config, looks_back=False)
        features = run.features if is_real else None
        yield open_run(run), unseen


def run(settings: LabSettings) -> Outcome:
    """Of trained runs (two at least), each compared on images and captions that are the same for all."""
    graph, kernels = None, []
    with TemporaryDirectory() as place:
        for opened, source in towers(settings, Path(place)):
            graph = graph or word_graph([source.captions(index) for index in range(len(source))])
            kernels.append(learned_kernel(opened, source, graph.words))
    assert graph is not None
    samples = [compared(kernel, graph, seed=settings.seed) for kernel in kernels]
    widths = _widths(graph)
    points = {name: {side: _over_seeds([sample[name][side] for sample in samples]) for side in SIDES} for name in NAMES}
    images, words = graph.weights.shape
    data = {"images": images, "words": words, "seeds": len(samples), "widths": widths, **points}
    figures = {"": _figure(widths, points, graph.weights.shape), "words": _words_figure(kernels[0], graph)}
    return Outcome(data, figures, _lines(widths, points, graph.weights.shape))


def _over_seeds(shares: list[list[float]]) -> list[Interval]:
    return [interval(values, within=(0, 1)) for values in zip(*shares, strict=True)]


def _lines(widths: list[int], points: dict[str, dict[str, list[Interval]]], shape: Sequence[int]) -> list[str]:
    lines = [f"{shape[0]:,} images that no tower has seen and {shape[1]:,} words."]
    for at, k in enumerate(widths):
        said = [
            f"{side} {written(points['graph'][side][at], 2)} (shuffled {points['shuffled'][side][at]['mean']:.2f}, "
            f"unrelated spaces {k / count:.2f}), in the kernel's first {widths[-1]} "
            f"{written(points['within'][side][at], 2)}"
            for side, count in zip(SIDES, shape, strict=True)
        ]
        lines.append(f"{k} leading directions, the share in common: {'; '.join(said)}.")
    return lines


def _figure(widths: list[int], points: dict[str, dict[str, list[Interval]]], shape: Sequence[int]) -> Figure:
    figure, axes = panels(1, 2, width=5.0, height=4.0)
    for axis, side, count in zip(axes, SIDES, shape, strict=True):
        for (name, label), colour, marker in zip(NAMES.items(), COLOURS, MARKERS, strict=False):
            values = points[name][side]
            style: dict[str, Any] = {"yerr": reach(values), "marker": marker, "capsize": 3, "elinewidth": 1}
            axis.errorbar(widths, [value["mean"] for value in values], color=colour, label=label, **style)
        axis.plot(widths, [k / count for k in widths], ":", color=COLOURS[7], label="unrelated spaces")
        axis.set_xscale("log", base=2)
        axis.set(xlabel="leading directions", ylabel="share in common", ylim=(-0.03, 1.03), title=side.capitalize())
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _words_figure(kernel: Tensor, graph: WordGraph) -> Figure:
    """The commonest words in the first two directions of the graph, and of the kernel turned to them."""
    figure, axes = panels(1, 2, width=6.0, height=5.4)
    (_, given), (_, learned) = directions(graph.weights, 2), directions(kernel, 2)
    common = graph.weights.sum(dim=0).argsort(descending=True)[:SHOWN_WORDS]
    turned = learned @ rotation_to(learned, given)
    for axis, rows, title in ((axes[0], given, "The graph's words"), (axes[1], turned, "The towers', turned to them")):
        points = rows / graph.weights.sum(dim=0)[:, None].sqrt()
        points = points / points[common].abs().amax(dim=0)
        for word in common.tolist():
            x, y = points[word].tolist()
            axis.plot(x, y, ".", color=COLOURS[0], markersize=3)
            axis.annotate(graph.words[word], (x, y), fontsize=7, xytext=(2, 2), textcoords="offset points")
        axis.set(xlabel="first direction", ylabel="second direction", title=title)
    return figure
