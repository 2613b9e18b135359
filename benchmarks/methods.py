"""Every method on CIFAR-10 with the small encoder, a few minutes each: 20-NN accuracy against its own untrained start.

    python benchmarks/methods.py --train cifar10/train.parquet --test cifar10/test.parquet --out runs/methods

Runs that are finished are not run again: stop it and go on whenever you like. Features before the head, evaluation
transform, bank of all training images, cosine 20-NN with weights exp(cos/0.1); intervals are 95% over test images.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

from bars import Bar, finish

from eigenview.data import Source, decoded, open_source
from eigenview.evaluation import extract, knn_predict
from eigenview.methods import METHODS
from eigenview.nn import Encoder
from eigenview.runs import is_run, open_run, read_config
from eigenview.training import train
from eigenview.views import CentreView

SEEDS = {"simclr": 3, "kernel-infonce": 3, "random-walk": 3, "align-uniform": 3, "swav": 3}
PAIRWISE = {
    *("simclr", "kernel-infonce", "random-walk", "spectral", "align-uniform", "laplacian-eigenmaps", "simsiam"),
    *("supcon", "moco"),
}
SETTINGS: dict[str, dict[str, Any]] = {  # heads scaled to an encoder of 256 features; all else as methods have it
    "simclr": {"method_settings": {"temperature": 0.2}},
    "kernel-infonce": {"method_settings": {"kernel": "simple-sum", "temperature": 0.4}},
    "random-walk": {"method_settings": {"temperature": 0.1}},
    "spectral": {"method_settings": {"head_hidden": 512, "head_output": 256, "mu": 3.0}},
    "simsiam": {
        "method_settings": {"head_hidden": 512, "head_output": 512, "predictor_hidden": 128},
    },
    "moco": {"method_settings": {"queue": 4096, "momentum": 0.99, "temperature": 0.2}},
    "swav": {"method_settings": {"head_hidden": 512, "prototypes": 300, "epsilon": 0.03, "queue": 0}},
    "deepcluster-v2": {"method_settings": {"head_hidden": 512, "prototypes": [300, 300, 300]}},
    "sela-v2": {"method_settings": {"head_hidden": 512, "prototypes": [300, 300, 300]}},
}


def settings(method: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "source": str(options.train),
        "out": str(options.out / f"{method}-{seed}"),
        "method": method,
        "encoder": {"name": "small"},
        "views": {"preset": "simclr-cifar"},
        "optimizer": {"name": "adamw", "learning_rate": 2e-3, "weight_decay": 1e-4, "warmup_epochs": 0.2},
        "batch_size": 256,
        "epochs": options.epochs,
        "seed": seed,
        "log_every": 50,
        **SETTINGS.get(method, {}),
    }


def accuracy(encoder: Encoder, train_set: Source, test_set: Source, view: CentreView) -> float:
    bank, queries = (extract(encoder, source, view=view, title=None) for source in (train_set, test_set))
    predicted = knn_predict(bank["pooled"], bank.labelled, queries["pooled"], k=[20], temperature=0.1)[20]
    return float((predicted == queries.labelled).double().mean())


def interval(before: float, after: float, count: int) -> float:
    """Half of the 95% interval of the difference of two accuracies, taken as independent (wider than paired)."""
    return 1.96 * math.sqrt((before * (1 - before) + after * (1 - after)) / count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="a labelled source of small images")
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="run directories go here")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, help="as many for every method")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    train_set, test_set = (
        decoded(open_source(str(path)), shows_progress=False) for path in (options.train, options.test)
    )
    table: dict[str, list[dict[str, Any]]] = {}
    for method in options.methods:
        for seed in range(options.seeds or SEEDS.get(method, 1)):
            table.setdefault(method, []).append(row_of(method, seed, options, train_set, test_set))
            print_row(method, table[method][-1])
    bars = []
    for method, rows in table.items():
        gains = [100 * (row["after"] - row["before"]) for row in rows]
        target = 5.0 if method in PAIRWISE else max(row["half_interval"] for row in rows) * 100
        bars.append(Bar(f"{method}-points-over-untrained", min(gains), round(target, 2), at_most=False))
    finish(bars, {"runs": table}, options.json)


def row_of(method: str, seed: int, options: argparse.Namespace, train_set: Source, test_set: Source) -> dict[str, Any]:
    given = settings(method, seed, options)
    config = read_config(given)
    result = config.out / "knn.json"
    if result.exists():
        return json.loads(result.read_text())
    run = open_run(train(config, resume=is_run(config.out), looks_back=False))
    before = accuracy(run.untrained(seed=seed), train_set, test_set, run.view)
    after = accuracy(run.encoder, train_set, test_set, run.view)
    metrics = run.directory.metrics
    last = metrics.last
    row = {
        "seed": seed,
        "before": before,
        "after": after,
        "half_interval": interval(before, after, len(test_set)),
        "loss": last["loss"],
        "chance": last["chance"],
        "effective_rank": last["effective_rank"],
        "seconds": last["seconds"],
        "views_per_second": last["views_per_second"],
        "alarms": [message for _, message in metrics.alarms],
    }
    result.write_text(json.dumps(row))
    return row


def print_row(method: str, row: dict[str, Any]) -> None:
    gain = 100 * (row["after"] - row["before"])
    score = f"untrained {100 * row['before']:5.2f}  trained {100 * row['after']:5.2f}  gain {gain:+6.2f}"
    state = f"loss {row['loss']:.3f}  rank {row['effective_rank']:.0f}  {row['seconds']:.0f} s"
    speed = f"{row['views_per_second']:.0f} views/s  {'; '.join(row['alarms'])[:80]}"
    print(f"{method:20s} seed {row['seed']}  {score} ± {100 * row['half_interval']:.2f}  {state}  {speed}", flush=True)


if __name__ == "__main__":
    main()
