"""Every protocol of evaluation on trained runs with their baselines: the figures of docs/evaluation.md.

    python benchmarks/evaluation_figures.py features --data data --runs runs/methods --out runs/figures

``data`` holds cifar10/, stl10_64/ and nyuv2_160x120/; ``runs`` what benchmarks/methods.py makes, of which simclr-0,
supervised-0 and (for selection) align-uniform-0 are read. Every finished figure is one file in ``out`` and is not made
again: stop it and go on whenever you like; delete a file to make its figure anew. Ends with the part's table, in which
values are means with 95 % intervals, and accuracies are shares of one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path

import numpy as np
import torch

from eigenview.data import Source, decoded, open_source, subset
from eigenview.evaluation import BASELINES, PROBES, DepthProtocol, Folds, Measuring, Subject, Task, evaluate, table
from eigenview.evaluation.dense import depth_scores
from eigenview.evaluation.linear import choose_encoder
from eigenview.evaluation.probe import view_probe_scores
from eigenview.evaluation.scores import RAW_PIXELS, SUPERVISED, UNTRAINED
from eigenview.evaluation.subjects import read_folds
from eigenview.files import read_object, write_json
from eigenview.runs import OpenedRun, Score, is_run, open_run, read_config
from eigenview.training import train

RUN, OTHER = "simclr-0", "align-uniform-0"
ENCODERS = (RUN, SUPERVISED, UNTRAINED)
PROTOCOLS_ON_FEATURES = (
    "knn",
    "few-label",
    "kmeans",
    "spectral-clustering",
    "retrieval",
    "linear",
)  # the cheapest first
SMALL_TRAIN = 5_000  # images where all of them would be long: linear on raw pixels
SELECTION_TRAIN = 10_000
PROBE_TRAIN, PROBE_EPOCHS = 10_000, 2
RATE_GRID = (0.01, 0.1, 1.0)
STL_TRAIN = 4_000  # of the 5,000 labelled images; the others are the test part of the transfer list
DEPTH = DepthProtocol(border=4, output=16, width=64, epochs=15)
ALEXNET = "alexnet-0"
ALEXNET_MINUTES = 1.0


class Bench:
    """The sources and subjects, opened when a figure first needs them, and the folder of finished figures."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.data, self.runs, self.out = options.data, options.runs, options.out
        self.how = Measuring(cache=options.out / "cache", shows_progress=False)
        self.scores: list[Score] = []

    @cached_property
    def cifar10(self) -> Task:
        return Task(*(self._decoded(f"cifar10/{part}.parquet") for part in ("train", "test")), "cifar10")

    @cached_property
    def stl10(self) -> Source:
        return self._decoded("stl10_64/train.parquet")

    @cached_property
    def rooms(self) -> Task:
        options = {"depth": "depth", "depth_scale": 25.5}  # of the depth images' 8 bits a metre
        parts = (open_source(self.data / f"nyuv2_160x120/{part}.parquet", **options) for part in ("train", "test"))
        return Task(*parts, "nyuv2")

    def few(self, count: int, name: str) -> Task:
        """CIFAR-10 with ``count`` images to learn from."""
        return Task(first(self.cifar10.train, count), self.cifar10.test, name)

    def _decoded(self, place: str) -> Source:
        return decoded(open_source(self.data / place), shows_progress=False)

    def run(self, name: str) -> OpenedRun:
        return open_run(self.runs / name)

    def subject(self, name: str) -> Subject:
        if name in BASELINES:
            return BASELINES[name](self.run(RUN), 0)
        return Subject.of_run(self.run(f"{SUPERVISED}-0" if name == SUPERVISED else name), name=name)

    def figure(self, name: str, make: Callable[[], Iterable[Score]]) -> None:
        """The scores kept under a name, made and kept if there are none yet."""
        file = self.out / f"{name.replace(' ', '-')}.json"
        if file.exists():
            kept = read_object(file)
        else:
            start = time.perf_counter()
            scores = [asdict(score) for score in make()]
            kept = {"seconds": round(time.perf_counter() - start, 1), "scores": scores}
            write_json(file, kept)
            print(f"{name}: {kept['seconds']} s", flush=True)
        self.scores += [Score(**{**score, "interval": tuple(score["interval"])}) for score in kept["scores"]]


def first(source: Source, count: int) -> Source:
    """The first ``count`` items; the tables are shuffled."""
    return subset(source, np.arange(count))


def features(bench: Bench, names: Sequence[str] = ENCODERS) -> None:
    """Protocols on cached features of CIFAR-10. Linear on all raw pixels would be long: see transfers."""

    def make(name: str, protocol: str) -> Iterable[Score]:
        return evaluate(bench.subject(name), bench.cifar10, protocols=[protocol], measuring=bench.how)

    for protocol, name in product(PROTOCOLS_ON_FEATURES, names):
        if (protocol, name) != ("linear", RAW_PIXELS):
            bench.figure(f"features {protocol} {name}", partial(make, name, protocol))


