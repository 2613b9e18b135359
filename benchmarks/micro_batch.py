"""A large batch in micro-batches beside a plain batch of one micro-batch: peak memory, and time a view.

    python benchmarks/micro_batch.py                    # ResNet-18, group norm, 4,096 images in 128 views at a time
    python benchmarks/micro_batch.py --width 0.25       # a quicker look

SimCLR's whole step with AdamW's update. Each measurement is a process of its own: its peak memory is what the system
says of it, its time that of the processor, so that other work on the machine matters less. The plain batch is measured
before and after. Both hold as many views in the encoder at a time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from bars import Bar, finish

from eigenview.methods import MethodContext, ViewedBatch, find_method
from eigenview.nn import build_encoder
from eigenview.optim import build_optimizer, parameter_groups

VIEWS, SIZE, EMBEDDING = 2, 32, 128
MEGABYTE = 2**20


def measure(images: int, steps: int, micro_batch: int | None, width: float) -> dict[str, float]:
    """Of ``steps`` steps in this process: the peak memory, what there was before the batch, the time."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    encoder = build_encoder("resnet18", image_size=SIZE, width=width, normalization="group")
    kind = find_method("simclr")
    context = MethodContext(None, None, (VIEWS,), steps_per_epoch=1, micro_batch=micro_batch)
    method = kind(encoder, kind.settings_type(head_output=EMBEDDING), context)
    method.to(memory_format=torch.channels_last).train()
    optimizer = build_optimizer("adamw", parameter_groups(method, learning_rate=1e-3))
    optimizer.zero_grad()  # loads what torch loads at the first call
    before = _peak()
    pixels = torch.randn(VIEWS * images, 3, SIZE, SIZE).contiguous(memory_format=torch.channels_last)
    batch = ViewedBatch((pixels,), images, torch.arange(images), None, 0, 0)
    start = time.process_time()
    for _ in range(steps):
        method(batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    seconds = time.process_time() - start
    views = VIEWS * images
    return {
        "before": before,
        "peak": _peak(),
        "pixels": pixels.nbytes / MEGABYTE,
        "embeddings": views * (encoder.feature_width + EMBEDDING) * 4 / MEGABYTE,
        "milliseconds_a_view": 1000 * seconds / (steps * views),
    }


def _peak() -> float:
    """Megabytes; Linux counts in kilobytes, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else MEGABYTE)


def in_a_process(images: int, steps: int, micro_batch: int | None, width: float) -> dict[str, float]:
    given = json.dumps([images, steps, micro_batch, width])
    ended = subprocess.run([sys.executable, __file__, "--measure", given], capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(ended.stdout)
    return measured


def compare(images: int, micro_batch: int, width: float, steps: int) -> tuple[list[Bar], dict[str, object]]:
    few = micro_batch // VIEWS
    plain = in_a_process(few, steps, None, width)
    large = in_a_process(images, 1, micro_batch, width)
    again = in_a_process(few, steps, None, width)
    cost = (plain["milliseconds_a_view"] + again["milliseconds_a_view"]) / 2
    print(
        f"SimCLR, ResNet-18 of width {width:g} with group norm, {SIZE} × {SIZE}, one thread; megabytes, processor time"
    )
    print(
        "| batch | at a time | before the batch | peak | its pixels | its embeddings | ms a view |\n" + "|---" * 7 + "|"
    )
    for count, row, milliseconds in ((few, plain, cost), (images, large, large["milliseconds_a_view"])):
        sizes = " | ".join(f"{row[name]:,.0f}" for name in ("before", "peak", "pixels", "embeddings"))
        print(f"| {count:,} images | {micro_batch} views | {sizes} | {milliseconds:.2f} |")
    own = large["peak"] - large["pixels"] - large["embeddings"]
    bars = [
        Bar("micro-batch-peak-memory-of-a-plain-batch", own / plain["peak"], 1.2, at_most=True),
        Bar("micro-batch-time-of-a-plain-view", large["milliseconds_a_view"] / cost, 1.5, at_most=True),
    ]
    return bars, {"plain": [plain, again], "micro-batches": large}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--micro-batch", type=int, default=128)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=5, help="of the plain batch")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(*options.measure)))
        return
    finish(*compare(options.images, options.micro_batch, options.width, options.steps), options.json)


if __name__ == "__main__":
    main()
