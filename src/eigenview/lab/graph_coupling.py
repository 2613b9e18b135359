"""InfoNCE is graph coupling: what a batch estimates, what it is made of, and the random graphs behind it.

H_π^k(Z) = −E_{W_X}[log P(W_Z = W_X; K_Z)] with W_X, W_Z random graphs of out-degree one (Tan et al. 2023). Four parts:
sampled InfoNCE against H for growing batches; H = (1/τ)·tr(ZᵀLZ) + Σ log-partition at every step of a training run; the
random graphs sampled from their definition against their closed form; the three priors side by side.
"""

import math
from dataclasses import asdict, dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.graph import Coupling, GaussianKernel, from_graph
from eigenview.graph.laplacian import laplacian_trace
from eigenview.lab.descent import minimised
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, Interval, band, interval, panels, written
from eigenview.lab.finite_views import shifted_digits, train_encoder
from eigenview.lab.planted import planted_graph, row_normalised
from eigenview.lab.random_graphs import FieldSample, Reached, field_sample, sampled_by_rejection, side_by_side
from eigenview.lab.sampled_info_nce import BatchSize, Copies, Population, balanced, measured

TEMPERATURE = 0.5
COPIES: tuple[Copies, ...] = ("apart", "count")


@dataclass(frozen=True)
class Convergence:
    """Sampled InfoNCE for growing batches on one set of embeddings."""

    embeddings: str
    objects: int
    batches: int
    exact: float  # H/n by the library's coupling
    limits: list[float]  # of InfoNCE with copies apart, which is H/n, and counted
    sizes: list[BatchSize]

    def of(self, copies: Copies) -> list[BatchSize]:
        return [size for size in self.sizes if size.copies == copies]


@dataclass(frozen=True)
class Training:
    """Before every step: H/n, its two terms, their relative difference, and the batch's InfoNCE on the same scale."""

    objects: int
    batch: int
    temperature: float
    whole: list[float]
    trace: list[float]
    partition: list[float]
    difference: list[float]
    sampled: list[float]


def cross_entropy_of_graphs(embeddings: Tensor, pairs: Tensor, temperature: float) -> Tensor:
    """H_π^k(Z) = −Σ_i Σ_{j≠i} P_ij log Q_ij with the Gaussian kernel, rows as they are: the library's coupling."""
    coupling = Coupling(GaussianKernel(temperature), reduction="sum", normalize=False)
    return coupling(embeddings, target=from_graph(pairs))


def trace_term(embeddings: Tensor, pairs: Tensor, temperature: float) -> Tensor:
    """(1/τ)·tr(ZᵀLZ), L the Laplacian of (P + Pᵀ)/2."""
    return laplacian_trace(embeddings, row_normalised(pairs)) / temperature


def partition_term(embeddings: Tensor, temperature: float) -> Tensor:
    """Σ_i log Σ_{l≠i} exp(−‖z_i − z_l‖²/2τ), written out without the coupling."""
    logits = torch.cdist(embeddings, embeddings).square() / (-2 * temperature)
    return logits.fill_diagonal_(-torch.inf).logsumexp(dim=1).sum()


def run(settings: LabSettings) -> Outcome:
    convergence = [convergence_of(settings, is_trained=is_trained) for is_trained in (False, True)]
    training = along_training(settings)
    field, exact, sampled = sampled_field(settings)
    priors = side_by_side(6 if settings.is_quick else 12, seed=settings.seed)
    data = {
        "convergence": [asdict(curve) for curve in convergence],
        "training": asdict(training),
        "field": {**asdict(field), "cross_entropy": exact, "cross_entropy_sampled": sampled},
        "priors": [asdict(reached) for reached in priors],
    }
    figures = {
        "": _convergence_figure(convergence),
        "training": _training_figure(training),
        "field": _field_figure(field),
        "priors": _priors_figure(priors),
    }
    lines = []
    for curve in convergence:
        size = next(size for size in curve.of("apart") if size.batch == 256)
        lines.append(
            f"{curve.embeddings} embeddings of {curve.objects} objects: over {curve.batches} batches of 256 pairs "
            f"InfoNCE is off H/n = {curve.exact:.4f} by {written(size.bias, 5, sign='+')}; c/(2B−1) "
            f"foretells {size.foretold:+.5f}; one batch spreads by {size.spread:.4f}. Copies of oneself among the "
            f"negatives move the limit by {curve.limits[1] - curve.limits[0]:+.4f}."
        )
    lines += [
        f"H = trace/τ + log-partition before each of {len(training.difference)} steps of training: relative difference "
        f"at most {max(training.difference):.1e}. Per object the trace goes from {training.trace[0]:.3f} to "
        f"{training.trace[-1]:.3f} and the log-partition from {training.partition[0]:.3f} to "
        f"{training.partition[-1]:.3f}.",
        f"{field.accepted} of {field.proposals} proposed graphs had out-degree one (share "
        f"{field.accepted / field.proposals:.5f}, foretold {field.acceptance_foretold:.5f}); total variation to ∏P "
        f"{field.total_variation[-1]:.5f}, sampling noise alone {field.noise_alone[-1]:.5f}; χ² p = "
        f"{field.p_value:.2f}. −log P(W_Z = W_X) averages {written(sampled, 4)}, "
        f"H = {exact:.4f}.",
    ]
    for reached in priors:
        lines.append(
            f"prior {reached.prior}: loss {reached.loss:.3f} over a floor of {reached.floor:.3f} (start "
            f"{reached.start:.3f}); rows of Q sum to {reached.lowest_row_sum:.3f} to {reached.highest_row_sum:.3f}, "
            f"all of it to {reached.total:.3f}; ARI with the blocks {reached.rand_index:.2f}."
        )
    return Outcome(data, figures, lines)


