"""The figures of the experiment ``augmentation-graph``, from its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eigenview.lab.figures import COLOURS, MARKERS, panels, reach


def draw_digits(data: Mapping[str, Any]) -> Figure:
    """Spectra by coarseness; what each encoder explains of each eigenfunction; agreement; classes against the gap."""
    figure, (spectra, shares, bars, planted) = panels(2, 2, width=6.2, height=4.3)
    for row, colour, marker in zip(data["coarseness"], COLOURS, MARKERS, strict=False):
        label = f"{row['side']} × {row['side']}, {row['levels']} levels; parts: {row['components']}"
        _spectrum(spectra, row["eigenvalues"], marker=marker, markersize=3.5, color=colour, label=label)
    spectra.set(title="exact graph: eigenvalues by coarseness of the views", ylim=(-0.03, 1.25))
    spectra.legend(fontsize=8, ncols=2, loc="upper center")

    encoders = data["encoders"]
    for (name, encoder), colour, marker in zip(encoders.items(), COLOURS, MARKERS, strict=False):
        own = encoder["captured"]
        shares.plot(range(2, len(own) + 2), own, marker=marker, color=colour, label=name)
    shares.set(title="eigenfunctions that a linear map of the encoder explains", ylabel="R²", ylim=(0, 1.05))
    shares.set_xlabel("eigenfunction (1 is constant)")
    shares.legend(loc="upper right", bbox_to_anchor=(1, 0.95))

    kinds = {
        "cka": "CKA",
        "neighbours": "shared neighbours",
        "rand_index_with_graph": "ARI with graph's clusters",
        "rand_index": "ARI with classes",
    }
    for number, (key, title) in enumerate(kinds.items()):
        values = [encoder[key] for encoder in encoders.values()]
        place, height = [index + (number - 1.5) * 0.2 for index in range(len(encoders))], [v["mean"] for v in values]
        style: dict[str, Any] = {"yerr": reach(values), "error_kw": {"lw": 0.9}, "color": COLOURS[number]}
        bars.bar(place, height, width=0.19, label=title, **style)
    bars.axhline(data["rand_index_of_graph"], color=COLOURS[3], linestyle=":", linewidth=1.4)
    bars.set_xticks(range(len(encoders)), list(encoders))
    bars.set(title="agreement with the spectral embedding (dotted: graph's ARI)", ylim=(0, 1.3))
    bars.legend(ncols=2, fontsize=8.5, loc="upper left")

    graphs = data["planted"]["graphs"]
    for classes, colour, marker in zip(sorted({len(row["classes"]) for row in graphs}), COLOURS, MARKERS, strict=False):
        own = [row for row in graphs if len(row["classes"]) == classes]
        gaps, agreed = [row["gap"] for row in own], [row["rand_index"] for row in own]
        planted.scatter(gaps, agreed, marker=marker, color=colour, s=40, label=f"{classes} classes")
    planted.set(title="graphs of some classes", xlabel="eigengap after as many eigenvalues as classes")
    planted.set(ylabel="ARI of spectral clusters with classes", ylim=(-0.05, 1.05))
    planted.legend(loc="lower right")
    return figure


def draw_bandwidths(data: Mapping[str, Any]) -> Figure:
    """Spectra, agreement with the encoders, and accuracy, along the bandwidths."""
    figure, (spectra, agreement, accuracy) = panels(1, 3, width=5.1, height=4.2)
    rows = data["bandwidths"]
    shares = [row["bandwidth"] for row in rows]
    for row, colour in zip(rows, COLOURS, strict=False):
        _spectrum(spectra, row["eigenvalues"], marker="o", markersize=3, color=colour, label=row["bandwidth"])
    spectra.set_title("eigenvalues by bandwidth")
    spectra.legend(title="σ / nearest stranger", title_fontsize=9, fontsize=8.5, ncols=2, loc="best")
    for (name, encoder), colour, marker in zip(data["encoders"].items(), COLOURS, MARKERS, strict=False):
        names = {"cka": f"{name}: CKA", "captured": "explained R²", "neighbours": "shared neighbours"}
        for (key, label), line in zip(names.items(), ("-", "--", ":"), strict=True):
            values = [row["agreement"][name][key] for row in rows]
            agreement.plot(shares, values, line, marker=marker, color=colour, label=label)
        accuracy.axhline(encoder["accuracy"], color=colour, linestyle="--", label=name)
    agreement.set(title="agreement with the spectral embedding", ylim=(0, 1.35))
    agreement.legend(fontsize=7.5, ncols=3, loc="upper center")
    values = [row["accuracy"] for row in rows]
    accuracy.plot(shares, values, marker="o", color=COLOURS[6], label="spectral embedding of the graph")
    accuracy.axhline(0.1, color="black", linestyle=":", linewidth=1, label="chance")
    accuracy.set(title="10-NN accuracy of images", ylim=(0.05, 0.6))
    accuracy.legend(loc="upper left")
    for place in (agreement, accuracy):
        place.set(xscale="log", xlabel="bandwidth σ / nearest stranger's distance")
        place.set_xticks(shares, [f"{share:g}" for share in shares])
        place.minorticks_off()
    return figure


def _spectrum(axes: Axes, eigenvalues: Sequence[float], **style: Any) -> None:
    axes.plot(range(1, len(eigenvalues) + 1), eigenvalues, **style)
    axes.set(xlabel="number", ylabel="eigenvalue of the normalised Laplacian")
