"""What each choice of the race is worth: the run that `eigenview train … --minutes N` chooses, with one choice undone.

    python benchmarks/race_choices.py --data data --out runs/choices --minutes 2

CIFAR-10's training images without labels, for equal minutes by the clock, everything included. Then logistic regression
and 20-NN from 10,000 labelled training images, asked by 10,000 others of the training set: this is where choices are
made, and no test image is looked at. ``stl10``: 64 pixels, trained on the unlabelled images, then its ten official
folds: 1,000 labelled images answer, the 4,000 others ask. ``digits``: five folds. A row a process; what is finished
is kept in ``out`` with the version of the code and not made again. Where the first two rows are made, by today's code,
bars hold what is chosen not to be below what was chosen before the race.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bars import Bar, age, code_version, finish
from race import LABELLED, MEASURES, scores
from torch import Tensor

import eigenview as ev
from eigenview.evaluation import read_folds
from eigenview.files import write_json
from eigenview.names import slug
from eigenview.runs import open_run

BEFORE: dict[str, Any] = {  # what was chosen before the race
    "method": "simclr",
    "encoder": {"name": "small"},
    "optimizer": {"name": "adamw", "learning_rate": 2e-3},
    "views": {"crops": [{"size": 32, "count": 2, "scale": [0.08, 1.0]}]},
}
MUON = {"name": "muon", "learning_rate": 0.05}
AVERAGED = "constant rate, late checkpoints averaged"
CHOSEN, OLD = "all", "none of them"
ROWS: dict[str, Mapping[str, Any]] = {
    CHOSEN: {},
    OLD: BEFORE,
    "AdamW at 0.002": {"optimizer": {"name": "adamw", "learning_rate": 2e-3}},
    "Muon at 0.02": {"optimizer": {"name": "muon", "learning_rate": 0.02}},
    "Muon at 0.08": {"optimizer": {"name": "muon", "learning_rate": 0.08}},
    "momentum 0.95": {"optimizer": {"name": "muon", "learning_rate": 0.05, "momentum": 0.95}},
    "plain small encoder": {"encoder": {"name": "small"}, "optimizer": MUON},
    "width 1.5": {"encoder": {"width": 1.5}},
    "ResNet-18 of a quarter of the width, stem of stride 1": {
        "encoder": {"name": "resnet18", "width": 0.25, "stem": "cifar"},
        "optimizer": MUON,
    },
    "ViT-tiny, AdamW": {"encoder": {"name": "vit-tiny"}},
    "32 pixels from the start": {"views": {"early_share": 0.0}},
    "crops of 8 % of the image and more": {
        "views": {"crops": [{"size": 32, "count": 2, "scale": [0.08, 1.0]}], "early_size": 24}
    },
    "four views, batches of 128": {
        "views": {"crops": [{"size": 32, "count": 4, "scale": [0.2, 1.0]}], "early_size": 24},
        "batch_size": 128,
    },
    "SimCLR at 0.2": {"method": "simclr", "method_settings": {"temperature": 0.2}, "optimizer": MUON},
    "uniformity at t = 3": {"method_settings": {"t": 3.0}},
    "batches of 512": {"batch_size": 512},
    "constant rate": {"optimizer": {"schedule": "constant"}},
    AVERAGED: {"optimizer": {"schedule": "constant"}, "keep_every": 1},
    "no warm-up": {"optimizer": {"warmup_epochs": 0.0}},
    "precision 32": {"precision": "32"},
    "compiled": {"compile": True},
}
WHOLE = "views as large as the images"
ROWS = {**ROWS, WHOLE: {"views": {"size": 64}}}  # of stl10, where few epochs would be left for it
FOLDS = 5


def sources(name: str, data: Path) -> tuple[str, str]:
    """What is trained on, and what is asked."""
    if name == "digits":
        return "digits", "digits"
    if name == "stl10":
        return str(data / "stl10_64" / "unlabelled.parquet"), str(data / "stl10_64" / "train.parquet")
    return str(data / "cifar10" / "train.parquet"), str(data / "cifar10" / "train.parquet")


def splits(name: str, count: int, asked: str) -> list[tuple[Tensor, Tensor]]:
    """Rows that answer and rows that ask."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(count))
    if name == "stl10":
        return [(fold, order[~torch.isin(order, fold)]) for fold in read_folds(asked)]
    if name == "cifar10":
        return [(order[:LABELLED], order[LABELLED : 2 * LABELLED])]
    parts = order.tensor_split(FOLDS)
    return [(torch.cat([*parts[:fold], *parts[fold + 1 :]]), parts[fold]) for fold in range(FOLDS)]


