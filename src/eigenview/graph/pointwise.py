"""What kernels make of every pair's distance: in few passes over a block, slopes kept from the forward."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from eigenview.graph.scalars import Scalar


def distance_power(squared: Tensor, gamma: float, *, scale: Scalar = 1.0) -> Tensor:
    """scale · ‖·‖^gamma from ‖·‖², with a slope that is finite everywhere: below ‖·‖ = eps it falls to 0 at 0."""
    if isinstance(scale, Tensor):
        return distance_power(squared, gamma) * scale
    if gamma == 2:
        return squared * scale
    power: Tensor = _DistancePower.apply(squared, gamma, scale)  # type: ignore[no-untyped-call]
    return power


class _DistancePower(torch.autograd.Function):
    """c·r^(γ/2) of r = ‖·‖², with slope γ/2 · c·r^(γ/2) / max(r, eps²)."""

    @staticmethod
    def forward(ctx: Any, squared: Tensor, gamma: float, scale: float) -> Tensor:
        if gamma == 1:
            power = squared.sqrt()
        elif gamma == 0.5:
            power = squared.sqrt().sqrt_()
        else:
            power = squared.log().mul_(gamma / 2).exp_()  # pow, several times faster
        power.mul_(scale)
        if ctx.needs_input_grad[0]:
            least = squared.clamp_min(torch.finfo(squared.dtype).eps ** 2)
            ctx.save_for_backward(torch.div(power, least, out=least).mul_(gamma / 2))
        return power

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * gradient, None, None


def log_tail(squared: Tensor, width: Scalar, power: float) -> Tensor:
    """−power · log(1 + ‖·‖²/width) from ‖·‖²: the tail of Student's t."""
    if isinstance(width, Tensor):
        return torch.log1p(squared / width) * -power
    tail: Tensor = _LogTail.apply(squared, width, power)  # type: ignore[no-untyped-call]
    return tail


class _LogTail(torch.autograd.Function):
    """−p·log(1 + r/w), with slope −p / (w + r)."""

    @staticmethod
    def forward(ctx: Any, squared: Tensor, width: float, power: float) -> Tensor:
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward((squared + width).reciprocal_().mul_(-power))
        return (squared / width).log1p_().mul_(-power)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * gradient, None, None


def log_add(first: Tensor, second: Tensor) -> Tensor:
    """log(e^a + e^b)."""
    total: Tensor = _LogAdd.apply(first, second)  # type: ignore[no-untyped-call]
    return total


class _LogAdd(torch.autograd.Function):
    """The gradient is shared out by sigmoid(b − a): a third of the passes that autograd would make."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        if any(ctx.needs_input_grad):
            ctx.save_for_backward((second - first).sigmoid_())
        return torch.logaddexp(first, second)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        (share,) = ctx.saved_tensors
        of_second = gradient * share
        return gradient - of_second, of_second
