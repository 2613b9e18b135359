"""Means over seeds with their intervals, and how the laboratory's figures look: one style, colours that the
colour-blind tell apart, sizes that can be read.

matplotlib comes with the extra ``lab`` and is imported only when a figure is drawn. Figures are made without pyplot:
no window, no global list of figures, any thread.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from eigenview.diagnostics.estimates import mean_of_sets
from eigenview.errors import SettingError
from eigenview.extras import extra_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Interval = dict[str, float]  # mean, low, high
COLOURS = (  # Okabe & Ito 2008, yellow left out: too pale for lines on white
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # pink
    "#E69F00",  # orange
    "#56B4E9",  # sky blue
    "#000000",
    "#7F7F7F",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # beside colours, so that print in grey can be read too
STYLE: dict[str, object] = {
    "figure.dpi": 130,
    "savefig.dpi": 130,
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "image.cmap": "viridis",
    "axes.formatter.use_mathtext": True,
}


def interval(values: Sequence[float], *, within: tuple[float, float] = (-math.inf, math.inf)) -> Interval:
    """The mean over seeds (or other independent repeats, at least two) with Student's 95% interval.

    ``within`` cuts the interval to the values that the figure can have.
    """
    if len(values) < 2:
        raise SettingError(f"an interval needs at least two repeats; got {len(values)}")
    mean = mean_of_sets(list(values), 1, within=within)
    return {"mean": mean.value, "low": mean.low, "high": mean.high}


@dataclass(frozen=True)
class Measure:
    """What an experiment measures in every run: its name in a figure, and the values it can have."""

    title: str
    low: float = -math.inf
    high: float = math.inf


def intervals(samples: Sequence[Mapping[str, float]], measures: Mapping[str, Measure]) -> dict[str, Interval]:
    """The interval of each measure over samples that each have them all."""
    ends = {key: (measure.low, measure.high) for key, measure in measures.items()}
    return {key: interval([sample[key] for sample in samples], within=within) for key, within in ends.items()}


def written(interval: Interval, digits: int = 3, *, sign: str = "") -> str:
    """mean [low, high]; ``sign="+"`` writes that of positive numbers too."""
    mean, low, high = (f"{interval[key]:{sign}.{digits}f}" for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw what is inside in the laboratory's style. :func:`run_experiment` does so for every experiment."""
    with _matplotlib().rc_context({**STYLE, "axes.prop_cycle": f"cycler('color', {list(COLOURS)})"}):
        yield


def panels(rows: int = 1, columns: int = 1, *, width: float = 5.0, height: float = 3.8) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, row by row; ``width`` and ``height`` in inches are of one panel."""
    _matplotlib()
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.ravel())


def reach(intervals: Sequence[Interval]) -> list[list[float]]:
    """What matplotlib takes for error bars: how far the intervals reach below their means, and above."""
    return [
        [value["mean"] - value["low"] for value in intervals],
        [value["high"] - value["mean"] for value in intervals],
    ]


def means(axes: Axes, x: Sequence[float], intervals: Sequence[Interval], colour: str, **style: Any) -> None:
    """A line through the means of intervals."""
    axes.plot(x, [value["mean"] for value in intervals], color=colour, **style)


def curve(axes: Axes, x: Sequence[float], intervals: Sequence[Interval], colour: str, **style: Any) -> None:
    """The same, in a pale band of the intervals."""
    means(axes, x, intervals, colour, **style)
    band(axes, x, [value["low"] for value in intervals], [value["high"] for value in intervals], colour)


def band(axes: Axes, x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> None:
    """A pale band between ``low`` and ``high``: an interval around a line."""
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})
    return content.getvalue()


def _matplotlib() -> ModuleType:
    return extra_module("matplotlib", extra="lab", purpose="a figure of the laboratory")
