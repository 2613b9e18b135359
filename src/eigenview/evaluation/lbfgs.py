"""L-BFGS for several smooth convex problems at once: one pass over the data serves them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# (problems (p,), parameters (p, m)) → values (p,), gradients (p, m)
Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

MEMORY = 10  # pairs kept of each problem
DECREASE = 1e-4  # Armijo's share of the promised decrease
SMALLEST_STEP = 1e-8


@dataclass(frozen=True)
class Minimum:
    """Where each problem came to rest."""

    parameters: Tensor  # (P, m)
    values: Tensor  # (P,)
    slopes: Tensor  # (P,) Euclidean norm of the gradient
    iterations: int  # of the problem that took longest


def minimise(objective: Objective, start: Tensor, *, tolerance: float, iterations: int = 500) -> Minimum:
    """Minimise P problems from ``start`` (P, m), each until its gradient's norm is at most ``tolerance``.

    ``objective`` gets the numbers of the problems still under way and their parameters. Good coordinates are the
    caller's business: the nearer the Hessian is to the identity, the fewer iterations. A problem also rests when no
    step makes it smaller, which is where rounding ends the descent.
    """
    point = start.clone()
    value, slope = objective(torch.arange(len(start), device=start.device), point)
    history = _History(start)
    resting = slope.norm(dim=1) <= tolerance
    done = 0
    while not resting.all() and done < iterations:
        active = (~resting).nonzero().flatten()
        direction = history.direction(active, slope[active])
        moved, new_value, new_slope, stuck = _step(
            objective, active, point[active], value[active], slope[active], direction
        )
        history.add(active[~stuck], (moved - point[active])[~stuck], (new_slope - slope[active])[~stuck])
        point[active], value[active], slope[active] = moved, new_value, new_slope
        resting[active] = (new_slope.norm(dim=1) <= tolerance) | stuck
        done += 1
    return Minimum(point, value, slope.norm(dim=1), done)


def _step(
    objective: Objective, active: Tensor, point: Tensor, value: Tensor, slope: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Along each direction to a point that is low enough; ``stuck`` marks problems without one, which stay put."""
    promised = (slope * direction).sum(dim=1, dtype=value.dtype)  # negative
    size = torch.ones_like(value)
    found, new_value, new_slope = point.clone(), value.clone(), slope.clone()
    searching = torch.arange(len(active), device=active.device)
    while len(searching):
        trial = point[searching] + size[searching, None].to(point) * direction[searching]
        trial_value, trial_slope = objective(active[searching], trial)
        gain = trial_value - value[searching]
        is_low = gain <= DECREASE * size[searching] * promised[searching]
        low = searching[is_low]
        found[low], new_value[low], new_slope[low] = trial[is_low], trial_value[is_low], trial_slope[is_low]
        high, gain = searching[~is_low], gain[~is_low]
        straight = size[high] * promised[high]  # the minimum of the parabola through both ends and the first slope
        size[high] *= (-straight / (2 * (gain - straight))).clamp(0.1, 0.5).nan_to_num(0.1)
        searching = high[size[high] > SMALLEST_STEP]
    return found, new_value, new_slope, (found == point).all(dim=1)


class _History:
    """The last steps of each problem and how its gradient changed on them."""

    def __init__(self, start: Tensor) -> None:
        problems, width = start.shape
        self.steps = start.new_zeros(MEMORY, problems, width)
        self.changes = start.new_zeros(MEMORY, problems, width)
        self.inverse = start.new_zeros(MEMORY, problems)  # 1/⟨step, change⟩, 0 where there is none: no effect
        self.scale = start.new_ones(problems)

    def add(self, problems: Tensor, step: Tensor, change: Tensor) -> None:
        """Put the newest last; a step without positive curvature (rounding) is left out."""
        curvature = (step * change).sum(dim=1)
        good = curvature > 1e-12 * change.square().sum(dim=1)
        problems, step, change, curvature = problems[good], step[good], change[good], curvature[good]
        for kept, new in ((self.steps, step), (self.changes, change), (self.inverse, 1 / curvature)):
            kept[:, problems] = torch.cat([kept[1:, problems], new[None]])
        self.scale[problems] = curvature / change.square().sum(dim=1)

    def direction(self, problems: Tensor, slope: Tensor) -> Tensor:
        """−H·slope by the two loops (Nocedal 1980)."""
        steps, changes, inverse = self.steps[:, problems], self.changes[:, problems], self.inverse[:, problems]
        along, shares = -slope, torch.zeros_like(inverse)
        for place in reversed(range(MEMORY)):
            shares[place] = inverse[place] * (steps[place] * along).sum(dim=1)
            along = along - shares[place, :, None] * changes[place]
        along = along * self.scale[problems, None]
        for place in range(MEMORY):
            back = inverse[place] * (changes[place] * along).sum(dim=1)
            along = along + (shares[place] - back)[:, None] * steps[place]
        return along