def average_late(run: ev.Run) -> None:
    """The encoder becomes the mean of those of the last third of the epochs."""
    kept = sorted(name for name in run.directory.checkpoints.names() if name.startswith("epoch-"))
    late = [open_run(run.folder, checkpoint=name).encoder.state_dict() for name in kept[2 * len(kept) // 3 :]]
    mean = {name: torch.stack([state[name].double() for state in late]).mean(dim=0) for name in late[0]}
    run.opened.encoder.load_state_dict(mean)


def measure(options: argparse.Namespace) -> dict[str, float]:
    train, asked = sources(options.set, options.data)
    changes = dict(ROWS[options.child])
    if options.set != "cifar10" and options.child != WHOLE:
        changes.pop("views", None)  # crops of another size
    left = options.minutes - (time.time() - options.born) / 60
    run = ev.train(
        train, out=options.out / f"{stem(options, options.child)}-run", minutes=left, seed=options.seed, **changes
    )
    if options.child == AVERAGED:
        average_late(run)
    made = run.embed(asked)
    rows, labels = torch.as_tensor(made.array), torch.as_tensor(made.labels)
    each = [scores(rows[a], labels[a], rows[b], labels[b]) for a, b in splits(options.set, len(rows), asked)]
    steps, views = int(run.metrics[-1]["step"]), sum(crop.count for crop in run.opened.recipe.crops)
    means = {name: float(np.mean([known[name] for known in each])) for name in MEASURES}
    return {**means, "views": steps * views * run.config.batch_size}


def stem(options: argparse.Namespace, row: str) -> str:
    return f"{options.set}-{options.minutes:g}-{options.seed}-{slug(row)}"


def kept(row: str, options: argparse.Namespace) -> dict[str, float]:
    """What one row reached; measured in a process of its own where it is not known yet."""
    file = options.out / f"{stem(options, row)}.json"
    if not file.exists():
        again = [sys.executable, __file__, *sys.argv[1:], "--seed", str(options.seed)]
        again += ["--child", row, "--born", str(time.time())]
        subprocess.run(again, check=True, stdout=subprocess.DEVNULL)
    known: dict[str, float] = json.loads(file.read_text())
    return known


def table(options: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """A line a row with the figures of its seeds, as they come."""
    print("| | " + " | ".join(MEASURES) + " | views |\n|---|---|---|---|", flush=True)
    made: dict[str, list[dict[str, float]]] = {}
    for row in options.rows:
        made[row] = [kept(row, argparse.Namespace(**{**vars(options), "seed": seed})) for seed in range(options.seeds)]
        cells = [", ".join(f"{known[name]:.1f}" for known in made[row]) for name in MEASURES]
        views = ", ".join(f"{known['views']:,}" for known in made[row])
        print(f"| {row}{age(made[row][-1])} | {' | '.join(cells)} | {views} |", flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/choices"))
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", choices=("cifar10", "stl10", "digits"), default="cifar10")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=[row for row in ROWS if row != WHOLE])
    parser.add_argument("--json", type=Path)
    for name, kind in (("--child", str), ("--born", float), ("--seed", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.child:
        reached = {**measure(options), "code": code_version()}
        write_json(options.out / f"{stem(options, options.child)}.json", reached)
        return
    made, bars = table(options), []
    if {CHOSEN, OLD} <= set(made) and not any(age(run) for row in (CHOSEN, OLD) for run in made[row]):
        for name in MEASURES:
            gain = np.mean([a[name] - b[name] for a, b in zip(made[CHOSEN], made[OLD], strict=True)])
            bars.append(Bar(f"{options.set}-points-above-before-{name}", float(gain), 0.0, at_most=False))
    finish(bars, made, options.json)


if __name__ == "__main__":
    main()
