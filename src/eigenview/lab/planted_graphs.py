"""Free embeddings of planted graphs, trained with every kernel, against spectral clustering of the same graph.

Where InfoNCE and spectral clustering are the same, and where only alike:
- always exact: H = (1/τ)·tr(ZᵀLZ) + Σ log-partition, an attraction that is spectral clustering's objective;
- exact in the limit of small embeddings (or a high temperature): there the log-partition is n·log(n−1) − tr(ZᵀUZ)/τ
  with U the Laplacian of the complete graph of weights 1/(n−1), so H is the quadratic form of L − U, and gradient
  descent from a small start turns towards the bottom eigenvectors of L: power iteration;
- only close at the minimum: nothing makes the columns orthonormal there, the log-partition shapes them.
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from eigenview.graph import Coupling, GaussianKernel, Kernel, from_graph
from eigenview.graph.kernel_text import read_kernel
from eigenview.graph.laplacian import spectral_clustering
from eigenview.lab.descent import free_embeddings
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, Measure, curve, intervals, means, panels, written
from eigenview.lab.planted import PlantedGraph, detectable_mixing, eigenvectors, planted_graph
from eigenview.lab.similarity import angle_to, clusters_of, linear_cka, principal_angles, rand_index

BLOCKS, SIZE, DEGREE, WIDTH = 4, 30, 12.0, 8
KERNELS = {  # not the cosine: on the sphere it is the Gaussian's walk
    name: read_kernel(text)
    for name, text in {
        "Gaussian": "Gaussian(0.3)",
        "Laplacian": "Laplacian(0.3)",
        "exponential, γ = ½": "Exponential(0.5, 0.3)",
        "Student-t, 3 degrees": "StudentT(3, 0.1)",
        "Cauchy": "Cauchy(0.1)",
        "sum, Gaussian + Laplacian": "Gaussian(0.3) + Laplacian(0.3)",
        "product, Gaussian × Laplacian": "Gaussian(0.6) * Laplacian(0.6)",
        "concatenation": "concat(Gaussian(0.15), Laplacian(0.15))",
    }.items()
}
MEASURES = {  # of the embeddings that one kernel learns at one mixing, over graphs
    "with_spectral": Measure("ARI with spectral clustering", -1.0, 1.0),  # adjusted Rand index of both clusterings
    "with_blocks": Measure("ARI with the planted blocks", -1.0, 1.0),
    "angle": Measure("widest principal angle, degrees", 0.0, 90.0),  # of the leading K−1 directions to the eigenvectors
    "cka": Measure("CKA with the spectral embedding", 0.0, 1.0),
}
Agreement = dict[str, Any]  # kernel, mixing, and the interval of each measure


@dataclass(frozen=True)
class Descent:
    """Gradient descent from a small start: the size of the embeddings and their widest angle to the eigenvectors."""

    step: list[int]
    size: list[float]  # root mean square of the rows' lengths
    angle: list[float]  # radians


def learned(graph: PlantedGraph, kernel: Kernel, *, steps: int, seed: int) -> Tensor:
    """Free embeddings (n, 8) on the sphere that minimise H with ``kernel``, from a random start."""
    coupling, target = Coupling(kernel), from_graph(graph.weights)
    return free_embeddings(lambda z: coupling(z, target=target), len(graph.weights), WIDTH, steps=steps, seed=seed)


def run(settings: LabSettings) -> Outcome:
    if settings.is_quick:
        mixings, seeds, steps, names = [0.0, 0.3], 2, 30, list(KERNELS)[:3]
    else:
        mixings, seeds, steps, names = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 5, 80, list(KERNELS)
    first = 1000 * settings.seed
    rows: list[Agreement] = []
    for mixing in mixings:
        samples = [_compare(_graph(mixing, seed), names, steps, seed) for seed in range(first, first + seeds)]
        rows += [
            {"kernel": name, "mixing": mixing, **intervals([each[name] for each in samples], MEASURES)}
            for name in samples[0]
        ]
    descent = descend(_graph(0.1, first), steps=250 if settings.is_quick else 700, seed=first)
    threshold = detectable_mixing(blocks=BLOCKS, degree=DEGREE)
    data = {
        "nodes": BLOCKS * SIZE,
        "degree": DEGREE,
        "seeds": seeds,
        "detectable_mixing": threshold,
        "kernels": {name: repr(KERNELS[name]) for name in names},
        "agreement": rows,
        "descent": asdict(descent),
    }
    figures = {"": _figure(rows, threshold), "descent": _descent_figure(descent)}
    return Outcome(data, figures, _lines(rows, descent, mixings))


def _graph(mixing: float, seed: int) -> PlantedGraph:
    return planted_graph(blocks=BLOCKS, size=SIZE, degree=DEGREE, mixing=mixing, seed=seed)


def _compare(graph: PlantedGraph, names: list[str], steps: int, seed: int) -> dict[str, dict[str, float]]:
    """Every kernel's embeddings, spectral clustering itself and random embeddings, against the eigenvectors."""
    vectors = eigenvectors(graph.weights, BLOCKS - 1)
    clusters = spectral_clustering(graph.weights, BLOCKS, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    everyone = {name: learned(graph, KERNELS[name], steps=steps, seed=seed) for name in names}
    everyone["random embeddings"] = torch.randn(len(vectors), WIDTH, generator=generator, dtype=torch.float64)
    agreements = {}
    for name, rows in everyone.items():
        own = clusters_of(rows, BLOCKS, seed=seed)
        agreements[name] = {
            "with_spectral": rand_index(own, clusters),
            "with_blocks": rand_index(own, graph.labels),
            "angle": angle_to(rows, vectors),
            "cka": linear_cka(rows, vectors),
        }
    itself = {"with_spectral": 1.0, "with_blocks": rand_index(clusters, graph.labels), "angle": 0.0, "cka": 1.0}
    return {**agreements, "spectral clustering": itself}


def descend(graph: PlantedGraph, *, steps: int, seed: int, start: float = 1e-9, temperature: float = 0.5) -> Descent:
    """Plain gradient descent on H with the Gaussian kernel, off the sphere, in K − 1 dimensions from a tiny start."""
    generator = torch.Generator().manual_seed(seed)
    rows = start * torch.randn(len(graph.weights), BLOCKS - 1, generator=generator, dtype=torch.float64)
    vectors = eigenvectors(graph.weights, BLOCKS - 1)
    coupling = Coupling(GaussianKernel(temperature), normalize=False, reduction="sum")
    target, seen = from_graph(graph.weights), []
    for step in range(steps + 1):
        if step % 5 == 0:
            centred = rows - rows.mean(dim=0)
            size = float(centred.square().sum(dim=1).mean().sqrt())
            seen.append((step, size, float(principal_angles(centred, vectors).max())))
        rows = rows.requires_grad_()
        (gradient,) = torch.autograd.grad(coupling(rows, target=target), rows)
        rows = (rows - 0.1 * temperature * gradient).detach()
    return Descent(*map(list, zip(*seen, strict=True)))


def _lines(rows: list[Agreement], descent: Descent, mixings: list[float]) -> list[str]:
    closest = min(range(len(descent.angle)), key=lambda place: descent.angle[place])
    lines = [
        f"From a start of size {descent.size[0]:.0e} gradient descent turns to the eigenvectors: widest angle "
        f"{descent.angle[0]:.2f} rad at first, {descent.angle[closest]:.1e} at size {descent.size[closest]:.1e} (step "
        f"{descent.step[closest]}), {descent.angle[-1]:.2f} at the end, at size "
        f"{descent.size[-1]:.1e}."
    ]
    for mixing in mixings:
        here = {row["kernel"]: row for row in rows if row["mixing"] == mixing}
        itself, learned_by = here["spectral clustering"], [row for name, row in here.items() if name in KERNELS]
        low, high = (pick(learned_by, key=lambda row: row["with_spectral"]["mean"]) for pick in (min, max))
        least, most = (pick(row["cka"]["mean"] for row in learned_by) for pick in (min, max))
        lines.append(
            f"mixing {mixing:.1f}: ARI with spectral clustering from {written(low['with_spectral'], 2)} "
            f"({low['kernel']}) to {written(high['with_spectral'], 2)} ({high['kernel']}); CKA {least:.2f} to "
            f"{most:.2f}; spectral clustering's own ARI with the blocks {itself['with_blocks']['mean']:.2f}."
        )
    return lines


def _figure(rows: list[Agreement], threshold: float) -> Figure:
    figure, axes = panels(2, 2, width=5.6, height=3.9)
    names = list(dict.fromkeys(row["kernel"] for row in rows))
    kernels = [name for name in names if name in KERNELS]
    styles = {name: (colour, marker, "-") for name, colour, marker in zip(kernels, COLOURS, MARKERS, strict=False)}
    styles |= {"random embeddings": ("#999999", "", ":"), "spectral clustering": ("black", "", "--")}
    for axis, (key, measure) in zip(axes, MEASURES.items(), strict=True):
        for name in names:
            mine = [row for row in rows if row["kernel"] == name]
            x, values = [row["mixing"] for row in mine], [row[key] for row in mine]
            colour, marker, line = styles[name]
            draw = curve if name == "Gaussian" else means
            draw(axis, x, values, colour, linestyle=line, marker=marker, label=name, linewidth=1.4)
        axis.axvline(threshold, color="black", linewidth=0.8, linestyle=":")
        axis.set(xlabel="mixing: share of edges that leave their block", ylabel=measure.title)
    axes[0].text(threshold - 0.01, 0.1, "limit of\ndetection", fontsize=9, ha="right")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _descent_figure(descent: Descent) -> Figure:
    figure, (left, right) = panels(1, 2)
    angle = "widest angle to the eigenvectors, rad"
    left.semilogy(descent.step, descent.angle, color=COLOURS[0])
    left.set(xlabel="step of gradient descent", ylabel=angle, title="Exact early, only close at the end")
    right.loglog(descent.size, descent.angle, color=COLOURS[1])
    right.set(xlabel="size of the embeddings (rms)", ylabel=angle, title="It parts from them as it grows to size 1")
    return figure