def convergence_of(settings: LabSettings, *, is_trained: bool) -> Convergence:
    """On a balanced planted graph of 120 objects, with random embeddings or those that minimise H."""
    graph = planted_graph(blocks=4, size=30, degree=10, mixing=0.15, seed=settings.seed)
    pairs = balanced(graph.weights)
    generator = torch.Generator().manual_seed(settings.seed)
    rows = normalize(torch.randn(len(pairs), 8, generator=generator, dtype=torch.float64), dim=1)
    if is_trained:
        coupling = Coupling(GaussianKernel(TEMPERATURE))
        rows = normalize(minimised(lambda z: coupling(z, target=from_graph(pairs)), rows), dim=1)
    population = Population(pairs, rows, GaussianKernel(TEMPERATURE))
    batches, largest = (60, 8) if settings.is_quick else (600, 14)
    sizes = [
        measured(population, 2**power, copies, batches=batches, generator=generator)
        for power in range(2, largest + 1)
        for copies in COPIES
    ]
    exact = float(cross_entropy_of_graphs(rows, pairs, TEMPERATURE)) / len(pairs)
    limits = [population.cross_entropy(copies) for copies in COPIES]
    return Convergence("trained" if is_trained else "random", len(pairs), batches, exact, limits, sizes)


def along_training(settings: LabSettings) -> Training:
    """An encoder trained by sampled InfoNCE on shifted digits; H over all views of all items is exact at every step."""
    items, steps, temperature = (40, 20, 0.2) if settings.is_quick else (200, 300, 0.2)
    digits, batch = shifted_digits(items), min(128, items)
    pairs = digits.pairs
    nodes = len(pairs)
    rows: list[tuple[float, ...]] = []
    training = train_encoder(digits, temperature=temperature, steps=steps, batch=batch, seed=settings.seed)
    for _, encoder, loss in training:
        with torch.no_grad():
            views = normalize(encoder(digits.views).double(), dim=1)
            whole = float(cross_entropy_of_graphs(views, pairs, temperature))
            trace, partition = float(trace_term(views, pairs, temperature)), float(partition_term(views, temperature))
        difference = abs(whole - trace - partition) / whole
        sampled = loss + math.log((nodes - 1) / (2 * batch - 1))
        rows.append((whole / nodes, trace / nodes, partition / nodes, difference, sampled))
    return Training(nodes, batch, temperature, *map(list, zip(*rows, strict=True)))


def sampled_field(settings: LabSettings) -> tuple[FieldSample, float, Interval]:
    """Graphs W_X of four nodes from the definition of the field; H, and the mean of −log P(W_Z = W_X) over them."""
    generator = torch.Generator().manual_seed(settings.seed)
    weights = torch.rand(4, 4, generator=generator, dtype=torch.float64) + 0.1
    weights = (weights + weights.T).fill_diagonal_(0) / 2
    proposals = 200_000 if settings.is_quick else 4_000_000
    graphs = sampled_by_rejection(weights, proposals, generator=generator)
    rows = normalize(torch.randn(4, 2, generator=generator, dtype=torch.float64), dim=1)
    log_walk = row_normalised(GaussianKernel(TEMPERATURE)(rows, rows).exp()).log()
    surprise = -log_walk[torch.arange(4), graphs].sum(dim=1)
    exact = float(cross_entropy_of_graphs(rows, weights, TEMPERATURE))
    return field_sample(weights, graphs, proposals=proposals), exact, interval(surprise.tolist())


