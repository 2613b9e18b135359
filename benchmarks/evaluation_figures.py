"""Every protocol of evaluation on trained runs with their baselines: the figures of docs/evaluation.md.

    python benchmarks/evaluation_figures.py features --data data --runs runs/methods --out runs/figures

``data`` holds cifar10/, stl10_64/ and nyuv2_160x120/; ``runs`` what benchmarks/methods.py makes, of which simclr-0,
supervised-0 and (for selection) align-uniform-0 are read. Every finished figure is one file in ``out`` and is not made
again: stop it and go on whenever you like; delete a file to make its figure anew. Ends with the part's table, in which
values are means with 95 % intervals, and accuracies are shares of one.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from eigenview.evaluation.evaluate_run import RAW_PIXELS, SUPERVISED, UNTRAINED, Subject
from eigenview.evaluation.runs import EvaluatedRun

from eigenview.data import Source, decoded, open_source, subset
from eigenview.evaluation import (
    PROTOCOLS,
    DepthProtocol,
    FinetuneProtocol,
    RawPixels,
    Score,
    choose_encoder,
    depth_scores,
    evaluate,
    extract,
    finetune_scores,
    fold_scores,
    open_run,
    read_folds,
    table,
    transfer,
    view_probe_scores,
)
from eigenview.training import read_config, train

RUN, OTHER = "simclr-0", "align-uniform-0"
ENCODERS = (RUN, SUPERVISED, UNTRAINED)
PROTOCOLS_ON_FEATURES = ("knn", "few-label", "kmeans", "spectral", "retrieval", "linear")  # the cheapest first
SMALL_TRAIN = 5_000  # images where all of them would be long: linear on raw pixels
SELECTION_TRAIN = 10_000
PROBE_TRAIN, PROBE_EPOCHS = 10_000, 2
RATE_GRID = (0.01, 0.1, 1.0)
TUNING_EPOCHS = {1.0: 1, 0.1: 5, 0.01: 20}  # by share of the labels
STL_TRAIN = 4_000  # of the 5,000 labelled images; the others are the test part of the transfer list
DEPTH = DepthProtocol(border=4, output=16, width=64, epochs=15)
ALEXNET = "alexnet-0"
ALEXNET_MINUTES = 1.0


class Bench:
    """The sources and subjects, opened when a figure first needs them, and the folder of finished figures."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.data, self.runs, self.out = options.data, options.runs, options.out
        self.cache = options.out / "cache"
        self.scores: list[Score] = []

    @cached_property
    def cifar10(self) -> tuple[Source, Source]:
        train_set, test_set = (self._decoded(f"cifar10/{part}.parquet") for part in ("train", "test"))
        return train_set, test_set

    @cached_property
    def stl10(self) -> Source:
        return self._decoded("stl10_64/train.parquet")

    @cached_property
    def rooms(self) -> tuple[Source, Source]:
        options = {"depth": "depth", "depth_scale": 25.5}  # of the depth images' 8 bits a metre
        first, second = (
            open_source(self.data / f"nyuv2_160x120/{part}.parquet", **options) for part in ("train", "test")
        )
        return first, second

    def _decoded(self, place: str) -> Source:
        return decoded(open_source(self.data / place), shows_progress=False)

    def run(self, name: str) -> EvaluatedRun:
        return open_run(self.runs / name, open_source(self.data / "cifar10/test.parquet"))

    def subject(self, name: str) -> Subject:
        run = self.run(f"{SUPERVISED}-0" if name == SUPERVISED else RUN if name in (UNTRAINED, RAW_PIXELS) else name)
        if name == UNTRAINED:
            return Subject(name, run.untrained().eval(), run.view)
        if name == RAW_PIXELS:
            return Subject(name, RawPixels(run.view.size, channels=run.channels), run.view)
        return Subject(name, run.encoder, run.view)

    def figure(self, name: str, make: Callable[[], Sequence[Score]]) -> None:
        """The scores kept under a name, made and kept if there are none yet."""
        file = self.out / f"{name.replace(' ', '-')}.json"
        if file.exists():
            kept = json.loads(file.read_text())
        else:
            start = time.perf_counter()
            scores = [asdict(score) for score in make()]
            kept = {"seconds": round(time.perf_counter() - start, 1), "scores": scores}
            file.parent.mkdir(parents=True, exist_ok=True)
            beside = file.with_suffix(".part")
            beside.write_text(json.dumps(kept))
            beside.replace(file)
            print(f"{name}: {kept['seconds']} s", flush=True)
        self.scores += [Score(**{**one, "interval": tuple(one["interval"])}) for one in kept["scores"]]


