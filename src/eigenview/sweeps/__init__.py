"""Sweeps: many runs, each with other settings, to find those that get furthest."""

from __future__ import annotations

from eigenview.sweeps.config import SweepConfig, gathered, read_sweep
from eigenview.sweeps.objectives import OBJECTIVES
from eigenview.sweeps.results import Results, Trial, is_sweep, read_results
from eigenview.sweeps.space import read_fixed, read_words
from eigenview.sweeps.worker import Worker

__all__ = [
    "OBJECTIVES",
    "Results",
    "SweepConfig",
    "Trial",
    "Worker",
    "gathered",
    "is_sweep",
    "read_fixed",
    "read_results",
    "read_sweep",
    "read_words",
]
