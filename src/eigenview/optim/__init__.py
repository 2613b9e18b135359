"""Optimizers, parameter groups and schedules: used by training and by probes."""

from __future__ import annotations

from eigenview.optim.build import OPTIMIZERS, build_optimizer, set_learning_rate
from eigenview.optim.groups import Apart, ParameterGroup, depth_rates, freeze_blocks, parameter_groups
from eigenview.optim.lars import LARC, LARS
from eigenview.optim.schedules import (
    Schedule,
    build_schedule,
    constant,
    cosine,
    scaled_learning_rate,
    step_decay,
    warm_up,
)

__all__ = [
    "LARC",
    "LARS",
    "OPTIMIZERS",
    "Apart",
    "ParameterGroup",
    "Schedule",
    "build_optimizer",
    "build_schedule",
    "constant",
    "cosine",
    "depth_rates",
    "freeze_blocks",
    "parameter_groups",
    "scaled_learning_rate",
    "set_learning_rate",
    "step_decay",
    "warm_up",
]
