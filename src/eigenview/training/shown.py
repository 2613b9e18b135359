"""Progress of a run for people: a live line on a terminal, plain lines elsewhere."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from eigenview.progress import PLAIN_EVERY, clock, time_left
from eigenview.training.listeners import Listener, Plan

SHOWN = {  # of a line of metrics: what it is called here and how it is written
    "loss": ("loss", "{:.3f}"),
    "alignment": ("align", "{:.3f}"),
    "uniformity": ("uniform", "{:.2f}"),
    "effective_rank": ("rank", "{:.1f}"),
    "views_per_second": ("views/s", "{:,.0f}"),
    "knn_accuracy": ("kNN", "{:.1%}"),
}


def shown_progress(console: Console | None = None) -> Listener:
    """The listener that fits the console: standard error unless given."""
    console = console or Console(stderr=True)
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


def figures(line: Mapping[str, Any]) -> str:
    """The figures of a line of metrics in a few words."""
    shown = [(name, *SHOWN[name]) for name in SHOWN if isinstance(line.get(name), (int, float))]
    return "  ".join(f"{word} {pattern.format(line[name])}" for name, word, pattern in shown)


class _Known:
    """The plan and the latest figures; online kNN stays until the next one."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.latest: dict[str, Any] = {}
        self.first: tuple[float, float] | None = None  # share done and seconds when this process began

    def fraction(self, step: int, seconds: float) -> float:
        plan = self.plan
        if plan is None:
            return 0.0
        if plan.minutes is not None:
            return min(1.0, seconds / (60 * plan.minutes))
        return step / plan.total_steps if plan.total_steps else 0.0

    def left(self, step: int, seconds: float) -> str:
        """The time left by what was done since this process began, so that a resumed run is not misjudged."""
        done = self.fraction(step, seconds)
        self.first = self.first or (done, seconds)
        since_done, since = self.first
        return time_left(seconds - since, made=done - since_done, remaining=1 - done) if done < 1 else ""

    def epoch(self, step: int) -> str:
        if self.plan is None:
            return ""
        done = step / self.plan.steps_per_epoch
        total = self.plan.total_steps
        return f"epoch {done:.1f}" + (f"/{total / self.plan.steps_per_epoch:.4g}" if total else "")


class LiveProgress(Listener):
    """One line that renews itself: bar, time left, latest figures. Alarms stay above it."""

    def __init__(self, console: Console) -> None:
        self._console, self._known = console, _Known()
        self._bar = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[figures]}"),
            console=console,
        )
        self._task = self._bar.add_task("starting", total=1.0, left="-:-- left", figures="")

    def started(self, plan: Plan) -> None:
        self._known.plan = plan
        self._bar.start()

    def stepped(self, step: int, seconds: float) -> None:
        done = self._known.fraction(step, seconds)
        left = self._known.left(step, seconds) or "-:-- left"
        self._bar.update(self._task, completed=done, description=self._known.epoch(step), left=left)

    def measured(self, line: Mapping[str, Any]) -> None:
        self._known.latest.update(line)
        self._bar.update(self._task, figures=figures(self._known.latest))

    def told(self, message: str) -> None:
        self._console.print(Text(f"! {message}", style="yellow"))

    def ended(self) -> None:
        self._bar.stop()


class PlainProgress(Listener):
    """A line now and then, for log files and pipes."""

    def __init__(self, console: Console) -> None:
        self._console, self._known = console, _Known()
        self._step, self._seconds, self._spoke, self._left = 0, 0.0, -PLAIN_EVERY, ""

    def started(self, plan: Plan) -> None:
        self._known.plan, self._step = plan, plan.done_steps

    def stepped(self, step: int, seconds: float) -> None:
        self._step, self._seconds, self._left = step, seconds, self._known.left(step, seconds)

    def measured(self, line: Mapping[str, Any]) -> None:
        self._known.latest.update(line)
        plan = self._known.plan
        is_last = plan is not None and line.get("step") == plan.total_steps
        if self._seconds - self._spoke >= PLAIN_EVERY or is_last:
            self._spoke = self._seconds
            done = self._known.fraction(self._step, self._seconds)
            left = f", {self._left}" if self._left else ""
            where = f"{self._known.epoch(self._step)}  {done:.0%}  {clock(self._seconds)}{left}"
            self._say(f"{where}  {figures(self._known.latest)}")

    def told(self, message: str) -> None:
        self._say(f"! {message}")

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)
