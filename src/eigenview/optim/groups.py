"""Which parameters are decayed, adapted and scheduled, and with what learning rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from eigenview.errors import SettingError

NORMS = (
    nn.modules.batchnorm._NormBase,  # batch and instance norms, synchronised ones too
    nn.GroupNorm,
    nn.LayerNorm,
    nn.LocalResponseNorm,
    nn.RMSNorm,
)


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are treated alike."""

    name: str
    parameters: tuple[nn.Parameter, ...] = field(repr=False)
    learning_rate: float
    weight_decay: float
    is_adapted: bool = True  # by LARS and LARC; other optimizers do not look
    is_scheduled: bool = True  # False: the learning rate stays, whatever the schedule says


@dataclass(frozen=True)
class Apart:
    """How a part of the module differs: a learning rate of its own, or one that stays constant."""

    learning_rate: float
    is_scheduled: bool = True  # False is SimSiam's predictor


def parameter_groups(
    module: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    exclude: Sequence[str] = ("bias", "norm"),
    apart: Mapping[str, Apart] | None = None,
) -> list[ParameterGroup]:
    """The trainable parameters of ``module`` in groups, each parameter once.

    ``exclude``: what is neither decayed nor adapted (LARS, LARC): ``bias`` (every parameter of that name), ``norm``
    (parameters of normalisation layers), or the dotted name of a parameter or submodule. Nothing is excluded by
    ``()``, as in SwAV. ``apart``: submodules by dotted name (``predictor``, ``head``) with their own learning rate;
    the longest name that fits counts.
    """
    apart = dict(apart or {})
    _check(module, learning_rate, weight_decay, exclude, apart)
    in_norms = {
        id(parameter)
        for layer in module.modules()
        if isinstance(layer, NORMS)
        for parameter in layer.parameters(recurse=False)
    }
    members: dict[tuple[str, bool], list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        where = max((prefix for prefix in apart if _is_inside(name, prefix)), key=len, default="")
        excluded = (
            ("bias" in exclude and name.rsplit(".", 1)[-1] == "bias")
            or ("norm" in exclude and id(parameter) in in_norms)
            or any(_is_inside(name, prefix) for prefix in exclude)
        )
        members.setdefault((where, excluded), []).append(parameter)
    if not members:
        raise SettingError("an optimizer needs at least one trainable parameter; this module has none")
    groups = []
    for (where, excluded), parameters in members.items():
        own = apart.get(where, Apart(learning_rate))
        label = (where or "main") + (", excluded" if excluded else "")
        decay = 0.0 if excluded else weight_decay
        groups.append(
            ParameterGroup(label, tuple(parameters), own.learning_rate, decay, not excluded, own.is_scheduled)
        )
    return groups


def _is_inside(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _check(
    module: nn.Module, learning_rate: float, weight_decay: float, exclude: Sequence[str], apart: Mapping[str, Apart]
) -> None:
    if isinstance(exclude, str):
        raise SettingError(f"exclude must be a list; got the string {exclude!r}: write [{exclude!r}]")
    for rate in (learning_rate, *(own.learning_rate for own in apart.values())):
        if not 0 <= rate < float("inf"):
            raise SettingError(f"a learning rate must be at least 0 and finite; got {rate}")
    if not 0 <= weight_decay < float("inf"):
        raise SettingError(f"weight_decay must be at least 0 and finite; got {weight_decay}")
    names = [name for name, _ in module.named_parameters()]
    for prefix in (*(name for name in exclude if name not in ("bias", "norm")), *apart):
        if not any(_is_inside(name, prefix) for name in names):
            submodules = ", ".join(sorted({name.split(".", 1)[0] for name in names}))
            raise SettingError(f"no parameter is called {prefix!r} or lies in it; this module has {submodules}")