def first(source: Source, count: int) -> Source:
    """The first ``count`` items; the tables are shuffled."""
    return subset(source, np.arange(count))


def features(bench: Bench, names: Sequence[str] = ENCODERS) -> None:
    """Protocols on cached features of CIFAR-10. Linear on all raw pixels would be long: see transfers."""

    def make(name: str, protocol: str) -> list[Score]:
        one = bench.subject(name)
        return evaluate(
            one.encoder, *bench.cifar10, view=one.view, protocols=[protocol], subject=name, cache=bench.cache
        )

    for protocol, name in product(PROTOCOLS_ON_FEATURES, names):
        if (protocol, name) != ("linear", RAW_PIXELS):
            bench.figure(f"features {protocol} {name}", partial(make, name, protocol))


def transfers(bench: Bench, names: Sequence[str] = ENCODERS) -> None:
    """kNN and linear on a list of sets: 5,000 training images of CIFAR-10, and 4,000 labelled ones of STL-10."""

    def make(name: str) -> list[Score]:
        one = bench.subject(name)
        stl = (first(bench.stl10, STL_TRAIN), subset(bench.stl10, np.arange(STL_TRAIN, len(bench.stl10))))
        sets = {"cifar10 of 5,000": (first(bench.cifar10[0], SMALL_TRAIN), bench.cifar10[1]), "stl10": stl}
        return transfer(one.encoder, sets, view=one.view, subject=name, cache=bench.cache)

    for name in names:
        bench.figure(f"transfers {name}", partial(make, name))


def folds(bench: Bench, names: Sequence[str] = ENCODERS) -> None:
    """STL-10's ten official folds: 1,000 labels each, measured on the other 4,000."""

    def make(name: str, protocol: str) -> list[Score]:
        one, parts = bench.subject(name), read_folds(bench.data / "stl10_64/train.parquet")
        return fold_scores(
            one.encoder, bench.stl10, parts, view=one.view, protocols=[protocol], subject=name, cache=bench.cache
        )

    for protocol, name in product(("knn", "linear"), names):
        bench.figure(f"folds {protocol} {name}", partial(make, name, protocol))


def pixels(bench: Bench) -> None:
    """Raw pixels by the three parts above: 3,072 numbers an image, so the longest of the baselines."""
    for part in (features, folds, transfers):
        part(bench, (RAW_PIXELS,))


def probes(bench: Bench) -> None:
    """The papers' probes with new views in every epoch, shortened, and one grid of learning rates trained together."""

    def make(name: str, protocol: str, multipliers: Sequence[float] = (1.0,)) -> list[Score]:
        one, (train_set, test_set) = bench.subject(name), bench.cifar10
        return view_probe_scores(
            one.encoder,
            first(train_set, PROBE_TRAIN),
            test_set,
            view=one.view,
            protocols=[protocol],
            epochs=PROBE_EPOCHS,
            multipliers=multipliers,
            subject=name,
            cache=bench.cache,
            shows_progress=False,
        )

    for name in (RUN, UNTRAINED):
        for protocol in PROTOCOLS:
            bench.figure(f"probes {protocol} {name}", partial(make, name, protocol))
        bench.figure(f"probes moco grid {name}", partial(make, name, "moco", RATE_GRID))


def tuning(bench: Bench) -> None:
    """Frozen, fine-tuned and from scratch, for each share of the labels."""

    def make(share: float) -> list[Score]:
        run = bench.run(RUN)
        return finetune_scores(
            run.encoder,
            run.untrained(),
            *bench.cifar10,
            view=run.view,
            protocols={share: FinetuneProtocol().shortened(TUNING_EPOCHS[share])},
            subject=RUN,
            shows_progress=False,
        )

    for share in TUNING_EPOCHS:
        bench.figure(f"tuning {share}", partial(make, share))


