"""How far a given time brings: CIFAR-10's training images without labels, for minutes of wall clock on two cores.

    .venv-peers/bin/python benchmarks/race.py --data data --out runs/race --minutes 10 --seeds 3

Everything counts: starting, decoding, compiling. ``eigenview``: what ``eigenview train … --minutes N`` chooses by
itself. ``lightly-small``, ``lightly-resnet18``: lightly's SimCLR as its documentation builds it (its transform, a
DataLoader with two workers, its head, NTXentLoss, AdamW with a cosine) around our small encoder and torchvision's
ResNet-18. Then, for each alike: logistic regression on the features of 10,000 labelled training images, the penalty
chosen on them by folds, and 20-NN among them; accuracy on all test images. Contenders take turns, each in a process of
its own on two cores, and the clock runs from its start to the end of its training. What is finished is kept in ``out``
with the version of the code and not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from bars import Bar, age, code_version, finish
from torch import Tensor, nn

import eigenview as ev
from eigenview.data import Source, open_images
from eigenview.evaluation import knn_predict
from eigenview.evaluation.linear import select_logistic
from eigenview.files import write_json
from eigenview.training import Listener
from eigenview.views.presets import IMAGENET_MEAN, IMAGENET_STD

LABELLED, K = 10_000, 20
MEASURES = ("linear", "20-NN")
OURS, PEER, LARGE = "eigenview", "lightly-small", "lightly-resnet18"
LEAD = 8.0  # points above lightly with the same encoder: the bar
CORES = 2


class Ended(Listener):
    """When training was over."""

    at = 0.0

    def ended(self) -> None:
        self.at = time.time()


def ticks() -> tuple[int, int]:
    """Of all cores since the machine began: those that other machines on the same processor took, and all."""
    counted = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return counted[7], sum(counted)


def pixels(source: Path) -> tuple[np.ndarray, Tensor]:
    """All images, uint8 (n, 32, 32, 3), and their labels."""
    images = open_images(str(source))
    assert isinstance(images, Source)
    assert images.labels is not None
    return np.stack([images.image(index).pixels() for index in range(len(images))]), torch.as_tensor(images.labels)


def train_lightly(name: str, options: argparse.Namespace) -> tuple[nn.Module, int]:
    """Until the minutes are over; the encoder, and how many views it saw."""
    from lightly_simclr import LightlySimCLR

    torch.manual_seed(options.seed)
    peer = LightlySimCLR(pixels(options.train)[0], small=name == PEER)

    def share() -> float:
        return (time.time() - options.born) / (60 * options.minutes)

    seen = next(seen for seen in peer.steps(share) if share() > 1)
    return peer.encoder, seen


def lightly_features(encoder: nn.Module, file: Path) -> tuple[Tensor, Tensor]:
    images, labels = pixels(file)
    mean, std = (torch.tensor(numbers).view(3, 1, 1) for numbers in (IMAGENET_MEAN, IMAGENET_STD))
    encoder.eval()
    with torch.no_grad():
        seen = [
            encoder((block.permute(0, 3, 1, 2) / 255 - mean) / std) for block in torch.from_numpy(images).split(500)
        ]
    return torch.cat(seen).flatten(1), labels


def scores(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor) -> dict[str, float]:
    """Per cent right. Columns are standardised for the linear probe."""
    centre, spread = train.mean(dim=0), train.std(dim=0).clamp_min(1e-6)
    linear = select_logistic((train - centre) / spread, labels).classifier.predict((test - centre) / spread)
    near = knn_predict(train, labels, test, k=(K,))[K]
    return {name: 100 * (own == truth).float().mean().item() for name, own in (("linear", linear), ("20-NN", near))}


def measure(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Train one contender in this process, and judge it."""
    before = ticks()
    if name == OURS:
        folder, clock = options.out / f"{name}-{options.minutes:g}-{options.seed}", Ended()
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was interrupted
        left = options.minutes - (time.time() - options.born) / 60
        run = ev.train(options.train, out=folder, seed=options.seed, minutes=left, listeners=[clock])
        views = sum(crop.count for crop in run.opened.recipe.crops)
        views *= int(run.metrics[-1]["step"]) * run.config.batch_size
        taken = (clock.at - options.born) / 60
        made = [run.embed(file) for file in (options.train, options.test)]
        (train, labels), (test, truth) = ((torch.as_tensor(each.array), torch.as_tensor(each.labels)) for each in made)
    else:
        encoder, views = train_lightly(name, options)
        taken = (time.time() - options.born) / 60
        (train, labels), (test, truth) = (lightly_features(encoder, file) for file in (options.train, options.test))
    stolen, whole = (now - then for now, then in zip(ticks(), before, strict=True))
    some = torch.from_numpy(np.random.default_rng(0).permutation(len(train))[:LABELLED])
    return {
        **scores(train[some], labels[some], test, truth),
        "views": views,
        "minutes": taken,
        "stolen": stolen / whole,
    }


