"""``metrics.jsonl``: a line for every look at a run; the only reader and writer."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigenview.appending import append_line
from eigenview.diagnostics.figures import RunProgress, late_fall
from eigenview.errors import DataError, WriteError
from eigenview.files import JSON, write_text
from eigenview.names import printable
from eigenview.runs.stored import KEY, check_format

LARGEST_LINE = 1 << 20  # bytes

Line = Mapping[str, JSON]


def number(value: object) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


@dataclass(frozen=True)
class Metrics:
    """The lines of a run, in order: looks at a step (``loss``, …) and back at an epoch (``epoch_loss``, …)."""

    lines: Sequence[Line]
    damaged: int = 0  # lines that could not be read, beside a last one that a crash cut short

    @property
    def looks(self) -> list[Line]:
        """The lines that look at a step, a last one with a loss that is not finite among them."""
        return [line for line in self.lines if "loss" in line or ("alarms" in line and "epoch_loss" not in line)]

    @property
    def last(self) -> Line:
        """The last line that has a finite loss; empty for a run that wrote none."""
        return next((line for line in reversed(self.lines) if number(line.get("loss")) is not None), {})

    @property
    def has_diverged(self) -> bool:
        """Whether what came after the last finite loss was not finite."""
        return bool(self.looks) and number(self.looks[-1].get("loss")) is None

    @property
    def alarms(self) -> list[tuple[float | None, str]]:
        """(step, message) of everything the watchdog said."""
        said = [(number(line.get("step")), line.get("alarms")) for line in self.lines]
        return [(step, str(message)) for step, messages in said if isinstance(messages, list) for message in messages]

    def progress(self) -> RunProgress:
        """How far the run came, for its diagnosis."""
        steps, epochs = (max((pair[1] for pair in self.series(name)), default=None) for name in ("step", "epoch"))
        return RunProgress(
            loss=number(self.last.get("loss")),
            chance=number(self.last.get("chance")),
            has_diverged=self.has_diverged,
            steps=None if steps is None else int(steps),
            epochs=epochs,
            late_fall=late_fall([loss for _, loss in self.series("loss")]),
        )

    def series(self, name: str, *, over: str = "step") -> list[tuple[float, float]]:
        """(step, value) of one figure, or its values ``over`` those of another; lines without both are left out."""
        pairs = [(number(line.get(over)), number(line.get(name))) for line in self.lines]
        return [(x, value) for x, value in pairs if x is not None and value is not None]


class MetricsFile:
    """Reads leniently (a line that a crash cut short is left out, a damaged one counted), writes line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Metrics:
        try:
            text = self.path.read_bytes().decode("utf-8", "replace") if self.path.is_file() else ""
        except OSError as error:
            raise DataError(f"cannot read {printable(self.path)}: {error.strerror or error}") from None
        *whole, last = text.split("\n")  # whole lines end; what stands after the last end was cut short
        lines = [_parsed(line) for line in whole]
        lines, damaged = [*lines, _parsed(last)], lines.count(None)
        for line in lines:
            if line is not None:
                check_format(line.pop(KEY, 1), self.path)
        return Metrics([line for line in lines if line is not None], damaged)

    def append(self, line: Line) -> None:
        """A number that is not finite, which JSON does not have, is written as null; the first line has the format."""
        is_first = not self.path.is_file() or not self.path.stat().st_size
        head = {KEY: 1} if is_first else {}
        is_wrong = {name: isinstance(value, float) and not math.isfinite(value) for name, value in line.items()}
        finite = {name: None if is_wrong[name] else value for name, value in line.items()}
        text = json.dumps({**head, **finite}, allow_nan=False)
        try:
            append_line(self.path, text)
        except WriteError as error:
            raise WriteError(f"{error}, then go on with --resume") from None

    def cut(self, step: int) -> None:
        """Forget lines beyond ``step``: a resumed run writes them again."""
        kept = [line for line in self.read().lines if (number(line.get("step")) or 0) <= step]
        heads: list[Line] = [{KEY: 1}, *({} for _ in kept[1:])]
        texts = (json.dumps({**head, **line}) + "\n" for head, line in zip(heads, kept, strict=False))
        write_text(self.path, "".join(texts))


def _parsed(text: str) -> dict[str, JSON] | None:
    if len(text) > LARGEST_LINE:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
