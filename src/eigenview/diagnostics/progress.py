"""How far the run came whose embeddings are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


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