def transfers(bench: Bench, names: Sequence[str] = ENCODERS) -> None:
    """kNN and linear on a list of sets: 5,000 training images of CIFAR-10, and 4,000 labelled ones of STL-10."""

    def make(name: str) -> Iterable[Score]:
        rest = subset(bench.stl10, np.arange(STL_TRAIN, len(bench.stl10)))
        stl10 = Task(first(bench.stl10, STL_TRAIN), rest, "stl10")
        for task in (bench.few(SMALL_TRAIN, "cifar10 of 5,000"), stl10):
            yield from evaluate(bench.subject(name), task, measuring=bench.how)

    for name in names:
        bench.figure(f"transfers {name}", partial(make, name))


def folds(bench: Bench, names: Sequence[str] = ENCODERS) -> None:
    """STL-10's ten official folds: 1,000 labels each, measured on the other 4,000."""

    def make(name: str, protocol: str) -> Iterable[Score]:
        parts = read_folds(bench.data / "stl10_64/train.parquet")
        subject = bench.subject(name)
        return evaluate(subject, Folds(bench.stl10, parts, "stl10"), protocols=[protocol], measuring=bench.how)

    for protocol, name in product(("knn", "linear"), names):
        bench.figure(f"folds {protocol} {name}", partial(make, name, protocol))


def pixels(bench: Bench) -> None:
    """Raw pixels by the three parts above: 3,072 numbers an image, so the longest of the baselines."""
    for part in (features, folds, transfers):
        part(bench, (RAW_PIXELS,))


def probes(bench: Bench) -> None:
    """The papers' probes with new views in every epoch, shortened, and one grid of learning rates trained together."""

    def make(name: str, protocol: str, multipliers: Sequence[float] = (1.0,)) -> Iterable[Score]:
        task = bench.few(PROBE_TRAIN, "cifar10 of 10,000")
        options = {"protocol": protocol, "epochs": PROBE_EPOCHS, "multipliers": multipliers}
        return view_probe_scores(bench.subject(name), task, bench.how, **options)

    for name in (RUN, UNTRAINED):
        for protocol in PROBES:
            bench.figure(f"probes {protocol} {name}", partial(make, name, protocol))
        bench.figure(f"probes moco grid {name}", partial(make, name, "moco", RATE_GRID))


def depth(bench: Bench) -> None:
    """Depth of rooms from the convolutions of the run."""
    for name in (RUN, UNTRAINED):
        bench.figure(f"depth {name}", partial(_depth, bench, name, ("conv3", "conv4"), RUN))


def alexnet(bench: Bench) -> None:
    """The same from an AlexNet trained for a minute on STL-10's images without labels, as it has a conv5."""
    for name in (ALEXNET, f"{UNTRAINED} {ALEXNET}"):
        bench.figure(f"depth {name}", partial(_depth, bench, name, ("conv4", "conv5"), ALEXNET))


def _depth(bench: Bench, name: str, layers: Sequence[str], whose: str) -> Iterable[Score]:
    run = _alexnet(bench) if whose == ALEXNET else bench.run(whose)
    encoder = run.untrained() if name.startswith(UNTRAINED) else run.encoder
    subject = Subject(name, encoder, run.view)
    return depth_scores(subject, bench.rooms, bench.how, layers=layers, protocol=DEPTH)


def _alexnet(bench: Bench) -> OpenedRun:
    folder = bench.out / ALEXNET
    if not (folder / "done").exists():
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
        train(read_config(given), resume=is_run(folder), looks_back=False)
        (folder / "done").touch()
    return open_run(folder)


def selection(bench: Bench) -> None:
    """Which of three encoders: 5-fold cross-validation on training labels, then the chosen one's test score."""

    def make() -> list[Score]:
        task = bench.few(SELECTION_TRAIN, "cifar10 of 10,000")
        rows, labels = {}, torch.empty(0)
        for name in (RUN, OTHER, UNTRAINED):
            features = bench.subject(name).features(task.train, ["pooled"], bench.how)
            pooled, labels = features["pooled"], features.labelled
            rows[name] = (pooled - pooled.mean(dim=0)) / pooled.std(dim=0).clamp_min(1e-12)
        choice = choose_encoder(rows, labels)
        tested = list(evaluate(bench.subject(choice.name), task, protocols=["linear"], measuring=bench.how))
        held_out = [
            replace(tested[0], name="selection", metric="held-out accuracy", subject=name, value=value, items=())
            for name, value in choice.accuracy.items()
        ]
        alone = [replace(score, interval=(score.value, score.value)) for score in held_out]  # for choosing: no interval
        return [*alone, *tested]

    bench.figure("selection", make)


PARTS: dict[str, Callable[[Bench], None]] = {
    "features": features,
    "transfers": transfers,
    "folds": folds,
    "probes": probes,
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
