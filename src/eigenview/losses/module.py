"""Objectives as modules: each the twin of a function, and a dataclass of that function's settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar, Self, dataclass_transform

from torch import Tensor, nn

from eigenview.graph.kernels import Kernel
from eigenview.graph.scalars import Scalar


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Objective(nn.Module):
    """The module of a function, ``class InfoNCE(Objective, of=info_nce)``; its fields are keywords of the function.

    It is called with what the function takes beside them. Settings that are parameters, and those of a ``kernel``, are
    the module's own, to train, move and save.
    """

    function: ClassVar[Callable[..., Tensor]]
    names: ClassVar[tuple[str, ...]]  # of the settings

    def __init_subclass__(cls, of: Callable[..., Tensor] | None = None) -> None:
        if of is not None:
            cls.function = staticmethod(of)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        cls.names = tuple(setting.name for setting in fields(cls))  # type: ignore[arg-type]
        for name in vars(cls).keys() & cls.__annotations__.keys():
            delattr(cls, name)  # a default on the class would hide a parameter of that name

    def __new__(cls, *_: object, **__: object) -> Self:
        module = super().__new__(cls)
        nn.Module.__init__(module)  # before the fields are set, some of which may be parameters
        return module

    def __post_init__(self) -> None:
        if isinstance(kernel := getattr(self, "kernel", None), Kernel):
            # trained in place: load_state_dict(assign=True) would part them from the kernel
            self.settings = nn.ParameterList(t for t in kernel.tensors() if isinstance(t, nn.Parameter))

    def forward(self, *given: Tensor | Sequence[Tensor], **more: Scalar | None) -> Tensor:
        return type(self).function(*given, **{**self._settings(), **more})

    def extra_repr(self) -> str:
        settings = {name: value for name, value in self._settings().items() if name != "group"}
        return ", ".join(f"{n}={v.item() if isinstance(v, Tensor) else v!r}" for n, v in settings.items())

    def _settings(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.names}
