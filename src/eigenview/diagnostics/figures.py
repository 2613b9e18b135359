"""What a diagnosis holds: figures with their intervals, findings, how far the run came; as JSON, and as lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from eigenview.diagnostics.clusters import ClusterCount, Connectivity, PrototypeUsage
from eigenview.diagnostics.estimates import Estimate
from eigenview.diagnostics.modalities import Modalities
from eigenview.diagnostics.neighbours import Hubness
from eigenview.files import from_json, to_json

VERSION = 2  # of a diagnosis as it is written


@dataclass(frozen=True)
class RunProgress:
    """Where a run ended. ``has_diverged``: what came after the last finite loss was not finite."""

    loss: float | None = None  # the last finite one
    chance: float | None = None  # the loss on constant embeddings
    has_diverged: bool = False
    steps: int | None = None  # of the optimizer
    epochs: float | None = None  # over the data
    share: float | None = None  # of the planned length; None where that was given in minutes
    late_fall: float | None = None  # see late_fall()

    def __str__(self) -> str:
        said = [] if self.steps is None else [f"{self.steps:,} steps"]
        if self.epochs is not None:
            said.append(f"{self.epochs:.3g} epochs" if self.epochs >= 1 else "less than an epoch")
        said += [] if self.share is None or self.share >= 1 else [f"{self.share:.0%} of what was planned"]
        return ", ".join(said) or "unknown"


def late_fall(losses: Sequence[float]) -> float | None:
    """The share of its whole fall that a loss made at the end: (third quarter − last) / (first quarter − last).

    Means of quarters; 1/3 for a straight line down, about 0 where it settled. None of fewer than 8 losses, or where
    the loss did not fall.
    """
    if len(losses) < 8:
        return None
    ends = [len(losses) * quarter // 4 for quarter in range(5)]
    first, _, third, last = (sum(losses[a:b]) / (b - a) for a, b in pairwise(ends))
    return (third - last) / (first - last) if first > last else None


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, the figures that say so, and what to try."""

    name: str
    reasons: tuple[str, ...]
    advice: str


@dataclass(frozen=True)
class ViewFigures:
    """What two views of the same items add."""

    alignment: float
    unrelated_alignment: float  # the same between views of different items
    matched: Estimate  # share of rows that find their other view first
    preservation: Estimate  # share of neighbours that both views agree on
    connectivity: Connectivity

    @property
    def disagreement(self) -> float:
        """Alignment / that of unrelated items: 0 for identical views, 1 for unrelated ones, or when all is a point."""
        return self.alignment / self.unrelated_alignment if self.unrelated_alignment > 0 else 1.0


@dataclass(frozen=True)
class Figures:
    """Everything measured on (n, d) embeddings. What was not asked for, or needs more rows, is None."""

    n: int
    d: int
    effective_rank: float  # RankMe
    effective_rank_centred: float  # the same around the mean row
    stable_rank: float  # around the mean row
    decay: float | None  # α-ReQ; None when fewer than two directions vary
    singular_values: tuple[float, ...]  # of the rows as given
    variances: tuple[float, ...]  # of each dimension
    dead: tuple[int, ...]  # dimensions that hardly vary
    mean_cosine: float
    uniformity: Estimate
    floor: float  # of uniformity in d dimensions
    hubness: Hubness
    duplicates: Estimate  # share of rows with one
    duplicates_by_chance: float  # the share a smooth cloud of that intrinsic dimension would show at most
    duplicate_pairs: tuple[tuple[int, int], ...]  # some of them
    intrinsic_dimension: float | None  # of the neighbourhoods of sampled anchors
    clusters: ClusterCount | None
    views: ViewFigures | None
    tolerance: float | None
    usage: PrototypeUsage | None = None
    loss: float | None = None
    chance: float | None = None
    is_centred: bool = False  # True: the mean row was taken off before directions were compared
    has_diverged: bool = False  # True: the run's loss or weights ended as NaN or infinity
    progress: RunProgress | None = None  # of the run; None for embeddings of which nobody knows
    modalities: Modalities | None = None  # of a run that learnt from captions, where the images have some

    @property
    def crowding(self) -> float:
        """1 − uniformity/floor: 0 on the uniform sphere, 1 at a single point."""
        return 1 - self.uniformity.value / self.floor


