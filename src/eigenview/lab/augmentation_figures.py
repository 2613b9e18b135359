"""The figures of the experiment ``augmentation-graph``, from its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eigenview.lab.figures import COLOURS, MARKERS, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_digits(data: Mapping[str, Any]) -> Figure:
    """Spectra by coarseness; what each encoder explains of each eigenfunction; agreement; classes against the gap."""
    figure, (spectra, shares, bars, planted) = panels(2, 2, width=6.2, height=4.3)
    for number, row in enumerate(data["coarseness"]):
        values = row["eigenvalues"]
        label = f"{row['side']} × {row['side']}, {row['levels']} levels; parts: {row['components']}"
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        spectra.plot(range(1, len(values) + 1), values, marker=marker, markersize=3.5, color=colour, label=label)
    spectra.set_title("exact graph: eigenvalues by coarseness of the views")
    spectra.set_xlabel("number")
    spectra.set_ylabel("eigenvalue of the normalised Laplacian")
    spectra.set_ylim(-0.03, 1.25)
    spectra.legend(fontsize=8, ncols=2, loc="upper center")

    names = list(data["encoders"])
    for number, name in enumerate(names):
        own = data["encoders"][name]["captured"]
        shares.plot(range(2, len(own) + 2), own, marker=MARKERS[number], color=COLOURS[number], label=name)
    shares.set_title("eigenfunctions that a linear map of the encoder explains")
    shares.set_xlabel("eigenfunction (1 is constant)")
    shares.set_ylabel("R²")
    shares.set_ylim(0, 1.05)
    shares.legend(loc="upper right", bbox_to_anchor=(1, 0.95))

    kinds = {"cka": "CKA", "neighbours": "shared neighbours", "rand_index_with_graph": "ARI with graph's clusters"}
    kinds["rand_index"] = "ARI with classes"
    for number, (key, title) in enumerate(kinds.items()):
        values = [data["encoders"][name][key] for name in names]
        place = [index + (number - 1.5) * 0.2 for index in range(len(names))]
        reach = [[interval["mean"] - interval["low"], interval["high"] - interval["mean"]] for interval in values]
        bars.bar(
            place,
            [interval["mean"] for interval in values],
            width=0.19,
            color=COLOURS[number],
            label=title,
            yerr=list(zip(*reach, strict=True)),
            error_kw={"lw": 0.9},
        )
    bars.axhline(data["rand_index_of_graph"], color=COLOURS[3], linestyle=":", linewidth=1.4)
    bars.set_xticks(range(len(names)), names)
    bars.set_title("agreement with the spectral embedding (dotted: graph's ARI)")
    bars.set_ylim(0, 1.3)
    bars.legend(ncols=2, fontsize=8.5, loc="upper left")

    for number, classes in enumerate(sorted({len(row["classes"]) for row in data["planted"]["graphs"]})):
        own = [row for row in data["planted"]["graphs"] if len(row["classes"]) == classes]
        gaps, agreed = [row["gap"] for row in own], [row["rand_index"] for row in own]
        planted.scatter(gaps, agreed, marker=MARKERS[number], color=COLOURS[number], s=40, label=f"{classes} classes")
    planted.set_title("graphs of some classes")
    planted.set_xlabel("eigengap after as many eigenvalues as classes")
    planted.set_ylabel("ARI of spectral clusters with classes")
    planted.set_ylim(-0.05, 1.05)
    planted.legend(loc="lower right")
    return figure


def draw_bandwidths(data: Mapping[str, Any]) -> Figure:
    """Spectra, agreement with the encoders, and accuracy, along the bandwidths."""
    figure, (spectra, agreement, accuracy) = panels(1, 3, width=5.1, height=4.2)
    rows = data["bandwidths"]
    shares = [row["bandwidth"] for row in rows]
    for number, row in enumerate(rows):
        values, colour = row["eigenvalues"], COLOURS[number % len(COLOURS)]
        spectra.plot(range(1, len(values) + 1), values, marker="o", markersize=3, color=colour, label=row["bandwidth"])
    spectra.set_title("eigenvalues by bandwidth")
    spectra.set_xlabel("number")
    spectra.set_ylabel("eigenvalue of the normalised Laplacian")
    spectra.legend(title="σ / nearest stranger", title_fontsize=9, fontsize=8.5, ncols=2, loc="best")
    for number, name in enumerate(data["encoders"]):
        for key, line in (("cka", "-"), ("captured", "--"), ("neighbours", ":")):
            values = [row["agreement"][name][key] for row in rows]
            label = {"cka": f"{name}: CKA", "captured": "explained R²", "neighbours": "shared neighbours"}[key]
            agreement.plot(shares, values, line, marker=MARKERS[number], color=COLOURS[number], label=label)
        accuracy.axhline(data["encoders"][name]["accuracy"], color=COLOURS[number], linestyle="--", label=name)
    agreement.set_title("agreement with the spectral embedding")
    agreement.set_ylim(0, 1.35)
    agreement.legend(fontsize=7.5, ncols=3, loc="upper center")
    accuracy.plot(
        shares, [row["accuracy"] for row in rows], marker="o", color=COLOURS[6], label="spectral embedding of the graph"
    )
    accuracy.axhline(0.1, color="black", linestyle=":", linewidth=1, label="chance")
    accuracy.set_title("10-NN accuracy of images")
    accuracy.set_ylim(0.05, 0.6)
    accuracy.legend(loc="upper left")
    for place in (agreement, accuracy):
        place.set_xscale("log")
        place.set_xlabel("bandwidth σ / nearest stranger's distance")
        place.set_xticks(shares, [f"{share:g}" for share in shares])
        place.minorticks_off()
    return figure
