"""Where the time of a training step goes, and what channels_last and torch.compile give.

    python benchmarks/training.py                       # SimCLR, ResNet-18, 32 × 32, batches of 64 images
    python benchmarks/training.py --encoder small --batch 256
    python benchmarks/training.py --layouts             # steps/s of every layout × compile, for two encoders
    python benchmarks/training.py --break-even          # from how many minutes on compiling pays: what a run measures

Times are of this process's processor time, so that other work on the machine matters less; parts are timed in rounds
that take turns, and the best round of each counts. The break-even is by the clock, with nothing compiled before.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bars import Bar, finish

from eigenview.losses import info_nce
from eigenview.nn import build_encoder, build_head
from eigenview.optim import build_optimizer, parameter_groups
from eigenview.training.start import prepare
from eigenview.training.trial import timed_batches
from eigenview.views import Views, preset


class Step:
    """The parts of one SimCLR step, each callable on its own."""

    def __init__(self, encoder: str, batch: int, *, channels_last: bool = True, compiles: bool = False) -> None:
        torch.manual_seed(0)
        self.images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (batch, 3, 32, 32), dtype=np.uint8))
        self.augment = Views(preset("simclr-cifar"), seed=0)
        self.encoder = build_encoder(encoder, image_size=32)
        self.head = build_head("simclr-v1", self.encoder.feature_width)
        if channels_last:
            self.encoder = self.encoder.to(memory_format=torch.channels_last)
        self.channels_last = channels_last
        if compiles:
            self.encoder.compile()
        both = torch.nn.ModuleList([self.encoder, self.head])
        self.optimizer = build_optimizer("adamw", parameter_groups(both, learning_rate=1e-3))
        self.made, self.rows = self.views(), torch.randn(2 * batch, 128, requires_grad=True)

    def views(self) -> torch.Tensor:
        return self.augment(self.images, torch.arange(len(self.images)), epoch=0).groups[0]

    def network(self) -> None:
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        self.head(self.encoder(self.made.contiguous(memory_format=layout))).sum().backward()

    def loss(self) -> None:
        a, b = self.rows.chunk(2)
        info_nce(a, b, temperature=0.5).backward()
        self.rows.grad = None

    def update(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)


def best(parts: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Processor seconds of each part, the best of ``rounds`` that take turns."""
    seconds = dict.fromkeys(parts, float("inf"))
    for part in parts.values():
        part()
    for _ in range(rounds):
        for name, part in parts.items():
            start = time.process_time()
            part()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds


def profile(encoder: str, batch: int, rounds: int) -> list[Bar]:
    step = Step(encoder, batch)
    times = best({"views": step.views, "network": step.network, "loss": step.loss, "update": step.update}, rounds)
    whole = sum(times.values())
    print(f"SimCLR, {encoder} at 32 × 32, {batch} images a batch, two views each; {torch.get_num_threads()} threads")
    for name, seconds in times.items():
        print(f"  {name:8s} {1000 * seconds:9.1f} ms  {seconds / whole:6.1%}")
    return [Bar("views-and-loss-share-of-a-step", (times["views"] + times["loss"]) / whole, 0.1, at_most=True)]


def layouts(batch: int, rounds: int) -> None:
    for encoder in ("small", "resnet18"):
        steps = {
            (last, compiles): Step(encoder, batch, channels_last=last, compiles=compiles)
            for compiles in (False, True)
            for last in (False, True)
        }
        times = best({str(key): step.network for key, step in steps.items()}, rounds)
        slowest = times[str((False, False))]
        for last, compiles in steps:
            seconds = times[str((last, compiles))]
            words = f"{'channels_last' if last else 'contiguous':14s} {'compiled' if compiles else 'eager':9s}"
            print(f"  {encoder:9s} {words} {1000 * seconds:9.1f} ms  {slowest / seconds:5.2f} x")


def break_even(batch: int) -> None:
    """What `--minutes` weighs: the first batch compiled, and the batches after it, against eager ones."""
    for encoder in ("small", "small-deep", "resnet18"):
        for size in (24, 32):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
                given = {"source": f"shapes?count={8 * batch}&size={size}", "out": f"{folder}/run", "batch_size": batch}
                prepared = prepare({**given, "encoder": {"name": encoder}, "steps": 1, "precision": "32"})
                plain, quick = (
                    timed_batches(prepared.config.model_copy(update={"compile": compiles}), prepared.source)
                    for compiles in (False, True)
                )
            saved = 1 - quick.batch / plain.batch
            words = f"pays from {quick.first / saved / 60:.0f} minutes on" if saved > 0 else "never pays"
            times = f"{1000 * plain.batch:6.0f} ms, compiled {1000 * quick.batch:6.0f} ms after {quick.first:4.0f} s"
            print(f"  {encoder:11s} at {size} pixels: {times}; {words}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--encoder", default="resnet18")
    parser.add_argument("--layouts", action="store_true")
    parser.add_argument("--break-even", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.layouts:
        layouts(options.batch, options.rounds)
    elif options.break_even:
        break_even(256)
    else:
        finish(profile(options.encoder, options.batch, options.rounds), {}, options.json)


if __name__ == "__main__":
    main()
