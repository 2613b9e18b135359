"""Layer-wise adaptive rates for large batches: LARS as in SimCLR, LARC as in SwAV (You et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from eigenview.errors import SettingError


class LARS(Optimizer):
    """SGD whose step is scaled per parameter by the trust ratio η‖w‖/‖g‖, with the rate inside the momentum.

    g ← ∇w + λw;  v ← m·v + lr·η‖w‖/‖g‖·g;  w ← w − v (``nesterov``: w − (m·v + lr·ratio·g)).

    The ratio is 1 where ‖w‖ or ‖g‖ is zero, and in groups with ``adapted=False``. As in SimCLR's code, a change of the
    learning rate leaves what the momentum holds as it is.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        nesterov: bool = False,
        adapted: bool = True,
    ) -> None:
        _check(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust": trust,
            "nesterov": nesterov,
            "adapted": adapted,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = _loss(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return loss

    def _move(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        if group["weight_decay"]:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        step = gradient * group["lr"]
        if group["adapted"]:
            size, slope = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(gradient)
            ratio = group["trust"] * size / slope
            step *= torch.where((size > 0) & (slope > 0), ratio, torch.ones_like(ratio))
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        velocity = state["momentum_buffer"]
        velocity.mul_(group["momentum"]).add_(step)
        parameter.sub_(step.add_(velocity, alpha=group["momentum"]) if group["nesterov"] else velocity)


class LARC(SGD):
    """torch's SGD on gradients scaled per parameter: g ← η‖w‖/(‖∇w‖ + λ‖w‖ + ε)·(∇w + λw).

    ``clip`` bounds the learning rate instead of setting it: the scale is min(η‖w‖/(…)/lr, 1). A parameter or gradient
    of norm zero is left as it is, undecayed; groups with ``adapted=False`` are plain SGD with weight decay. The
    gradients are changed in place: read them before the step. SwAV: trust 0.001, no clipping, all parameters.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        clip: bool = False,
        nesterov: bool = False,
        adapted: bool = True,
        eps: float = 1e-8,
    ) -> None:
        _check(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust)
        self._own = {"trust": trust, "clip": clip, "adapted": adapted, "eps": eps}
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group({**self._own, **param_group})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = _loss(closure)
        decays = [group["weight_decay"] for group in self.param_groups]
        for group in self.param_groups:
            if group["adapted"]:
                self._scale(group)
                group["weight_decay"] = 0.0  # it is in the gradients now
        try:
            super().step()
        finally:
            for group, decay in zip(self.param_groups, decays, strict=True):
                group["weight_decay"] = decay
        return loss

    def _scale(self, group: dict[str, Any]) -> None:
        decay = group["weight_decay"]
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            size, slope = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(parameter.grad)
            rate = group["trust"] * size / (slope + decay * size + group["eps"])
            if group["clip"]:
                rate = (rate / group["lr"]).clamp_max(1.0)
            usable = (size > 0) & (slope > 0)
            parameter.grad.add_(parameter * usable, alpha=decay)
            parameter.grad.mul_(torch.where(usable, rate, torch.ones_like(rate)))


def _loss(closure: Callable[[], float] | None) -> float | None:
    """What is computed anew before a step, where that is asked for."""
    with torch.enable_grad():
        return None if closure is None else closure()


def _check(**settings: float) -> None:
    for name, value in settings.items():
        if not 0 <= value < float("inf"):
            raise SettingError(f"{name} must be at least 0 and finite; got {value}")
