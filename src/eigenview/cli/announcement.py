"""How long a run will take, said after its first seconds; and at its end, what is still to come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eigenview.cli.output import Output
from eigenview.cli.run_options import PASSES
from eigenview.progress import about
from eigenview.training import Listener, Plan
from eigenview.training.afterwards import LOOKED_AT

MEASURED = 5.0  # seconds of training by which the rest is judged
LONG = 3600.0  # seconds from which a way to shorten the run is named


class Announcement(Listener):
    """``looks_back``: whether the result is looked at in the end, which takes time after the time for training."""

    def __init__(self, output: Output, *, looks_back: bool) -> None:
        self.output, self.looks_back = output, looks_back
        self.plan: Plan | None = None
        self.first: tuple[int, float] | None = None  # step and seconds at the end of the first step, which is slow
        self.latest, self.is_said, self.views_per_second = (0, 0.0), False, 0.0

    def started(self, plan: Plan) -> None:
        self.plan = plan

    def stepped(self, step: int, seconds: float) -> None:
        self.latest = step, seconds
        self.first = self.first or self.latest
        steps, took = step - self.first[0], seconds - self.first[1]
        total = None if self.plan is None else self.plan.total_steps
        if self.is_said or total is None or not steps or took < MEASURED:
            return
        self.is_said = True
        left = took / steps * (total - step)
        bound = "; --minutes N bounds it" if left > LONG else ""
        if left >= MEASURED:
            self.output.say(f"{total - step:,} steps to go: {about(left)}{bound}")

    def measured(self, line: Mapping[str, Any]) -> None:
        self.views_per_second = float(line.get("views_per_second", self.views_per_second))

    def ended(self) -> None:
        plan, (step, seconds) = self.plan, self.latest
        if plan is None or plan.items is None or not self.looks_back or self.views_per_second <= 0:
            return
        is_whole = step == plan.total_steps or (plan.minutes is not None and seconds >= 60 * plan.minutes)
        images = min(LOOKED_AT, plan.items)
        wait = PASSES * images / self.views_per_second  # at the speed of training, which has gradients too
        if is_whole and wait >= MEASURED:
            self.output.say(f"now the result is looked at, on {images:,} images: {about(wait)} (--no-look: not at all)")