@dataclass(frozen=True)
class Diagnosis:
    """Figures and findings. Healthy when there are none; else the first is the gravest."""

    verdict: str
    findings: tuple[Finding, ...]
    figures: Figures
    seed: int  # of the sampled anchors
    version: int = 1  # of what is written: 1 where a file does not say. New fields have defaults: earlier files open

    def to_json(self) -> str:
        return to_json(self)

    @classmethod
    def from_json(cls, text: str | bytes, place: str | Path = "a stored diagnosis") -> Diagnosis:
        """What :meth:`to_json` wrote, also of another version; anything else is refused. ``place`` is where it was."""
        return from_json(cls, text, place)

    def lines(self) -> list[str]:
        """For a terminal: the verdict, each finding's reasons and advice, then the figures."""
        figures = self.figures
        said = [f"{self.verdict}: {figures.n:,} embeddings of {figures.d} dimensions"]
        for finding in self.findings:
            said += [f"  {finding.name}", *(f"    because {reason}" for reason in finding.reasons)]
            said.append(f"    try: {finding.advice}")
        width = max(len(name) for name, _ in self.table())
        return said + [f"  {name:<{width}}  {value}" for name, value in self.table()]

    def table(self) -> list[tuple[str, str]]:
        """(name, value) of every figure; an interval in brackets where anchors were sampled."""
        return _table(self.figures) + _table_of_extras(self.figures)


def _table(figures: Figures) -> list[tuple[str, str]]:
    """What every diagnosis has."""
    rank, centred, hubs = figures.effective_rank, figures.effective_rank_centred, figures.hubness
    inner = figures.intrinsic_dimension
    return [
        ("effective rank", f"{rank:.4g} of {min(figures.n, figures.d)}; {centred:.4g} around the mean"),
        ("stable rank", f"{figures.stable_rank:.4g} around the mean"),
        ("power-law slope", "none: nothing varies" if figures.decay is None else f"{figures.decay:.3g}"),
        ("dead dimensions", f"{len(figures.dead)} of {figures.d}"),
        ("mean cosine", f"{figures.mean_cosine:.4g}"),
        ("uniformity", f"{figures.uniformity}, floor {figures.floor:.4g}{', around the mean' * figures.is_centred}"),
        ("hubness", f"skewness {hubs.skewness}, anti-hubs {hubs.antihubs}, among {hubs.rows:,} rows"),
        ("near-duplicates", f"{figures.duplicates.in_percent} of rows have one"),
        ("intrinsic dimension", "none" if inner is None else f"{inner:.3g}"),
    ]


def _table_of_extras(figures: Figures) -> list[tuple[str, str]]:
    said = []
    if (count := figures.clusters) is not None:
        said.append(("clusters", f"{count}; {count.components} components, {count.nodes:,} rows"))
    if (views := figures.views) is not None:
        meeting = views.connectivity
        said += [
            ("alignment", f"{views.alignment:.4g}, unrelated items {views.unrelated_alignment:.4g}"),
            ("views matched", f"{views.matched} of rows find their other view first"),
            ("neighbours kept", f"{views.preservation} between views"),
            ("images that meet", f"{meeting.meeting}, {meeting.components} islands of {meeting.images:,} images"),
        ]
    if figures.modalities is not None:
        said += figures.modalities.table()
    if figures.tolerance is not None:
        said.append(("tolerance", f"{figures.tolerance:.4g}"))
    if (usage := figures.usage) is not None:
        said.append(("prototype usage", f"entropy {usage.entropy:.3f}, {usage.unused} of {usage.prototypes} unused"))
    if figures.loss is not None:
        chance = "" if figures.chance is None else f", chance {figures.chance:.4g}"
        said.append(("loss", f"{figures.loss:.4g}{chance}"))
    if figures.progress is not None:
        said.append(("run", str(figures.progress)))
    return said
