"""How far the run came whose embeddings are judged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunProgress:
    """Where a run ended. ``has_diverged``: what came after the last finite loss was not finite."""

    loss: float | None = None  # the last finite one
    chance: float | None = None  # the loss on constant embeddings
    has_diverged: bool = False
    steps: int | None = None  # of the optimizer
    epochs: float | None = None  # over the data
