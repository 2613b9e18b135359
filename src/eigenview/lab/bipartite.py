"""CLIP is spectral clustering of a bipartite graph: images on one side, texts on the other, pairs as edges.

With unit embeddings Z = [image; text], P_IT the graph's rows normalised over texts and P_TI over images, the two
cross-entropies that CLIP adds up equal (1/τ)·tr(ZᵀLZ) + Σ log-partition, L the Laplacian of the bipartite graph
(A + Aᵀ)/2, A = [[0, P_IT], [P_TI, 0]]. That is exact. That its minimiser clusters as the eigenvectors do is measured
here, on synthetic pairs: images of a few concepts, each with some captions from a shared stock, some of them wrong.

With one caption of its own for every image the graph is a matching and has no clusters at all. What joins images are
captions that they share, so more captions an image (as LaCLIP's rewrites give) make the concepts visible.
"""

from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import SettingError
from eigenview.graph import Coupling, Kernel, from_graph
from eigenview.graph.kernels import CosineKernel
from eigenview.graph.laplacian import spectral_clustering
from eigenview.lab.descent import descended, drawn_pairs, free_embeddings
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, Interval, Measure, intervals, panels, reach, written
from eigenview.lab.planted import eigenvectors
from eigenview.lab.similarity import angle_to, clusters_of, leading_directions, linear_cka, rand_index, rotation_to
from eigenview.losses import clip_loss

CONCEPTS, WIDTH, TEMPERATURE = 4, 8, 0.3
MEASURES = {  # of one setting of the synthetic pairs, over seeds
    "with_spectral": Measure("CLIP with spectral clustering (ARI)", -1.0, 1.0),
    "with_concepts": Measure("CLIP with the concepts (ARI)", -1.0, 1.0),
    "spectral": Measure("spectral clustering with the concepts (ARI)", -1.0, 1.0),
    "cka": Measure("CLIP with the eigenvectors (CKA)", 0.0, 1.0),
}
Point = dict[str, Any]  # captions an image, the share of wrong ones (mixing), and the interval of each measure


@dataclass(frozen=True)
class Pairs:
    """How often each image comes with each text."""

    weights: Tensor  # (images, texts), no empty row or column, float64
    image_concepts: Tensor  # (images,)
    text_concepts: Tensor  # (texts,)

    @property
    def concepts(self) -> Tensor:
        return torch.cat([self.image_concepts, self.text_concepts])


def synthetic_pairs(*, captions: int, mixing: float, seed: int, images: int = 30, stock: int = 30) -> Pairs:
    """``images`` a concept, each with ``captions`` drawn from its concept's ``stock`` of texts, or another's.

    Texts that no image drew are left out.
    """
    if captions < 1 or not 0 <= mixing <= 1:
        raise SettingError(f"pairs need at least one caption an image and mixing in [0, 1]; got {captions}, {mixing}")
    generator = torch.Generator().manual_seed(seed)
    image_concepts = torch.arange(CONCEPTS).repeat_interleave(images)
    shape = (len(image_concepts), captions)
    away = torch.randint(1, CONCEPTS, shape, generator=generator)
    is_wrong = torch.rand(shape, generator=generator) < mixing
    concept = (image_concepts[:, None] + away * is_wrong) % CONCEPTS
    text = concept * stock + torch.randint(stock, shape, generator=generator)
    weights = torch.zeros(len(image_concepts), CONCEPTS * stock, dtype=torch.float64)
    weights.scatter_add_(1, text, torch.ones(shape, dtype=torch.float64))
    used = weights.sum(dim=0) > 0
    return Pairs(weights[:, used], image_concepts, torch.arange(CONCEPTS).repeat_interleave(stock)[used])


def bipartite_graph(weights: Tensor) -> Tensor:
    """[[0, W], [Wᵀ, 0]]: images first, then texts."""
    images, texts = weights.shape
    top = torch.cat([weights.new_zeros(images, images), weights], dim=1)
    return torch.cat([top, torch.cat([weights.T, weights.new_zeros(texts, texts)], dim=1)])


