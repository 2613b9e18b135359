"""Optimizers by name, over parameter groups; and the rate of a step put into them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch.optim import SGD, Adam, AdamW, Optimizer

from eigenview.errors import SettingError
from eigenview.names import Table
from eigenview.optim.groups import ParameterGroup
from eigenview.optim.optimizers import LARC, LARS, Muon


class Kind(NamedTuple):
    """An optimizer, and which options of :func:`build_optimizer` it has."""

    build: Callable[..., Optimizer]
    options: tuple[str, ...]


OPTIMIZERS = Table(
    "optimizer",
    {
        "sgd": Kind(SGD, ("momentum", "nesterov")),
        "lars": Kind(LARS, ("momentum", "nesterov", "trust")),
        "larc": Kind(LARC, ("momentum", "nesterov", "trust", "clip")),
        "adam": Kind(Adam, ("betas", "eps")),
        "adamw": Kind(AdamW, ("betas", "eps")),
        "muon": Kind(Muon, ("momentum", "betas", "eps")),
    },
)


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
    """The optimizer called ``name``. The options that it does not have (see ``OPTIMIZERS``) are not looked at.

    ``adam`` adds weight decay to the gradient, ``adamw`` to the step.
    """
    kind = OPTIMIZERS.find(name)
    if not groups:
        raise SettingError("an optimizer needs at least one parameter group; got none")
    given = {"momentum": momentum, "nesterov": nesterov, "betas": betas, "eps": eps, "trust": trust, "clip": clip}
    options: dict[str, Any] = {option: given[option] for option in kind.options}
    entries = [
        {
            "params": list(group.parameters),
            "name": group.name,
            "lr": group.learning_rate,
            "base_lr": group.learning_rate,
            "weight_decay": group.weight_decay,
            "adapted": group.is_adapted,
            "scheduled": group.is_scheduled,
        }
        for group in groups
    ]
    return kind.build(entries, lr=groups[0].learning_rate, **options)


def set_learning_rate(optimizer: Optimizer, multiplier: float) -> None:
    """Every scheduled group's rate becomes its base rate × ``multiplier``; the others keep their base rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * (multiplier if group["scheduled"] else 1.0)
