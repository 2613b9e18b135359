"""Training: settings in, a run directory out."""

from __future__ import annotations

from eigenview.training.choices import Choice, Chosen, choose
from eigenview.training.config import TrainConfig, load_config, read_config
from eigenview.training.listeners import Listener, Plan
from eigenview.training.loop import TrainingDiverged, train
from eigenview.training.progress import progress
from eigenview.training.run import Run

__all__ = [
    "Choice",
    "Chosen",
    "Listener",
    "Plan",
    "Run",
    "TrainConfig",
    "TrainingDiverged",
    "choose",
    "load_config",
    "progress",
    "read_config",
    "train",
]
