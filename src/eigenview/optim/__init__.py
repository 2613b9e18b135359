"""Optimizers, parameter groups and schedules: used by training and by probes."""

from eigenview.optim.build import build_optimizer, set_learning_rate
from eigenview.optim.groups import Apart, ParameterGroup, depth_rates, freeze_blocks, parameter_groups
from eigenview.optim.schedules import build_schedule, scaled_learning_rate

__all__ = [
    "Apart",
    "ParameterGroup",
    "build_optimizer",
    "build_schedule",
    "depth_rates",
    "freeze_blocks",
    "parameter_groups",
    "scaled_learning_rate",
    "set_learning_rate",
]
