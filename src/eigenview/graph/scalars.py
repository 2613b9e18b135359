"""A kernel's settings: numbers, or tensors that carry gradient."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from eigenview.errors import SettingError

Scalar = float | Tensor


class InnerForm(NamedTuple):
    """log k = scale · a·y + bias: what lets the coupling use bare matrix products."""

    scale: Scalar
    bias: Scalar


def learnable(value: float) -> nn.Parameter:
    """A scalar that training may move: ``CosineKernel(temperature=learnable(0.1))``."""
    return nn.Parameter(torch.tensor(float(value)))


def with_gradient(settings: Iterable[Scalar]) -> tuple[Tensor, ...]:
    """The tensors among them that carry gradient; one that serves twice is listed once."""
    return tuple({id(v): v for v in settings if isinstance(v, Tensor) and v.requires_grad}.values())


def require_positive(name: str, value: Scalar) -> None:
    if isinstance(value, Tensor) and value.ndim != 0:
        raise SettingError(f"{name} must be one number; got a tensor of shape {tuple(value.shape)}")
    number = value.item() if isinstance(value, Tensor) else float(value)
    if not 0 < number < float("inf"):
        raise SettingError(f"{name} must be positive and finite; got {number:g}")


def written(value: Scalar) -> str:
    """As :func:`eigenview.graph.kernel_text.read_kernel` reads it back."""
    if isinstance(value, Tensor):
        return f"learnable({value.item()!r})" if value.requires_grad else repr(value.item())
    return repr(value)
