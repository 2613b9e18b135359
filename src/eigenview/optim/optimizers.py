"""Optimizers that torch lacks: LARS as in SimCLR and LARC as in SwAV (You et al. 2017), Muon (Jordan et al. 2024).

Layer-wise adaptive rates are for large batches; Muon makes the momentum of every matrix orthogonal, so that all its
directions learn alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from eigenview.errors import SettingError

QUINTIC = (3.4445, -4.7750, 2.0315)  # the authors': singular values end between 0.68 and 1.14 in five steps
STEPS = 5
REST = 0.1  # of the learning rate: what AdamW gives to everything that is no matrix


class Moving(Optimizer, ABC):
    """Every parameter that has a gradient moves by itself."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = loss_of(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return loss

    @abstractmethod
    def _move(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None: ...


class LARS(Moving):
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
        rates = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        check_rates(**rates)
        super().__init__(params, {**rates, "nesterov": nesterov, "adapted": adapted})

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
        check_rates(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust)
        self._own = {"trust": trust, "clip": clip, "adapted": adapted, "eps": eps}
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group({**self._own, **param_group})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = loss_of(closure)
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


def loss_of(closure: Callable[[], float] | None) -> float | None:
    """What is computed anew before a step, where that is asked for."""
    with torch.enable_grad():
        return None if closure is None else closure()


def check_rates(**settings: float) -> None:
    for name, value in settings.items():
        if not 0 <= value < float("inf"):
            raise SettingError(f"{name} must be at least 0 and finite; got {value}")


class Muon(Moving):
    """v ← m·v + ∇w;  w ← (1 − lr·λ)·w − lr·√max(1, rows / columns)·orthogonal(∇w + m·v).

    A filter (out, in, h, w) is the matrix (out, in·h·w). Biases, gains and groups with ``adapted=False`` move by
    AdamW at a tenth of the rate.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adapted: bool = True,
    ) -> None:
        rates = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "eps": eps}
        check_rates(**rates)
        super().__init__(params, {**rates, "betas": betas, "adapted": adapted})

    def _move(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        move = self._turn if group["adapted"] and parameter.ndim > 1 else self._adapt
        move(parameter, gradient, group)

    def _turn(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        velocity = state["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
        step = orthogonal(gradient.add(velocity, alpha=group["momentum"]).flatten(1))
        rows, columns = step.shape
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.sub_(step.view(parameter.shape), alpha=group["lr"] * max(1.0, rows / columns) ** 0.5)

    def _adapt(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, (first, second), rate = self.state[parameter], group["betas"], REST * group["lr"]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        state["step"] += 1
        mean = state["exp_avg"].lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].lerp_(gradient.square(), 1 - second)
        scale = (square / (1 - second ** state["step"])).sqrt_().add_(group["eps"])
        parameter.mul_(1 - rate * group["weight_decay"])
        parameter.addcdiv_(mean, scale, value=-rate / (1 - first ** state["step"]))


def orthogonal(matrix: Tensor) -> Tensor:
    """U·Vᵀ of the singular value decomposition, nearly: five steps X ← aX + bAX + cA²X with A = X·Xᵀ.

    All steps are polynomials of one Gram matrix G, which commute: M = aI + bA + cA² takes A to M²A, and the product of
    all M meets the rows once. So the products are of the shorter side, but for the first and the last.
    """
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonal(matrix.T).T
    rows = matrix / torch.linalg.vector_norm(matrix).clamp_min(torch.finfo(matrix.dtype).tiny)
    a, b, c = QUINTIC
    gram, product = rows @ rows.T, torch.eye(len(rows), dtype=rows.dtype, device=rows.device)
    for number in range(STEPS):
        factor = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal().add_(a)
        product = factor @ product if number else factor
        if number + 1 < STEPS:
            gram = factor @ (factor @ gram)
    turned: Tensor = product @ rows
    return turned
