"""Fine-tuned, frozen and from scratch on CIFAR-10: the figures of docs/evaluation.md, and their bars.

    python benchmarks/finetuning.py --data data --out runs/finetuning

``data`` holds cifar10/. From EfficientNet-lite0 (ImageNet's weights, 64-pixel views) and from a run of our own, which
is trained for five minutes first. Every finished share is kept in ``out`` and not made again: stop it and go on
whenever you like; delete a file to make it anew. About an hour on two cores for all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bars import Bar, finish

from eigenview.cli import main as eigenview
from eigenview.data import decoded, open_source
from eigenview.evaluation import Measuring, Subject, Task, finetune_scores, table
from eigenview.evaluation.protocols import FinetuneProtocol
from eigenview.files import read_object, write_json
from eigenview.runs import OpenedRun, Score, is_run, open_encoder, open_run

MINUTES = 5.0  # of training, for the run of our own
LONGEST = 20.0  # minutes of one fine-tuning


def opened(name: str, task: Task, options: argparse.Namespace) -> OpenedRun:
    if name == "lite0":
        return open_encoder("efficientnet-lite0", task.train, options.out / name, size=64)
    folder = options.run or options.out / "run"
    if not is_run(folder):
        eigenview(
            ["train", str(options.data / "cifar10/train.parquet"), "--out", str(folder), "--minutes", str(MINUTES)]
        )
    return open_run(folder)


def rows(name: str, share: float, task: Task, options: argparse.Namespace) -> list[tuple[Score, float]]:
    """Frozen, fine-tuned and from scratch, with the minutes that each took; made where they are not kept yet."""
    file = options.out / f"{name}-{share:g}.json"
    if not file.exists():
        run, how = opened(name, task, options), Measuring(cache=options.out / "cache")
        subject, protocols = Subject.of_run(run, name=name), {share: FinetuneProtocol()}
        made, start = [], time.perf_counter()
        for score in finetune_scores(subject, task, how, protocols=protocols, untrained=run.untrained()):
            made.append({"minutes": (time.perf_counter() - start) / 60, "score": asdict(score)})
            print(
                f"{name}, {score.name}: {score.value:.4f} {score.interval}, {made[-1]['minutes']:.1f} min", flush=True
            )
            start = time.perf_counter()
        write_json(file, {"rows": made})
    stored = read_object(file)["rows"]
    return [(Score(**{**row["score"], "interval": tuple(row["score"]["interval"])}), row["minutes"]) for row in stored]


def bars(name: str, share: float, made: list[tuple[Score, float]]) -> Iterator[Bar]:
    """How far the interval of fine-tuned lies above the others, in points; and the minutes of the longest."""
    (frozen, _), (tuned, minutes), (scratch, longest) = made
    for other, score in (("frozen", frozen), ("scratch", scratch)):
        apart = 100 * (tuned.interval[0] - score.interval[1])
        yield Bar(f"{name}-{share:.0%}-finetuned-above-{other}", apart, 0.0, at_most=False)
    yield Bar(f"{name}-{share:.0%}-minutes", max(minutes, longest), LONGEST, at_most=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/finetuning"))
    parser.add_argument("--run", type=Path, help="a run of our own, instead of training one")
    parser.add_argument("--encoders", nargs="+", default=["run", "lite0"])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.1, 1.0], help="of the labels")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sources = (open_source(options.data / f"cifar10/{half}.parquet") for half in ("train", "test"))
    task = Task(*(decoded(source, shows_progress=False) for source in sources), "cifar10")
    held, scores = [], []
    for share in options.shares:
        for name in options.encoders:
            made = rows(name, share, task, options)
            held += bars(name, share, made)
            scores += [score for score, _ in made]
    print(table(scores))
    finish(held, {}, options.json)


if __name__ == "__main__":
    main()
