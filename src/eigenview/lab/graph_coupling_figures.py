"""The figures of the experiment ``graph-coupling``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenview.lab.figures import COLOURS, MARKERS, band, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eigenview.lab.graph_coupling import Convergence, Training
    from eigenview.lab.priors import Reached
    from eigenview.lab.random_graphs import FieldSample


def convergence_figure(curves: list[Convergence]) -> Figure:
    """InfoNCE by batch size, and how fast what is left goes."""
    figure, axes = panels(1, 3, width=4.7, height=4.2)
    for axis, curve in zip(axes, curves, strict=False):
        for copies, colour, marker in zip(("apart", "count"), COLOURS, MARKERS, strict=False):
            sizes = curve.of(copies)  # type: ignore[arg-type]
            x = [size.batch for size in sizes]
            name = {"apart": "copies of oneself left out", "count": "copies counted"}[copies]
            axis.plot(x, [size.value["mean"] for size in sizes], marker=marker, color=colour, label=f"InfoNCE, {name}")
            spread = [(size.value["mean"] - size.spread, size.value["mean"] + size.spread) for size in sizes]
            band(axis, x, [low for low, _ in spread], [high for _, high in spread], colour)
        axis.axhline(curve.limits[0], color=COLOURS[0], linewidth=1, linestyle="--", label="H/n")
        axis.axhline(curve.limits[1], color=COLOURS[1], linewidth=1, linestyle=":", label="H/n with oneself")
        axis.set(xscale="log", xlabel="pairs in a batch", ylabel="InfoNCE + log((n−1)/(2B−1))")
        axis.set_title(f"{curve.embeddings.capitalize()} embeddings")
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.5 * (high - low))
        axis.legend(loc="upper right")
    right = axes[2]
    for curve, colour, marker in zip(curves, COLOURS[2:], MARKERS[2:], strict=False):
        sizes = curve.of("apart")
        x = [size.batch for size in sizes]
        reach = [size.bias["high"] - size.bias["mean"] for size in sizes]
        right.errorbar(
            x,
            [abs(size.bias["mean"]) for size in sizes],
            yerr=reach,
            fmt=marker,
            color=colour,
            label=f"|bias|, {curve.embeddings}",
        )
        right.plot(x, [abs(size.foretold) for size in sizes], color=colour, label=f"|c|/(2B−1), {curve.embeddings}")
        right.plot(x, [size.spread for size in sizes], ":", color=colour, label=f"spread, {curve.embeddings}")
    right.set(xscale="log", yscale="log", xlabel="pairs in a batch", ylabel="distance from H/n")
    right.set_title("The bias falls as 1/B, the spread as 1/√B")
    low, high = right.get_ylim()
    right.set_ylim(low, 60 * high)  # room for the legend
    right.legend(loc="upper right", ncols=2)
    return figure


def training_figure(training: Training) -> Figure:
    figure, (left, right) = panels(1, 2)
    steps = range(len(training.whole))
    left.plot(steps, training.sampled, color=COLOURS[7], linewidth=0.8, label="InfoNCE of the step's batch")
    left.plot(steps, training.whole, color=COLOURS[6], label="H/n, all views")
    left.plot(steps, training.partition, color=COLOURS[1], label="log-partition (pushes apart)")
    left.plot(steps, training.trace, color=COLOURS[0], label="tr(ZᵀLZ)/τ (pulls together)")
    left.set(xlabel="step", ylabel="per object", title="H is the sum of its two terms", ylim=(0, None))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    right.semilogy(steps, [max(value, 1e-18) for value in training.difference], ".", color=COLOURS[2], markersize=3)
    right.set(xlabel="step", ylabel="relative difference (0 drawn at 1e-18)")
    right.set_title("to rounding, at every step")
    right.set_ylim(1e-18, 1e-12)
    return figure


def field_figure(field: FieldSample) -> Figure:
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


def priors_figure(priors: list[Reached]) -> Figure:
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