def clip_on_graph(image: Tensor, text: Tensor, weights: Tensor, *, kernel: Kernel | None = None) -> Tensor:
    """CLIP over all pairs of the graph at once: ½·(mean over images + mean over texts) of the cross-entropy.

    ``weights`` (images, texts); the identity gives :func:`eigenview.clip_loss`. Cosine, unless a kernel is given.
    """
    coupling = Coupling(CosineKernel(TEMPERATURE) if kernel is None else kernel, partition="all")
    forth = coupling(image, text, target=from_graph(weights))
    return (forth + coupling(text, image, target=from_graph(weights.T.contiguous()))) / 2


def learned(pairs: Pairs, *, steps: int, seed: int) -> Tensor:
    """Free embeddings [image; text] on the sphere that minimise CLIP over the whole graph."""
    images, nodes = len(pairs.weights), len(pairs.concepts)

    def objective(rows: Tensor) -> Tensor:
        return clip_on_graph(rows[:images], rows[images:], pairs.weights)

    return free_embeddings(objective, nodes, WIDTH, steps=steps, seed=seed)


def learned_from_batches(pairs: Pairs, *, steps: int, seed: int, batch: int = 64) -> Tensor:
    """The same by :func:`eigenview.clip_loss` on batches of drawn pairs and Adam, as CLIP is trained."""
    images, texts = pairs.weights.shape
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(images + texts, WIDTH, generator=generator, dtype=torch.float64).requires_grad_()

    def loss_at(_: int) -> Tensor:
        image, text = drawn_pairs(pairs.weights, batch, generator)
        return clip_loss(rows[image], rows[images + text], temperature=TEMPERATURE)

    list(descended([rows], loss_at, steps=steps, learning_rate=0.05))
    return normalize(rows.detach(), dim=1)


def run(settings: LabSettings) -> Outcome:
    if settings.is_quick:
        by_captions, by_mixing, seeds, steps = [1, 4], [0.1, 0.4], 2, 30
    else:
        by_captions, by_mixing, seeds, steps = [1, 2, 3, 4, 6, 8], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 5, 100
    numbers = range(1000 * settings.seed, 1000 * settings.seed + seeds)
    rising = [measured(captions, 0.1, numbers, steps=steps) for captions in by_captions]
    noisy = [measured(6, mixing, numbers, steps=steps) for mixing in by_mixing]
    batches = from_batches(numbers, steps=200 if settings.is_quick else 1000)
    example = synthetic_pairs(captions=6, mixing=0.1, seed=numbers[0])
    embeddings = learned(example, steps=steps, seed=numbers[0])
    data = {
        "images": len(example.image_concepts),
        "seeds": seeds,
        "by_captions": rising,
        "by_mixing": noisy,
        "from_batches": batches,
    }
    figures = {"": _figure(rising, noisy), "embedding": _embedding_figure(example, embeddings)}
    return Outcome(data, figures, _lines(rising, noisy, batches))


def measured(captions: int, mixing: float, seeds: range, *, steps: int) -> Point:
    samples = []
    for seed in seeds:
        pairs = synthetic_pairs(captions=captions, mixing=mixing, seed=seed)
        rows = learned(pairs, steps=steps, seed=seed)
        own, spectral = clusters_of(rows, CONCEPTS, seed=seed), co_clusters(pairs, seed=seed)
        samples.append(
            {
                "with_spectral": rand_index(own, spectral),
                "with_concepts": rand_index(own, pairs.concepts),
                "spectral": rand_index(spectral, pairs.concepts),
                "cka": linear_cka(rows, bottom_vectors(pairs)),
            }
        )
    return {"captions": captions, "mixing": mixing, **intervals(samples, MEASURES)}


def co_clusters(pairs: Pairs, *, seed: int) -> Tensor:
    """Spectral clustering of the bipartite graph: images and texts together (Dhillon 2001)."""
    return spectral_clustering(bipartite_graph(pairs.weights), CONCEPTS, seed=seed)


