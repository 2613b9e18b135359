"""Sweeps: many runs, each with other settings, to find those that get furthest."""

from eigenview.sweeps.config import SweepConfig, gathered, read_fixed, read_words
from eigenview.sweeps.results import Results, Trial
from eigenview.sweeps.worker import Worker

__all__ = [
    "Results",
    "SweepConfig",
    "Trial",
    "Worker",
    "gathered",
    "read_fixed",
    "read_words",
]
