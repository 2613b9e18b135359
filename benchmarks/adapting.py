"""A pretrained encoder as it is, adapted to the images, and a run from scratch: the table of docs/encoders.md.

    python benchmarks/adapting.py --data data --out runs/adapting

``data`` holds stl10_64/ and cifar10/. EfficientNet-lite0 (ImageNet's weights) frozen; the same adapted to the images,
without labels, by what ``eigenview train --encoder.name efficientnet-lite0`` chooses; and what ``eigenview train``
chooses from scratch: ten minutes each. STL-10: trained on its train and unlabelled images, measured by the folds, three
seeds; CIFAR-10 at 64 pixels, measured on the test images, one seed. Runs that are finished are kept in ``out`` and not
made again, a run that was stopped goes on: stop it whenever you like. About an hour and a half in all.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bars import Bar, finish

import eigenview as ev
from eigenview.evaluation.scores import bootstrap_interval
from eigenview.runs import Score, is_run

ENCODER, FROZEN, ADAPTED, SCRATCH = "efficientnet-lite0", "frozen", "adapted", "scratch"
SEEDS = {"stl10": 3, "cifar10": 1}
SIZES = {"stl10": 96, "cifar10": 64}  # of the images that EfficientNet-lite0 sees
SCORES = {"linear": "linear probe", "knn k=20": "20-NN"}


class Set:
    """A data set: images to learn from, and how what was learnt is measured."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.options = name, options
        folder = {"stl10": "stl10_64", "cifar10": "cifar10"}[name]
        self.train = options.data / folder / "train.parquet"
        self.test = None if name == "stl10" else options.data / folder / "test.parquet"

    def images(self) -> Path:
        """Without labels: STL-10's two halves as one table, made once."""
        if self.name != "stl10":
            return Path(self.train)
        both = Path(self.options.out / "stl10.parquet")
        if not both.exists():
            halves = (self.train, self.train.with_name("unlabelled.parquet"))
            pq.write_table(pa.concat_tables([pq.read_table(half, columns=["image"]) for half in halves]), both)
        return both

    def run(self, way: str, seed: int) -> ev.Run:
        folder = self.options.out / f"{self.name}-{way}-{seed}"
        if way == FROZEN:
            return ev.open_encoder(ENCODER, self.train, keep_in=folder, size=SIZES[self.name])
        size = SIZES[self.name] if way == ADAPTED or self.name == "cifar10" else None
        return ev.train(
            self.images(),
            out=folder,
            seed=seed,
            minutes=self.options.minutes,
            encoder=ENCODER if way == ADAPTED else None,
            views=None if size is None else {"size": size},
            resume=is_run(folder),
        )

    def scores(self, way: str, seed: int) -> dict[str, Score]:
        """By name; measured where they are not kept yet."""
        folder = self.options.out / f"{self.name}-{way}-{seed}"
        known = {score.name: score for score in ev.open_run(folder).scores} if is_run(folder) else {}
        if not set(SCORES) <= set(known):
            run = self.run(way, seed)
            made = run.evaluate(self.train, self.test, baselines=(), folds=None if self.test else "folds")
            known = {score.name: score for score in made}
        for name in SCORES:
            print(f"{self.name}, {way}, seed {seed}, {name}: {known[name].value:.4f}", flush=True)
        return known


def gain(first: Sequence[Score], others: Sequence[Score]) -> tuple[float, tuple[float, float]]:
    """How much better others are in points: items (folds, images) are paired, the mean over seeds is resampled."""
    better = 100 * (
        np.mean([score.items for score in others], axis=0) - np.mean([score.items for score in first], axis=0)
    )
    return float(better.mean()), bootstrap_interval(lambda index: float(better[index].mean()), len(better))


def rows(name: str, options: argparse.Namespace) -> Iterator[tuple[str, Bar]]:
    """A line of the table and a bar for each score."""
    data = Set(name, options)
    seeds = range(SEEDS[name])
    frozen = [data.scores(FROZEN, 0)]
    made = {way: [data.scores(way, seed) for seed in seeds] for way in (ADAPTED, SCRATCH)}
    for score, title in SCORES.items():
        first = [known[score] for known in frozen]
        cells = [f"{name}, {title}", f"{100 * first[0].value:.1f}"]
        for way, known in made.items():
            others = [each[score] for each in known]
            mean, (low, high) = gain(first, others)
            cells.append(
                f"{100 * np.mean([each.value for each in others]):.1f} ({mean:+.1f} [{low:+.1f}, {high:+.1f}])"
            )
            if way == ADAPTED:
                bar = Bar(f"{name}-{score}-adapted-above-frozen", low, 0.0, at_most=False)
        yield "| " + " | ".join(cells) + " |", bar


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/adapting"))
    parser.add_argument("--minutes", type=float, default=10.0, help="of each run")
    parser.add_argument("--sets", nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    made = [row for name in options.sets for row in rows(name, options)]
    print("\n| | frozen | adapted | from scratch |\n|---|---|---|---|", *(line for line, _ in made), sep="\n")
    finish([bar for _, bar in made], {}, options.json)


if __name__ == "__main__":
    main()
