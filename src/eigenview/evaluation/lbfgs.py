"""L-BFGS for several smooth convex problems at once: one pass over the data serves them all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

# (problems (p,), parameters (p, m)) → values (p,), gradients (p, m)
Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
Advance = Callable[[int], None]  # called with how many steps were made since the last call

MEMORY = 20  # pairs kept of each problem
MEMORY_ELEMENTS = 1 << 27  # numbers in all pairs: 512 MB in float32; fewer pairs are kept of larger problems
DECREASE = 1e-4  # Armijo's share of the promised decrease
SMALLEST_STEP = 1e-8
RENEWAL = 25  # iterations between two looks at the curvature


class Curvature(Protocol):
    """A guess H₀ at the Hessian of each problem, positive definite: the nearer, the fewer iterations."""

    def renew(self, points: Tensor) -> None:
        """Guess anew at ``points`` (P, m)."""

    def solve(self, problems: Tensor, slopes: Tensor) -> Tensor:
        """H₀⁻¹·slope of each of ``problems`` (p,), for ``slopes`` (p, m)."""


@dataclass(frozen=True)
class Minimum:
    """Where each problem came to rest."""

    parameters: Tensor  # (P, m)
    values: Tensor  # (P,)
    slopes: Tensor  # (P,) √(gᵀ·H₀⁻¹·g), of which half the square is about what is left to gain
    is_converged: Tensor  # (P,) False where the iterations ran out first
    iterations: int  # of the problem that took longest


def minimise(
    objective: Objective,
    start: Tensor,
    *,
    tolerance: float,
    iterations: int = 500,
    curvature: Curvature | None = None,
    advance: Advance | None = None,
) -> Minimum:
    """Minimise P problems from ``start`` (P, m), each until √(gᵀ·H₀⁻¹·g) of its gradient g is at most ``tolerance``.

    ``objective`` gets the numbers of the problems still under way and their parameters. H₀ is the identity without a
    ``curvature``, which is renewed now and then while pairs of steps and changes are kept. A problem also rests when
    no step makes it smaller, which is where rounding ends the descent. ``advance`` hears of problems come to rest.
    """
    point = start.clone()
    active = torch.arange(len(start), device=start.device)
    value, slope = objective(active, point)
    turned = _turned(active, slope, point, curvature)  # H₀⁻¹·g
    norm = _inner(slope, turned).clamp_min(0).sqrt()
    resting = norm <= tolerance
    history = _History(start)
    done = 0
    while not resting.all() and done < iterations:
        if curvature is not None and done and done % RENEWAL == 0:
            turned = _turned(torch.arange(len(start), device=start.device), slope, point, curvature)
            history.scale = None
        if resting[active].any():
            _tell(advance, int(resting[active].sum()))
            history.keep(~resting[active])
            active = active[~resting[active]]
        direction = history.direction(active, slope[active], curvature)
        moved, new_value, new_slope, is_stuck = _step(
            objective, active, point[active], value[active], slope[active], direction
        )
        new_turned = new_slope if curvature is None else curvature.solve(active, new_slope)
        history.add(moved - point[active], new_slope - slope[active], new_turned - turned[active])
        point[active], value[active], slope[active], turned[active] = moved, new_value, new_slope, new_turned
        norm[active] = _inner(new_slope, new_turned).clamp_min(0).sqrt()
        resting[active] = (norm[active] <= tolerance) | is_stuck
        done += 1
    _tell(advance, len(active))
    return Minimum(point, value, norm, resting, done)


def _tell(advance: Advance | None, problems: int) -> None:
    if advance is not None and problems:
        advance(problems)


def _turned(problems: Tensor, slope: Tensor, point: Tensor, curvature: Curvature | None) -> Tensor:
    """H₀⁻¹·g of all problems, with H₀ as it is at their points."""
    if curvature is None:
        return slope.clone()
    curvature.renew(point)
    return curvature.solve(problems, slope)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """(p,) inner products of rows, summed in double: columns of very different size leave little of them."""
    return (a * b).sum(dim=1, dtype=torch.float64).to(a.dtype)


def _step(
    objective: Objective, active: Tensor, point: Tensor, value: Tensor, slope: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Along each direction to a point that is low enough; problems without one, the last of the four, stay put."""
    promised = (slope * direction).sum(dim=1, dtype=value.dtype)  # negative
    size = torch.ones_like(value)
    moved, new_value, new_slope = point.clone(), value.clone(), slope.clone()
    searching = torch.arange(len(active), device=active.device)
    while len(searching):
        trial = point[searching] + size[searching, None].to(point) * direction[searching]
        trial_value, trial_slope = objective(active[searching], trial)
        gain = trial_value - value[searching]
        is_low = gain <= DECREASE * size[searching] * promised[searching]
        low = searching[is_low]
        moved[low], new_value[low], new_slope[low] = trial[is_low], trial_value[is_low], trial_slope[is_low]
        high, gain = searching[~is_low], gain[~is_low]
        straight = size[high] * promised[high]  # the minimum of the parabola through both ends and the first slope
        size[high] *= (-straight / (2 * (gain - straight))).clamp(0.1, 0.5).nan_to_num(0.1)
        searching = high[size[high] > SMALLEST_STEP]
    return moved, new_value, new_slope, (moved == point).all(dim=1)


class _History:
    """The last steps of the problems under way, and how their gradients changed on them; the newest last."""

    def __init__(self, start: Tensor) -> None:
        self.most = max(3, min(MEMORY, MEMORY_ELEMENTS // (2 * start.numel())))
        self.pairs: list[tuple[Tensor, Tensor, Tensor]] = []  # step, change, 1/⟨step, change⟩
        self.scale: Tensor | None = None  # (p,) of H₀⁻¹ by the last pair; none where H₀ is new

    def keep(self, are_kept: Tensor) -> None:
        self.pairs = [(step[are_kept], change[are_kept], inverse[are_kept]) for step, change, inverse in self.pairs]
        self.scale = None if self.scale is None else self.scale[are_kept]

    def add(self, step: Tensor, change: Tensor, turned: Tensor) -> None:
        """``turned`` is H₀⁻¹·change. A step without positive curvature (none, or rounding) has no effect."""
        curved, seen = _inner(step, change), _inner(change, turned)
        is_good = curved > 10 * torch.finfo(step.dtype).eps * step.norm(dim=1) * change.norm(dim=1)
        self.pairs = [*self.pairs[-self.most + 1 :], (step, change, torch.where(is_good, 1 / curved, 0.0))]
        self.scale = torch.where(is_good & (seen > 0), curved / seen, 1.0)

    def direction(self, problems: Tensor, slope: Tensor, curvature: Curvature | None) -> Tensor:
        """−H⁻¹·slope by the two loops (Nocedal 1980)."""
        along, shares = -slope, []
        for step, change, inverse in reversed(self.pairs):
            shares.append(inverse * _inner(step, along))
            along = torch.addcmul(along, shares[-1][:, None], change, value=-1)
        if curvature is not None:
            along = curvature.solve(problems, along)
        if self.scale is not None:
            along = along * self.scale[:, None]
        for (step, change, inverse), share in zip(self.pairs, reversed(shares), strict=True):
            along = torch.addcmul(along, (share - inverse * _inner(change, along))[:, None], step)
        return along
