"""What every benchmark shares: interleaved rounds, bars, a JSON file of both, and which code was measured."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

import eigenview


@dataclass(frozen=True)
class Bar:
    """A measured value against its target; ``at_most`` says which side is good."""

    name: str
    value: float
    target: float
    at_most: bool

    @property
    def holds(self) -> bool:
        return self.value <= self.target if self.at_most else self.value >= self.target

    def __str__(self) -> str:
        return f"bar {self.name} {self.value:.3g} {self.target:g} {'holds' if self.holds else 'falls short'}"


def best_times(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of the best round of each."""
    return {name: min(measured) for name, measured in all_times(contenders, rounds).items()}


def median_times(
    contenders: Mapping[str, Callable[[], object]], rounds: int, *, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Processor seconds of the middle round of each: for calls so short that another process would rule the clock.

    Each is called once more before it is timed, so that none pays for what its predecessor left in the caches.
    """
    times = all_times(contenders, rounds, clock=clock, warm_up=True)
    return {name: median(measured) for name, measured in times.items()}


def all_times(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    warm_up: bool = False,
) -> dict[str, list[float]]:
    """Seconds of every round. Rounds are interleaved, so that a noisy minute meets everyone."""
    for run in contenders.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            if warm_up:
                run()
            start = clock()
            run()
            times[name].append(clock() - start)
    return times


def finish(bars: list[Bar], measured: Mapping[str, object], json_file: Path | None) -> None:
    """Print one line a bar, and write everything to ``json_file`` if asked."""
    if json_file is not None:
        content = {
            "torch": torch.__version__,
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "measured": measured,
            "bars": [{**asdict(bar), "holds": bar.holds} for bar in bars],
        }
        json_file.write_text(json.dumps(content, indent=2) + "\n")
    print()
    for bar in bars:
        print(bar)


def code_version() -> str:
    """A hash of the library's source as it is now: results that are kept say which code they are of."""
    root = Path(eigenview.__file__).parent
    files = sorted(root.rglob("*.py"))
    parts = (f"{file.relative_to(root)}\n{file.read_text()}" for file in files)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def age(known: Mapping[str, object]) -> str:
    """Words for a kept result of other code than today's; none otherwise."""
    return "" if known.get("code") == code_version() else f" (code of before: {known.get('code', 'not recorded')})"
