"""What every objective is made of: views that are checked and coupled, and its twin, the module of a function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from inspect import get_annotations
from typing import ClassVar, Self, dataclass_transform

import torch
from torch import Tensor, nn

from eigenview.distributed import Group, refusing_together, row_counts, row_offset, sum_over_processes
from eigenview.errors import ShapeError
from eigenview.graph.checks import check_embeddings, check_enough, check_same_shape, checked
from eigenview.graph.coupling import Coupling
from eigenview.graph.kernels import Kernel
from eigenview.graph.scalars import Scalar
from eigenview.graph.targets import crops

CPU = torch.device("cpu")


def named(views: Sequence[Tensor]) -> dict[str, Tensor]:
    """Views with the names that error messages use."""
    if len(views) < 2:
        raise ShapeError(f"a contrast needs at least two views of (n, d) each; got {len(views)}")
    return {f"view {number}": view for number, view in enumerate(views)}


def couple_views(coupling: Coupling, views: Sequence[Tensor], group: Group, *, as_indicators: bool = False) -> Tensor:
    """A coupling over all views of a batch, their own candidates; the other views of an item are its positives."""
    with refusing_together(group, views[0].device if views else CPU):
        by_name = named(views)
        check_same_shape(by_name)
        check_embeddings(by_name, normalize=False, check_values=False)
    counts = row_counts(views[0], group)
    check_enough(sum(counts), "items")
    offset = row_offset(counts, group)
    target = crops(len(views[0]), len(views), offset=offset, as_indicators=as_indicators, device=views[0].device)
    return coupling(torch.cat(list(views)), target=target, group=group)


def own_ids(rows: Tensor, group: Group) -> Tensor:
    """(n,) the numbers of this process's rows, counted through all processes."""
    offset = row_offset(row_counts(rows, group), group)
    return torch.arange(offset, offset + len(rows), device=rows.device)


def prepare_views(
    views: Sequence[Tensor], *, normalize: bool, check_values: bool, group: Group
) -> tuple[list[Tensor], int]:
    """Checked views, on the sphere if asked, and the number of items over all processes."""
    with refusing_together(group, views[0].device if views else CPU):
        check_same_shape(named(views))
        rows = checked(named(views), normalize=normalize, check_values=check_values)
    return list(rows.values()), sum(row_counts(views[0], group))


def mean_over_items(rows: Tensor, group: Group, *, count: int | None = None) -> Tensor:
    """The mean of per-item values over all processes."""
    total = sum(row_counts(rows, group)) if count is None else count
    return sum_over_processes(rows.sum(), group) / total


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
@dataclass(kw_only=True, eq=False, repr=False)
class Objective(nn.Module):
    """The module of a function, ``class InfoNCE(Objective, of=info_nce)``; its fields are keywords of the function.

    It is called with what the function takes beside them. Settings that are parameters, and those of a ``kernel``, are
    the module's own, to train, move and save.
    """

    function: ClassVar[Callable[..., Tensor]]
    names: ClassVar[tuple[str, ...]]  # of the settings
    group: Group = None

    def __init_subclass__(cls, of: Callable[..., Tensor] | None = None) -> None:
        if of is not None:
            cls.function = staticmethod(of)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        cls.names = tuple(setting.name for setting in fields(cls))
        for name in vars(cls).keys() & get_annotations(cls).keys():
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