def depth(bench: Bench) -> None:
    """Depth of rooms from the convolutions of the run."""
    for name in (RUN, UNTRAINED):
        bench.figure(f"depth {name}", partial(_depth, bench, name, ("conv3", "conv4"), RUN))


def alexnet(bench: Bench) -> None:
    """The same from an AlexNet trained for a minute on STL-10's images without labels, as it has a conv5."""
    for name in (ALEXNET, f"{UNTRAINED} {ALEXNET}"):
        bench.figure(f"depth {name}", partial(_depth, bench, name, ("conv4", "conv5"), ALEXNET))


def _depth(bench: Bench, name: str, layers: Sequence[str], whose: str) -> list[Score]:
    run = _alexnet(bench) if whose == ALEXNET else bench.run(whose)
    encoder = run.untrained().eval() if name.startswith(UNTRAINED) else run.encoder
    return depth_scores(
        encoder, *bench.rooms, view=run.view, layers=layers, protocol=DEPTH, subject=name, shows_progress=False
    )


def _alexnet(bench: Bench) -> EvaluatedRun:
    folder = bench.out / ALEXNET
    if not (folder / "checkpoints" / "last" / "weights.safetensors").exists():
        given = {
            "source": str(bench.data / "stl10_64/unlabelled.parquet"),
            "out": str(folder),
            "method": "align-uniform",
            "encoder": {"name": "alexnet"},
            "optimizer": {"name": "adamw", "learning_rate": 1e-3, "weight_decay": 1e-4},
            "batch_size": 128,
            "minutes": ALEXNET_MINUTES,
            "seed": 0,
        }
        train(read_config(given), resume=True)
    return open_run(folder)


def selection(bench: Bench) -> None:
    """Which of three encoders: 5-fold cross-validation on training labels, then the chosen one's test score."""

    def make() -> list[Score]:
        train_set = first(bench.cifar10[0], SELECTION_TRAIN)
        rows, labels = {}, torch.empty(0)
        for name in (RUN, OTHER, UNTRAINED):
            one = bench.subject(name)
            found = extract(one.encoder, train_set, view=one.view, cache=bench.cache, shows_progress=False)
            pooled, labels = found["pooled"], found.labelled
            rows[name] = (pooled - pooled.mean(dim=0)) / pooled.std(dim=0).clamp_min(1e-12)
        choice = choose_encoder(rows, labels)
        one = bench.subject(choice.name)
        tested = evaluate(
            one.encoder,
            train_set,
            bench.cifar10[1],
            view=one.view,
            protocols=["linear"],
            subject=choice.name,
            cache=bench.cache,
        )
        held_out = [
            replace(tested[0], name="selection", metric="held-out accuracy", subject=name, value=value, items=())
            for name, value in choice.accuracy.items()
        ]
        nothing = (float("nan"), float("nan"))  # a figure for choosing has no interval
        return [*(replace(score, interval=nothing) for score in held_out), *tested]

    bench.figure("selection", make)


PARTS: dict[str, Callable[[Bench], None]] = {
    "features": features,
    "transfers": transfers,
    "folds": folds,
    "probes": probes,
    "tuning": tuning,
    "depth": depth,
    "selection": selection,
    "alexnet": alexnet,
    "pixels": pixels,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all of them unless told")
    parser.add_argument("--data", type=Path, required=True, help="folder of cifar10/, stl10_64/ and nyuv2_160x120/")
    parser.add_argument("--runs", type=Path, required=True, help="run directories of benchmarks/methods.py")
    parser.add_argument("--out", type=Path, required=True, help="finished figures and cached features go here")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"a part is one of {', '.join(PARTS)}; got {', '.join(unknown)}")
    bench = Bench(options)
    for name in options.parts or PARTS:
        bench.scores.clear()
        PARTS[name](bench)
        print(f"\n{name}\n\n{table(bench.scores)}\n", flush=True)


if __name__ == "__main__":
    main()
