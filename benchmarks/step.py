"""A training step beside a bare forward and backward, and beside lightly's loop: the same encoder, batches of 256.

    .venv-peers/bin/python benchmarks/step.py --json step.json

50,000 generated images of 32 × 32 in an array; the small encoder, SimCLR, float32, two views of each image. ``ours`` is
what ``eigenview.train`` does, views, loss, update and records included; ``bare`` the encoder and head, forward and
backward on views that are ready; ``lightly`` its loop (benchmarks/lightly_simclr.py). By the clock, rounds that
take turns; the best of each counts. The start is that of a fresh Python: from its launch, imports included, to the end
of the first step of ``eigenview.train`` on these images, as it chooses by itself: with a length in steps, and with one
in minutes, where what is chosen is timed first. The middle of the rounds counts; ``import torch`` is timed beside it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from bars import Bar, finish

import eigenview as ev
from eigenview.nn import SmallEncoder, build_head
from eigenview.training import Listener

IMAGES, BATCH, FIRST = 50_000, 256, 10  # the first steps are not counted
OVER_LIGHTLY, OVER_BARE, LONGEST_START = 2.0, 0.9, 5.0


class Clock(Listener):
    """The moment of each step."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    def stepped(self, step: int, seconds: float) -> None:
        self.moments.append(time.perf_counter())


FIRST_STEP = """
import sys, time
import eigenview as ev
from eigenview.training import Listener
class Told(Listener):
    def stepped(self, step, seconds):
        print(time.time(), flush=True)
        raise KeyboardInterrupt
try:
    ev.train(sys.argv[1], out=sys.argv[2], listeners=[Told()], look=False, **{sys.argv[3]: int(sys.argv[4])})
except KeyboardInterrupt:
    pass
"""
LENGTHS = {"steps": "1", "minutes": "10"}


def start(source: Path) -> dict[str, float]:
    """Seconds from the launch of Python to the end of the first step, for each kind of length; those of torch alone."""
    known = {}
    for length, number in LENGTHS.items():
        with tempfile.TemporaryDirectory() as folder:
            known[length] = seconds_until_told([FIRST_STEP, str(source), f"{folder}/run", length, number])
    return {**known, "import torch": seconds_until_told(["import time, torch; print(time.time())"])}


def seconds_until_told(code: list[str]) -> float:
    launched = time.time()
    said = subprocess.run([sys.executable, "-c", *code], check=True, capture_output=True, text=True).stdout
    return float(said.splitlines()[0]) - launched


def views_a_second(moments: list[float]) -> float:
    return 2 * BATCH * (len(moments) - 1 - FIRST) / (moments[-1] - moments[FIRST])


def ours(source: Path, steps: int) -> float:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"batch_size": BATCH, "precision": "32", "steps": steps}
        ev.train(source, out=Path(folder) / "run", method="simclr", encoder="small", listeners=[clock], **settings)
    return views_a_second(clock.moments)


def bare(steps: int) -> float:
    encoder = SmallEncoder().to(memory_format=torch.channels_last)
    head = build_head("simclr-v1", encoder.feature_width)
    views = torch.randn(2 * BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    moments = []
    for _ in range(steps):
        head(encoder(views)).sum().backward()
        for parameter in (*encoder.parameters(), *head.parameters()):
            parameter.grad = None
        moments.append(time.perf_counter())
    return views_a_second(moments)


def lightly(images: np.ndarray, steps: int) -> float:
    from lightly_simclr import LightlySimCLR

    moments = []
    for seen in LightlySimCLR(images, small=True).steps(lambda: 0.0):
        moments.append(time.perf_counter())
        if seen >= 2 * BATCH * steps:
            break
    return views_a_second(moments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=110)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    images = np.random.default_rng(0).integers(0, 256, (IMAGES, 32, 32, 3), dtype=np.uint8)
    speeds: dict[str, list[float]] = {"ours": [], "bare": [], "lightly": []}
    starts = []
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "images.npz", images=images)
        contenders: dict[str, Callable[[], float]] = {
            "ours": lambda: ours(Path(folder) / "images.npz", options.steps),
            "bare": lambda: bare(options.steps),
            "lightly": lambda: lightly(images, max(FIRST + 10, options.steps // 3)),
        }
        for _ in range(options.rounds):
            starts.append(start(Path(folder) / "images.npz"))
            for name, measured in contenders.items():
                speeds[name].append(measured())
    best = {name: max(values) for name, values in speeds.items()}
    for name, speed in best.items():
        print(f"{name:8s} {speed:8,.0f} views/s")
    middle = {kind: median(each[kind] for each in starts) for kind in starts[0]}
    print(
        "first step after the launch of Python: " + ", ".join(f"{kind} {value:.2f} s" for kind, value in middle.items())
    )
    bars = [
        Bar("step-over-lightly", best["ours"] / best["lightly"], OVER_LIGHTLY, at_most=False),
        Bar("step-over-bare", best["ours"] / best["bare"], OVER_BARE, at_most=False),
        *(
            Bar(f"seconds-to-the-first-step-by-{length}", middle[length], LONGEST_START, at_most=True)
            for length in LENGTHS
        ),
    ]
    finish(bars, {"views a second": speeds, "seconds to the first step": starts}, options.json)


if __name__ == "__main__":
    main()
