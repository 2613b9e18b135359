"""One process against two on the same cores, what each part of a step costs, and what follows for 8 and 64.

    python benchmarks/scaling.py --json scaling.json

Runs: ``eigenview train`` with the small encoder on generated images of 32 × 32, batches of 256, by itself with two
threads and by torchrun as two processes (gloo) of one thread; views a second by the clock, after the first steps.
Parts of a step, for 256 images a process: the encoder and head (forward and backward), the loss, the gather of
embeddings and the sum of gradients between two processes at several sizes, from which a time a call and a time a byte
follow. Memory: the highest of a run's process, by batch. The last table puts the parts together for more processes,
none of them overlapped: an extrapolation, not a measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from bars import best_times, finish

from eigenview.distributed import gather_rows, sum_over_processes
from eigenview.losses import info_nce
from eigenview.nn import SmallEncoder, build_head

BATCH, WIDTH, FIRST = 256, 128, 20  # images a process; columns of an embedding; steps that are not counted
SIZES = (2**12, 2**16, 2**20, 2**23)  # bytes, of the calls between processes
LARGE = (256, 1024, 4096)  # batches whose memory is looked at
COUNTS = (1, 2, 8, 64)
LATENCY = 20e-6  # seconds a call between accelerators


@dataclass(frozen=True)
class Parts:
    """Seconds of the parts of a step of one process, and what calls between processes cost."""

    network: float  # of 2 × BATCH views
    loss: float  # of 2 × BATCH rows against as many
    gather: tuple[float, float]  # seconds a call, seconds a byte sent by each
    reduce: tuple[float, float]
    gradient: int  # bytes

    def step(self, processes: int, *, faster: float = 1.0, byte: float | None = None) -> float:
        """``faster``: how much faster an accelerator computes; ``byte``: seconds a byte of its links."""
        computed = (self.network + processes * self.loss) / faster  # the rows of each against those of all
        if processes == 1:
            return computed
        ring = 2 * (processes - 1) / processes  # how often the gradient travels
        rows = (processes - 1) * 2 * BATCH * WIDTH * 4
        slope = (self.gather[1], self.reduce[1]) if byte is None else (byte, byte)
        calls = self.gather[0] + self.reduce[0] if byte is None else 2 * LATENCY
        return computed + calls + rows * slope[0] + ring * self.gradient * slope[1]


def run(folder: Path, images: Path, *, processes: int, batch: int, steps: int) -> tuple[float, float]:
    """Views a second of a run, and the peak memory of its process in GB."""
    given = ["train", str(images), "--out", str(folder), "--method", "simclr", "--encoder", "small", "--no-look"]
    given += ["--batch-size", str(batch), "--steps", str(steps), "--precision", "32", "--log-every", "1"]
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}"] if processes > 1 else []
    code = "import resource, sys\nfrom eigenview.cli import main\nmain(sys.argv[1:])\n"
    code += "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    script = folder.parent / "run.py"
    script.write_text(code)
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, 2 // processes))}
    command = [sys.executable, *launcher, str(script), *given]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ended.stderr[-2000:]}")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    seconds = {line["step"]: line["seconds"] for line in lines if "loss" in line}
    first = min(FIRST, steps // 2)
    peaks = [int(size) for size in re.findall(r"^peak (\d+)$", ended.stdout, re.M)]
    return 2 * batch * (steps - first) / (seconds[steps] - seconds[first]), max(peaks) / 2**20


def _calls(rank: int, port: int, rounds: int, answers: mp.SimpleQueue) -> None:
    """The two calls between processes at every size, seconds of the best round."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    measured: dict[str, list[float]] = {}
    for name in ("gather", "reduce"):
        for size in SIZES:
            sent, group, times = torch.ones(size // 4 // WIDTH, WIDTH), dist.group.WORLD, []
            for _ in range(rounds):
                dist.barrier()
                start = time.perf_counter()
                gather_rows(sent, group) if name == "gather" else sum_over_processes(sent, group)
                times.append(time.perf_counter() - start)
            measured.setdefault(name, []).append(min(times))
    if rank == 0:
        answers.put(measured)
    dist.destroy_process_group()


def calls(rounds: int) -> dict[str, list[float]]:
    answers: mp.SimpleQueue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_calls, (20_000 + os.getpid() % 20_000, rounds, answers), nprocs=2)
    return answers.get()


def line_through(seconds: list[float]) -> tuple[float, float]:
    """Seconds a call, and seconds a byte: the smallest size, and the slope to the largest."""
    return seconds[0], (seconds[-1] - seconds[0]) / (SIZES[-1] - SIZES[0])


def parts(rounds: int) -> tuple[Parts, dict[str, list[float]]]:
    torch.set_num_threads(1)
    encoder = SmallEncoder().to(memory_format=torch.channels_last)
    head = build_head("simclr-v1", encoder.feature_width)
    views = torch.randn(2 * BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    rows = torch.randn(2 * BATCH, WIDTH, requires_grad=True)
    alone = best_times(
        {
            "network": lambda: head(encoder(views)).sum().backward(),
            "loss": lambda: info_nce(*rows.chunk(2), temperature=0.5).backward(),
        },
        rounds,
    )
    between = calls(4 * rounds)
    weights = sum(each.numel() for each in (*encoder.parameters(), *head.parameters()))
    gather, reduce = (line_through(between[name]) for name in ("gather", "reduce"))
    return Parts(alone["network"], alone["loss"], gather, reduce, 4 * weights), between


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--faster", type=float, default=100.0, help="an accelerator, against one core")
    parser.add_argument("--link", type=float, default=25.0, help="GB a second between accelerators")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    speeds, memory = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "images.npy", np.random.default_rng(0).integers(0, 256, (20_000, 32, 32, 3), dtype=np.uint8))
        for processes in (1, 2):
            speed, _ = run(
                folder / f"run{processes}",
                folder / "images.npy",
                processes=processes,
                batch=BATCH,
                steps=options.steps,
            )
            speeds[processes] = speed
            print(f"{processes} process{'es' if processes > 1 else ''}: {speed:,.0f} views/s", flush=True)
        for batch in LARGE:
            _, memory[batch] = run(folder / f"batch{batch}", folder / "images.npy", processes=1, batch=batch, steps=2)
            print(f"batch {batch:,}: {memory[batch]:.2f} GB", flush=True)
    measured, between = parts(options.rounds)
    print(f"\nof a step: network {1000 * measured.network:.1f} ms, loss {1000 * measured.loss:.2f} ms")
    for kind, seconds in between.items():
        words = ", ".join(f"{size:,} bytes {1000 * each:.2f} ms" for size, each in zip(SIZES, seconds, strict=True))
        print(f"{kind}: {words}")
    print("\nextrapolated: share of perfect scaling at 256 images a process\n")
    print("| processes | as this machine | accelerators |\n|---|---|---|")
    byte = 1e-9 / options.link
    for count in COUNTS:
        here = measured.step(1) / measured.step(count)
        there = measured.step(1, faster=options.faster) / measured.step(count, faster=options.faster, byte=byte)
        print(f"| {count} | {here:.0%} | {there:.0%} |")
    finish([], {"views a second": speeds, "GB": memory, "parts": asdict(measured)}, options.json)


if __name__ == "__main__":
    main()
