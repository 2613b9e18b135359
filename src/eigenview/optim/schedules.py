"""Learning-rate schedules: pure functions from the number of completed steps to a multiplier.

There is no scheduler to save: a resumed run knows its step, hence its rate.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Literal

from eigenview.errors import SettingError

Schedule = Callable[[int], float]  # completed steps → multiplier of the base learning rate


def warm_up(step: int, *, steps: int, start: float = 0.0) -> float:
    """start + (1 − start)·(step + 1)/steps, then 1: the first step already moves, the last warm-up step is at 1."""
    return start + (1 - start) * min(1.0, (step + 1) / steps) if steps else 1.0


def build_schedule(
    name: Literal["cosine", "step", "constant"],
    *,
    total: int,
    warmup: int = 0,
    start: float = 0.0,
    final: float = 0.0,
    milestones: Sequence[int] = (),
    factor: float = 0.1,
) -> Schedule:
    """A schedule by name over ``total`` steps; milestones, warm-up and total all count optimizer steps.

    After a warm-up from ``start``, with p = (step − warmup)/(total − warmup), ``cosine`` is final + (1 − final)·(1 +
    cos πp)/2: ``final`` is reached at ``step = total``, after the last step, so that no step is without effect; beyond,
    it stays. SwAV at 4.8: start 0.3/4.8, final 0.001. ``step`` is ``factor`` to the number of milestones reached (a
    milestone counts from its own step on), ``constant`` 1.
    """
    if name not in ("cosine", "step", "constant"):
        raise SettingError(f"schedule must be cosine, step or constant; got {name!r}")
    if total < 1 or not 0 <= warmup <= total:
        raise SettingError(f"a schedule needs at least 1 step and a warm-up within it; got total {total}, {warmup}")
    for label, value in {"start": start, "final": final, "factor": factor}.items():
        if not 0 <= value < math.inf:
            raise SettingError(f"{label} must be at least 0 and finite; got {value}")
    if milestones and name != "step":
        raise SettingError(f"milestones belong to the step schedule; got them with {name!r}")
    drops = sorted(milestones)

    def schedule(step: int) -> float:
        if step < warmup:
            return warm_up(step, steps=warmup, start=start)
        if name != "cosine":
            return float(factor ** bisect_right(drops, step))
        progress = min(1.0, (step - warmup) / max(1, total - warmup))
        return final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2

    return schedule


def scaled_learning_rate(base: float, *, batch: int, rule: Literal["linear", "sqrt", "none"] = "linear") -> float:
    """The rate for a global batch: ``linear`` base·batch/256 (Goyal et al. 2017), ``sqrt`` base·√batch as in SimCLR
    (its 0.075 there meets 0.3 of the linear rule at 4096), ``none`` base."""
    if batch < 1:
        raise SettingError(f"a batch has at least 1 item; got {batch}")
    if rule not in ("linear", "sqrt", "none"):
        raise SettingError(f"learning-rate scaling must be linear, sqrt or none; got {rule!r}")
    return base * {"linear": batch / 256, "sqrt": math.sqrt(batch), "none": 1.0}[rule]
