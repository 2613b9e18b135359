"""Training: settings in, a run directory out."""

from __future__ import annotations

from eigenview.training.config import TrainConfig, load_config, read_config
from eigenview.training.loop import NotFinite, train
from eigenview.training.run import Run

__all__ = ["NotFinite", "Run", "TrainConfig", "load_config", "read_config", "train"]
