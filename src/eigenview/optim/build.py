"""Optimizers by name, over parameter groups; and the rate of a step put into them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from torch.optim import SGD, Adam, AdamW, Optimizer

from eigenview.errors import SettingError
from eigenview.optim.groups import ParameterGroup
from eigenview.optim.lars import LARC, LARS

OPTIMIZERS = ("sgd", "lars", "larc", "adam", "adamw")


def build_optimizer(
    name: str,
    groups: Sequence[ParameterGroup],
    *,
    momentum: float = 0.9,
    nesterov: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    trust: float = 0.001,
    clip: bool = False,
) -> Optimizer:
    """The optimizer called ``name``. ``momentum`` and ``nesterov``: sgd, lars, larc; ``betas`` and ``eps``: adam,
    adamw; ``trust``: lars, larc; ``clip``: larc. What an optimizer does not have is not looked at.

    ``adam`` adds weight decay to the gradient, ``adamw`` to the step.
    """
    if not groups:
        raise SettingError("an optimizer needs at least one parameter group; got none")
    entries = [_entry(group) for group in groups]
    rate = groups[0].learning_rate
    if name == "sgd":
        return SGD(entries, lr=rate, momentum=momentum, nesterov=nesterov)
    if name == "lars":
        return LARS(entries, lr=rate, momentum=momentum, nesterov=nesterov, trust=trust)
    if name == "larc":
        return LARC(entries, lr=rate, momentum=momentum, nesterov=nesterov, trust=trust, clip=clip)
    if name == "adam":
        return Adam(entries, lr=rate, betas=betas, eps=eps)
    if name == "adamw":
        return AdamW(entries, lr=rate, betas=betas, eps=eps)
    close = get_close_matches(name.lower(), OPTIMIZERS, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise SettingError(f"optimizer must be one of {', '.join(OPTIMIZERS)}; got {name!r}{meant}")


def set_learning_rate(optimizer: Optimizer, multiplier: float) -> None:
    """Every scheduled group's rate becomes its base rate × ``multiplier``; the others keep their base rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * (multiplier if group["scheduled"] else 1.0)


def _entry(group: ParameterGroup) -> dict[str, Any]:
    return {
        "params": list(group.parameters),
        "name": group.name,
        "lr": group.learning_rate,
        "base_lr": group.learning_rate,
        "weight_decay": group.weight_decay,
        "adapted": group.is_adapted,
        "scheduled": group.is_scheduled,
    }