def kept(name: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """What one contender reached; measured in a process of its own where it is not known yet."""
    file = options.out / f"{name}-{options.minutes:g}-{seed}.json"
    if file.exists():
        print(f"kept in {file}:")
    else:
        more = [
            "--minutes",
            str(options.minutes),
            "--seed",
            str(seed),
            "--data",
            str(options.data),
            "--out",
            str(options.out),
        ]
        # what importing Eigenview asks of OpenMP is for its own runs; others wait as torch does by itself
        others = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
        command = [sys.executable, __file__, *more, "--child", name, "--born", str(time.time())]
        subprocess.run(command, check=True, env=None if name == OURS else others)
    known: dict[str, float] = json.loads(file.read_text())
    words = ", ".join(f"{what} {known[what]:.1f}" for what in MEASURES)
    print(
        f"{name}, seed {seed}: {words}, {known['views']:,.0f} views in {known['minutes']:.1f} minutes, "
        f"{known.get('stolen', float('nan')):.0%} of the cores taken by other machines{age(known)}",
        flush=True,
    )
    return known


def table(made: dict[str, list[dict[str, float]]]) -> list[Bar]:
    """Means over the seeds with their standard deviations; a bar for each measure, the lead in pairs of a seed."""
    print("\n| | " + " | ".join(MEASURES) + " | views |\n|---|---|---|---|")
    for name, known in made.items():
        cells = [
            f"{np.mean(values):.1f} ± {np.std(values, ddof=min(1, len(values) - 1)):.1f}"
            for values in ([run[each] for run in known] for each in MEASURES)
        ]
        print(f"| {name} | {' | '.join(cells)} | {np.mean([run['views'] for run in known]):,.0f} |")
    if any(age(run) for known in made.values() for run in known):
        print("\nno bars: some results are of other code than today's; without their files they are measured again")
        return []
    leads = {each: [a[each] - b[each] for a, b in zip(made[OURS], made[PEER], strict=True)] for each in MEASURES}
    return [
        Bar(f"points-above-lightly-{name}", float(np.mean(lead)), LEAD, at_most=False) for name, lead in leads.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/race"))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--contenders", nargs="+", default=[OURS, PEER], choices=(OURS, PEER, LARGE))
    parser.add_argument("--json", type=Path)
    for name, kind in (("--child", str), ("--born", float), ("--seed", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.train, options.test = (options.data / "cifar10" / f"{name}.parquet" for name in ("train", "test"))
    options.out.mkdir(parents=True, exist_ok=True)
    if hasattr(os, "sched_setaffinity"):  # here, so that a child's OpenMP finds so many cores as it loads
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    if options.child:
        reached = {**measure(options.child, options), "code": code_version()}
        write_json(options.out / f"{options.child}-{options.minutes:g}-{options.seed}.json", reached)
        return
    made: dict[str, list[dict[str, float]]] = {name: [] for name in options.contenders}
    for seed in range(options.seeds):
        for name in options.contenders:
            made[name].append(kept(name, seed, options))
    finish(table(made) if {OURS, PEER} <= set(made) else [], made, options.json)


if __name__ == "__main__":
    main()
