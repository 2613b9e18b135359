"""Training: settings in, a run directory out."""

from eigenview.training.choices import Choice, Chosen, choose
from eigenview.training.launch import train
from eigenview.training.listeners import Listener, Plan
from eigenview.training.loop import TrainingDiverged
from eigenview.training.shown import shown_progress

__all__ = ["Choice", "Chosen", "Listener", "Plan", "TrainingDiverged", "choose", "shown_progress", "train"]