def bottom_vectors(pairs: Pairs) -> Tensor:
    """The bottom K − 1 eigenvectors, but the constant, of the Laplacian inside CLIP."""
    return eigenvectors(bipartite_graph(pairs.weights), CONCEPTS - 1)


def from_batches(seeds: range, *, steps: int) -> dict[str, Interval]:
    """CLIP on drawn batches, six captions an image, a tenth of them wrong: ARI and the angle to the eigenvectors."""
    samples = []
    for seed in seeds:
        pairs = synthetic_pairs(captions=6, mixing=0.1, seed=seed)
        rows = learned_from_batches(pairs, steps=steps, seed=seed)
        agreed = rand_index(clusters_of(rows, CONCEPTS, seed=seed), co_clusters(pairs, seed=seed))
        samples.append({"with_spectral": agreed, "angle_degrees": angle_to(rows, bottom_vectors(pairs))})
    angle = Measure("widest angle to the eigenvectors", 0.0, 90.0)
    return intervals(samples, {"with_spectral": MEASURES["with_spectral"], "angle_degrees": angle})


def _lines(rising: list[Point], noisy: list[Point], batches: dict[str, Interval]) -> list[str]:
    lines = [
        f"{point['captions']} captions an image, {point['mixing']:.0%} wrong: ARI of CLIP with spectral clustering "
        f"{written(point['with_spectral'], 2)}, with the concepts {point['with_concepts']['mean']:.2f} (spectral "
        f"clustering {point['spectral']['mean']:.2f}), CKA with the eigenvectors {point['cka']['mean']:.2f}."
        for point in [*rising, *noisy]
    ]
    lines.append(
        f"By clip_loss() on drawn batches of 64 pairs: ARI with spectral clustering "
        f"{written(batches['with_spectral'], 2)}, widest angle to the eigenvectors "
        f"{batches['angle_degrees']['mean']:.0f} degrees."
    )
    return lines


def _figure(rising: list[Point], noisy: list[Point]) -> Figure:
    figure, axes = panels(1, 2, width=5.4, height=4.2)
    along = (  # points, what they differ in, how that is called, what is seen
        (rising, "captions", "captions an image (a tenth of them wrong)", "Shared captions make the clusters"),
        (noisy, "mixing", "share of wrong captions (six an image)", "Wrong captions undo them"),
    )
    for axis, (points, x, label, title) in zip(axes, along, strict=True):
        for (key, measure), colour, marker in zip(MEASURES.items(), COLOURS, MARKERS, strict=False):
            values: list[Interval] = [point[key] for point in points]
            style: dict[str, Any] = {"yerr": reach(values), "marker": marker, "capsize": 3, "elinewidth": 1}
            means = [value["mean"] for value in values]
            axis.errorbar([point[x] for point in points], means, color=colour, label=measure.title, **style)
        axis.set(xlabel=label, ylabel="agreement", ylim=(-0.05, 1.05), title=title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _embedding_figure(pairs: Pairs, rows: Tensor) -> Figure:
    """Two leading directions of CLIP beside two eigenvectors; images as dots, texts as crosses."""
    figure, axes = panels(1, 2, width=4.8, height=4.4)
    images = len(pairs.image_concepts)
    vectors = bottom_vectors(pairs)
    leading = leading_directions(rows, CONCEPTS - 1)
    turned = leading @ rotation_to(leading, vectors)
    plots = ((axes[0], vectors, "Bottom eigenvectors"), (axes[1], turned, "CLIP's leading directions, turned to them"))
    for axis, points, title in plots:
        for concept in range(CONCEPTS):
            for side, marker, name in ((slice(0, images), "o", "images"), (slice(images, None), "x", "texts")):
                chosen = points[side][pairs.concepts[side] == concept]
                label = f"concept {concept + 1}, {name}"
                axis.plot(chosen[:, 0], chosen[:, 1], marker, color=COLOURS[concept], label=label, alpha=0.8)
        axis.set(xlabel="first direction", ylabel="second direction", title=title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
