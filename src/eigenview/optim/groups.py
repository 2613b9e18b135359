"""Which parameters are decayed, adapted and scheduled, and with what learning rate."""

from collections.abc import Iterable, Mapping, Sequence
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


def blocks_of(names: Iterable[str]) -> list[str]:
    """The blocks of a network by the names of its parameters, from its input on: ``conv_stem``, ``blocks.0``, ….

    A name belongs to what stands before its first number, with the number; without one, to its first word.
    """
    blocks: dict[str, None] = {}
    for name in names:
        words = name.split(".")
        number = next((place for place, word in enumerate(words) if word.isdecimal()), 0)
        blocks[".".join(words[: number + 1])] = None
    return list(blocks)


def depth_rates(encoder: nn.Module, prefix: str, *, top: float, decay: float) -> dict[str, Apart]:
    """The learning rate of every block: ``top`` for the last, × ``decay`` for each block below it.

    What was learnt elsewhere is general below, and is changed least there.
    """
    if not 0 < decay <= 1:
        raise SettingError(f"a decay with depth lies in (0, 1]; got {decay}")
    blocks = blocks_of(name for name, _ in encoder.named_parameters())
    return {f"{prefix}{block}": Apart(top * decay**above) for above, block in enumerate(reversed(blocks))}


def freeze_blocks(encoder: nn.Module, count: int) -> list[str]:
    """Stop the first ``count`` blocks from learning; which they are. Nothing is left to learn: refused."""
    blocks = blocks_of(name for name, _ in encoder.named_parameters())
    if not 0 <= count <= len(blocks):
        raise SettingError(f"frozen_blocks lies in 0 … {len(blocks)} for this encoder; got {count}")
    frozen = blocks[:count]
    for name, parameter in encoder.named_parameters():
        if any(_is_inside(name, block) for block in frozen):
            parameter.requires_grad_(False)
    return frozen


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
