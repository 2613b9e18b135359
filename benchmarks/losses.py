"""Forward and backward of the losses, as a ratio to three bare n x n x d matrix products and to peers, and peak memory.

    .venv-peers/bin/python benchmarks/losses.py --json losses.json      (CONTRIBUTING.md says how to make .venv-peers)

d = 128, float32, two threads. Three products are what a dense InfoNCE cannot do without: S = ZZ', and two for the
gradient. Extra memory is the rise of the process's peak over its state before the call, in a process of its own.
Without the peers installed, only what is there is measured, and their bars are missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from bars import Bar, best_times, finish, median_times
from torch import Tensor, cdist
from torch.nn.functional import cross_entropy, normalize

import eigenview
from eigenview import (
    CauchyKernel,
    CosineKernel,
    ExponentialKernel,
    GaussianKernel,
    Kernel,
    LaplacianKernel,
    StudentTKernel,
    concatenated,
)

WIDTH, TEMPERATURE = 128, 0.1
ELEMENTARY: dict[str, Kernel] = {
    "Cosine": CosineKernel(0.1),
    "Gaussian": GaussianKernel(0.1),
    "Laplacian": LaplacianKernel(0.1),
    "Exponential, gamma 0.5": ExponentialKernel(0.5, 0.1),
    "Exponential, gamma 0.7": ExponentialKernel(0.7, 0.1),
    "Cauchy": CauchyKernel(0.5),
    "Student t, 3 degrees": StudentTKernel(3.0, 0.5),
}
SUMS: dict[str, tuple[int, Kernel]] = {
    "Gaussian + Laplacian": (2, GaussianKernel(0.1) + LaplacianKernel(0.1)),
    "concat(Gaussian, Laplacian)": (2, concatenated(GaussianKernel(0.1), LaplacianKernel(0.1))),
    "Gaussian + Laplacian + Cauchy": (3, GaussianKernel(0.1) + LaplacianKernel(0.1) + CauchyKernel(0.5)),
}
Loss = Callable[[Tensor, Tensor], Tensor]


def dense_info_nce(a: Tensor, b: Tensor) -> Tensor:
    """InfoNCE as one writes it in a hurry."""
    z = normalize(torch.cat([a, b]), dim=1)
    logits = (z @ z.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    return cross_entropy(logits, torch.arange(len(z)).roll(len(a)))


def dense_with(log_similarity: Callable[[Tensor], Tensor]) -> Loss:
    """The same with another kernel, as one writes it in a hurry."""

    def loss(a: Tensor, b: Tensor) -> Tensor:
        z = normalize(torch.cat([a, b]), dim=1)
        return cross_entropy(log_similarity(z).fill_diagonal_(-torch.inf), torch.arange(len(z)).roll(len(a)))

    return loss


def dense_concatenation(z: Tensor) -> Tensor:
    x, y = z.chunk(2, dim=1)
    return torch.logaddexp(-cdist(x, x).square() / (2 * TEMPERATURE), -cdist(y, y) / TEMPERATURE)


def dense_sum(z: Tensor) -> Tensor:
    apart = cdist(z, z)
    return torch.logaddexp(-apart.square() / (2 * TEMPERATURE), -apart / TEMPERATURE)


DENSE: dict[str, Loss] = {  # by the name of ours
    "Eigenview InfoNCE": dense_info_nce,
    "kernel Gaussian": dense_with(lambda z: -cdist(z, z).square() / (2 * TEMPERATURE)),
    "kernel Laplacian": dense_with(lambda z: -cdist(z, z) / TEMPERATURE),
    "kernel Gaussian + Laplacian": dense_with(dense_sum),
    "kernel concat(Gaussian, Laplacian)": dense_with(dense_concatenation),
}


def compare_small(views: int, rounds: int, *, by_clock: bool) -> list[Bar]:
    """Ours and the plain dense form of the same loss: at most 1.1 x from 512 views, 0.15 ms more below.

    One thread by its processor time, or all threads by the clock, which wants a quiet machine.
    """
    losses, threads = ours(), torch.get_num_threads()
    torch.set_num_threads(threads if by_clock else 1)
    runs = {name: forward_backward(losses[name], views) for name in DENSE}
    runs |= {f"plain {name}": forward_backward(loss, views) for name, loss in DENSE.items()}
    times = median_times(runs, rounds, clock=time.perf_counter if by_clock else time.process_time)
    torch.set_num_threads(threads)
    kind = f"ms of {threads} threads" if by_clock else "processor ms"
    print(f"\n{views:,} views, d = {WIDTH}: forward + backward, {kind}, ours and plain dense PyTorch")
    bars = []
    for name in DENSE:
        own, plain = times[name], times[f"plain {name}"]
        print(f"  {name:38s} {own * 1e3:8.3f} {plain * 1e3:8.3f}")
        written = name.removeprefix("kernel ").removeprefix("Eigenview ").replace(", ", "-").replace(" + ", "+")
        if views >= 512:
            bars.append(Bar(f"{written}-{views}-vs-plain-dense", own / plain, 1.1, at_most=True))
        else:
            bars.append(Bar(f"{written}-{views}-ms-over-plain-dense", (own - plain) * 1e3, 0.15, at_most=True))
    return bars


def solo_learn_formula(a: Tensor, b: Tensor) -> Tensor:
    """The formula that solo-learn computes: exponentials, masks of positives and negatives, a ratio of sums."""
    z = normalize(torch.cat([a, b]), dim=1)
    item = torch.arange(len(a)).repeat(2)
    similarity = (z @ z.T / TEMPERATURE).exp()
    is_same = item[:, None] == item[None, :]
    positive = (similarity * (is_same & ~torch.eye(len(z), dtype=torch.bool))).sum(1)
    negative = (similarity * ~is_same).sum(1)
    return -(positive / (positive + negative)).log().mean()


def peers() -> dict[str, Loss]:
    losses: dict[str, Loss] = {"plain dense PyTorch": dense_info_nce, "solo-learn's formula": solo_learn_formula}
    try:
        from lightly.loss import NTXentLoss

        losses["lightly"] = NTXentLoss(temperature=TEMPERATURE)
    except ImportError:
        print("lightly is not installed: its bar is left out")
    try:
        from pytorch_metric_learning.losses import NTXentLoss as MetricNTXent

        criterion = MetricNTXent(temperature=TEMPERATURE)
        losses["pytorch-metric-learning"] = lambda a, b: criterion(torch.cat([a, b]), torch.arange(len(a)).repeat(2))
    except ImportError:
        print("pytorch-metric-learning is not installed: it is left out")
    return losses


def ours() -> dict[str, Loss]:
    def with_kernel(kernel: Kernel) -> Loss:
        return lambda a, b: eigenview.kernel_info_nce_loss(a, b, kernel=kernel)

    losses: dict[str, Loss] = {"Eigenview InfoNCE": lambda a, b: eigenview.info_nce(a, b, temperature=TEMPERATURE)}
    losses |= {f"kernel {name}": with_kernel(kernel) for name, kernel in ELEMENTARY.items()}
    losses |= {f"kernel {name}": with_kernel(kernel) for name, (_, kernel) in SUMS.items()}
    losses["random walk, absolute"] = eigenview.random_walk_laplacian
    losses["random walk, squared"] = lambda a, b: eigenview.random_walk_laplacian(a, b, form="squared")
    losses["align + uniform"] = eigenview.align_uniform_loss
    losses["CLIP"] = eigenview.clip_loss
    losses["SigLIP"] = eigenview.siglip_loss
    losses["spectral contrastive"] = eigenview.spectral_contrastive
    return losses


def two_views(views: int) -> tuple[Tensor, Tensor]:
    a = torch.randn(views // 2, WIDTH, generator=torch.Generator().manual_seed(0))
    b = a + 0.5 * torch.randn(views // 2, WIDTH, generator=torch.Generator().manual_seed(1))
    return a.requires_grad_(), b.requires_grad_()


def three_products(views: int) -> Callable[[], object]:
    z = torch.cat(two_views(views)).detach()

    def run() -> None:
        s = z @ z.T
        _ = s @ z
        _ = s.T @ z

    return run


def forward_backward(loss: Loss, views: int) -> Callable[[], object]:
    a, b = two_views(views)
    return lambda: torch.autograd.grad(loss(a, b), (a, b))


def compare(views: int, losses: dict[str, Loss], rounds: int) -> dict[str, float]:
    runs = {"three matrix products": three_products(views)}
    runs |= {name: forward_backward(loss, views) for name, loss in losses.items()}
    times = best_times(runs, rounds)
    bare = times["three matrix products"]
    print(
        f"\n{views:,} views, d = {WIDTH}: forward + backward as multiples of three bare products ({bare * 1e3:.0f} ms)"
    )
    for name, seconds in times.items():
        print(f"  {name:38s} {seconds / bare:7.2f}")
    return {name: seconds / bare for name, seconds in times.items()}


def extra_memory(name: str, views: int) -> float:
    """Peak extra memory in MB of one forward and backward, measured in a new process."""
    command = [sys.executable, __file__, "--memory-of", name, "--views", str(views)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(answer.stdout.splitlines()[-1]))


def measure_memory(name: str, views: int) -> None:
    loss = {**ours(), **peers()}[name]
    forward_backward(loss, 64)()  # libraries loaded, threads started
    run = forward_backward(loss, views)
    before = memory_line("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    run()
    print(json.dumps(memory_line("VmHWM") - before))


def memory_line(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024


def judge(at_8k: dict[str, float], memory: dict[str, float]) -> list[Bar]:
    own = at_8k["Eigenview InfoNCE"]
    bars = [
        Bar("InfoNCE-8192-vs-three-matmuls", own, 1.0, at_most=True),
        Bar("InfoNCE-8192-faster-than-plain-dense", at_8k["plain dense PyTorch"] / own, 3.0, at_most=False),
        Bar("InfoNCE-8192-extra-MB", memory["Eigenview InfoNCE, 8,192 views"], 100, at_most=True),
        Bar("InfoNCE-65536-extra-MB", memory["Eigenview InfoNCE, 65,536 views"], 500, at_most=True),
    ]
    if "lightly" in at_8k:
        bars.append(Bar("InfoNCE-8192-faster-than-lightly", at_8k["lightly"] / own, 5.0, at_most=False))
    for name, (count, _) in {**{name: (1, kernel) for name, kernel in ELEMENTARY.items()}, **SUMS}.items():
        written = name.replace(", ", "-").replace(" + ", "+").replace(" ", "-")
        bars.append(Bar(f"{written}-vs-InfoNCE", at_8k[f"kernel {name}"] / own, 3.0 * count, at_most=True))
    return bars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--rounds", type=int, default=7, help="the best of so many rounds counts")
    parser.add_argument("--small", action="store_true", help="only the small sizes, against plain dense PyTorch")
    parser.add_argument("--by-clock", action="store_true", help="time small sizes by the clock, on all threads")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--views", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of:
        measure_memory(options.memory_of, options.views)
        return
    sizes = (64, 256, 512, 1024, 1282, 1538, 2048)  # 1,538 is the first that is evaluated in blocks
    rounds = max(30, options.rounds)
    small = [bar for views in sizes for bar in compare_small(views, rounds, by_clock=options.by_clock)]
    if options.small:
        finish(small, {}, options.json)
        return
    others = peers()
    slow = "pytorch-metric-learning"  # lists every triplet: seconds at 1,024 views, beyond memory soon after
    large = {name: loss for name, loss in others.items() if name != slow}
    at_1k = compare(1024, {**ours(), **large}, options.rounds)
    if slow in others:
        at_1k |= compare(1024, {slow: others[slow]}, 1)
    at_8k = compare(8192, {**ours(), **large}, options.rounds)
    print("\npeak extra memory of forward + backward, MB")
    memory = {}
    for name, views in [
        *((name, 1024) for name in ("Eigenview InfoNCE", *others)),
        *((name, 8192) for name in ("Eigenview InfoNCE", "kernel Gaussian + Laplacian", *large)),
        ("Eigenview InfoNCE", 65536),
    ]:
        memory[f"{name}, {views:,} views"] = extra_memory(name, views)
        print(f"  {name:30s} {views:7,} views {memory[f'{name}, {views:,} views']:9.0f}")
    print(f"  {'one dense matrix would need':30s} {65536:7,} views {65536**2 * 4 / 2**20:9.0f}")
    finish([*small, *judge(at_8k, memory)], {"1024": at_1k, "8192": at_8k, "extra_MB": memory}, options.json)


if __name__ == "__main__":
    main()