def _convergence_figure(curves: list[Convergence]) -> Figure:
    """InfoNCE by batch size, and how fast what is left goes."""
    figure, axes = panels(1, 3, width=4.7, height=4.2)
    for axis, curve in zip(axes, curves, strict=False):
        both = {"copies of oneself left out": curve.of("apart"), "copies counted": curve.of("count")}
        for (name, sizes), colour, marker in zip(both.items(), COLOURS, MARKERS, strict=False):
            x, mean = [size.batch for size in sizes], [size.value["mean"] for size in sizes]
            axis.plot(x, mean, marker=marker, color=colour, label=f"InfoNCE, {name}")
            low, high = ([size.value["mean"] + sign * size.spread for size in sizes] for sign in (-1, 1))
            band(axis, x, low, high, colour)
        axis.axhline(curve.limits[0], color=COLOURS[0], linewidth=1, linestyle="--", label="H/n")
        axis.axhline(curve.limits[1], color=COLOURS[1], linewidth=1, linestyle=":", label="H/n with oneself")
        axis.set(xscale="log", xlabel="pairs in a batch", ylabel="InfoNCE + log((n−1)/(2B−1))")
        axis.set_title(f"{curve.embeddings.capitalize()} embeddings")
        bottom, top = axis.get_ylim()
        axis.set_ylim(bottom, top + 0.5 * (top - bottom))
        axis.legend(loc="upper right")
    right = axes[2]
    for curve, colour, marker in zip(curves, COLOURS[2:], MARKERS[2:], strict=False):
        sizes, name = curve.of("apart"), curve.embeddings
        x, bias = [size.batch for size in sizes], [abs(size.bias["mean"]) for size in sizes]
        beyond = [size.bias["high"] - size.bias["mean"] for size in sizes]
        right.errorbar(x, bias, yerr=beyond, fmt=marker, color=colour, label=f"|bias|, {name}")
        right.plot(x, [abs(size.foretold) for size in sizes], color=colour, label=f"|c|/(2B−1), {name}")
        right.plot(x, [size.spread for size in sizes], ":", color=colour, label=f"spread, {name}")
    right.set(xscale="log", yscale="log", xlabel="pairs in a batch", ylabel="distance from H/n")
    right.set_title("The bias falls as 1/B, the spread as 1/√B")
    right.set_ylim(top=60 * right.get_ylim()[1])  # room for the legend
    right.legend(loc="upper right", ncols=2)
    return figure


def _training_figure(training: Training) -> Figure:
    figure, (left, right) = panels(1, 2)
    steps = range(len(training.whole))
    left.plot(steps, training.sampled, color=COLOURS[7], linewidth=0.8, label="InfoNCE of the step's batch")
    left.plot(steps, training.whole, color=COLOURS[6], label="H/n, all views")
    left.plot(steps, training.partition, color=COLOURS[1], label="log-partition (pushes apart)")
    left.plot(steps, training.trace, color=COLOURS[0], label="tr(ZᵀLZ)/τ (pulls together)")
    left.set(xlabel="step", ylabel="per object", title="H is the sum of its two terms", ylim=(0, None))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    right.semilogy(steps, [max(value, 1e-18) for value in training.difference], ".", color=COLOURS[2], markersize=3)
    right.set(xlabel="step", ylabel="relative difference (0 drawn at 1e-18)", ylim=(1e-18, 1e-12))
    right.set_title("to rounding, at every step")
    return figure


def _field_figure(field: FieldSample) -> Figure:
    figure, (left, right) = panels(1, 2)
    left.loglog(field.expected, field.sampled, "o", color=COLOURS[0], markersize=4)
    ends = [min(field.expected), max(field.expected)]
    left.plot(ends, ends, color="black", linewidth=0.8)
    left.set(xlabel="closed form ∏ P", ylabel=f"share of {field.accepted:,} sampled graphs")
    left.set_title(f"All {len(field.expected)} graphs of out-degree one")
    right.loglog(field.samples, field.total_variation, "o-", color=COLOURS[0], label="sampled by rejection")
    right.loglog(field.samples, field.noise_alone, "--", color=COLOURS[6], label="sampling noise alone")
    right.set(xlabel="sampled graphs", ylabel="total variation to ∏ P", title=f"χ² test: p = {field.p_value:.2f}")
    right.legend()
    return figure


def _priors_figure(priors: list[Reached]) -> Figure:
    """Above the targets, below what the embeddings reach; one colour scale a column."""
    figure, axes = panels(2, 3, width=3.6, height=3.7)
    for column, reached in enumerate(priors):
        highest = max(max(map(max, matrix)) for matrix in (reached.target, reached.reached))
        for row, (name, matrix) in enumerate((("target E[W_X]", reached.target), ("reached E[W_Z]", reached.reached))):
            axis = axes[row * 3 + column]
            image = axis.imshow(matrix, vmin=0, vmax=highest, interpolation="nearest")
            axis.grid(visible=False)
            axis.set_title(f"{reached.prior}: {name}")
            blocks = range(0, len(matrix), len(matrix) // 3)
            axis.set(xticks=blocks, yticks=blocks, xlabel="node" if row else "", ylabel="" if column else "node")
        label = "probability of the edge"
        figure.colorbar(image, ax=[axes[column], axes[3 + column]], location="bottom", shrink=0.8, label=label)
    return figure
