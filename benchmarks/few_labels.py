"""How far a few labels go: every way to choose them with every way to spread them, on frozen features.

    python benchmarks/few_labels.py --folder few_labels --data stl10 digits cifar10
    python benchmarks/few_labels.py --folder few_labels --data stl10 --draws 20 --labels 10 20 50 100

Features are those of EfficientNet-lite0 at 96 pixels (photographs; STL-10's files of 64 and CIFAR-10's of 32 pixels
enlarged), or the pixels (digits); FOLDER keeps them as NAME.npz (x (n, d), y (n,)), and every result as a line of
results.jsonl with the rows that were picked: what is there is not done again, and another spreader is asked about the
same picks (take its lines out, or name it by --again). Any other features may be put there, such as those of a run:

    eigenview recipes run cpu-cifar10-quick --source cifar10/train.parquet --out runs/quick
    eigenview embed runs/quick cifar10/train.parquet --out few_labels/cifar10-own.parquet
    python benchmarks/few_labels.py --folder few_labels --data cifar10-own

Accuracy is that on all rows without a label. Draws differ by the seed, and by the rows where --rows takes fewer than
there are.

"coverage" chooses in rounds of ten, each given the labels of those before; the published ways choose all at once, as
they are meant to with no labels yet. The settings of coverage + graph_and_head were chosen on CIFAR-10 and digits.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from bars import Bar, finish
from torch import Tensor

from eigenview.errors import ShapeError
from eigenview.evaluation import fit_logistic
from eigenview.labels import LiveLabels, choose, graph_and_head, harmonic, image_graph, label_spreading, poisson
from eigenview.labels.choosing import CHOOSERS
from eigenview.labels.graph import ImageGraph
from eigenview.search import open_embeddings

ROUND = 10
BINS = 15
BARS = {10: 66.0, 20: 75.0, 50: 77.5, 100: 79.0}  # of STL-10
PHOTOGRAPHS = {"stl10": "stl10_64/train*", "cifar10": "cifar10/train*", "cifar10-test": "cifar10/test*"}


def logistic(graph: ImageGraph, labels: Tensor, *, classes: int) -> Tensor:
    """The probe: logistic regression on the labelled rows alone, C = 1, entries of size one."""
    known = labels >= 0
    seen, numbers = labels[known].unique(return_inverse=True)
    rows = graph.rows * graph.rows.shape[1] ** 0.5
    answers = torch.zeros(len(rows), classes)
    if len(seen) > 1:
        answers[:, seen] = fit_logistic(rows[known], numbers).logits(rows).softmax(dim=1).float()
    return answers


SPREADERS = {
    "logistic": logistic,
    "label_spreading": label_spreading,
    "harmonic": harmonic,
    "poisson": poisson,
    "graph_and_head": graph_and_head,
}


def main() -> None:
    options = parsed()
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "results.jsonl"
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    for entry in done:
        entry["scores"] = {name: score for name, score in entry["scores"].items() if name not in options.again}
    for name in options.data:
        kept = merged(done)
        rows, labels = features(name, options.folder)
        whole = None
        for draw in range(options.draws):
            sample = slice(None)
            if options.rows and options.rows < len(rows):
                order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(draw))
                sample = order[: options.rows].sort().values
            keys = [(name, options.rows, draw, way, count) for way in options.ways for count in options.labels]
            if all(place in kept and set(options.spreaders) <= kept[place]["scores"].keys() for place in keys):
                continue
            if whole is None or options.rows:
                whole = image_graph(rows[sample])
            for entry in one_draw(whole, labels[sample], draw, options, name, kept):
                done.append(entry)
                with file.open("a") as log:
                    log.write(json.dumps(entry) + "\n")
        if options.update:
            one_more_label(whole or image_graph(rows), labels)
    everything = merged(done).values()
    report([entry for entry in everything if entry["data"] in options.data and entry["rows"] == options.rows], options)


def one_draw(graph: ImageGraph, truth: Tensor, draw: int, options: argparse.Namespace, name: str, kept: dict):  # type: ignore[type-arg,no-untyped-def]
    classes = int(truth.max()) + 1
    for way in options.ways:
        labels = torch.full_like(truth, -1)
        for count in options.labels:
            before = kept.get((name, options.rows, draw, way, count), {"scores": {}})
            if way != "coverage" or "picked" in before:
                labels = torch.full_like(truth, -1)
            if "picked" in before:
                labels[before["picked"]] = truth[before["picked"]]
            while (missing := count - int((labels >= 0).sum())) > 0:
                now = min(ROUND, missing) if way == "coverage" else missing
                rows = choose(graph, now, labels=labels, way=way, seed=draw)
                labels[rows] = truth[rows]
            wanted = [spreader for spreader in options.spreaders if spreader not in before["scores"]]
            if not wanted:
                continue
            scores = {spreader: measured(graph, labels, truth, classes, spreader) for spreader in wanted}
            entry = {"data": name, "rows": options.rows, "draw": draw, "way": way, "labels": count}
            shown = "  ".join(f"{spreader} {100 * scores[spreader]['accuracy']:.1f}" for spreader in scores)
            print(f"{name} draw {draw} {way} {count}: {shown}", flush=True)
            picked = (labels >= 0).nonzero().flatten().tolist()
            yield {**entry, "classes": len(truth[picked].unique()), "picked": picked, "scores": scores}


def one_more_label(graph: ImageGraph, truth: Tensor) -> None:
    """Seconds until all rows are up to date, the middle of eleven labels after the first fifty."""
    rows = choose(graph, 50).tolist()
    labels = torch.full_like(truth, -1)
    labels[rows] = truth[rows]
    given = LiveLabels(graph, labels, classes=int(truth.max()) + 1)
    given.probabilities()
    used, taken = [], []
    for row in (labels < 0).nonzero().flatten()[:: len(labels) // 11][:11].tolist():
        start, wall = time.process_time(), time.perf_counter()
        given.put(row, int(truth[row]))
        given.probabilities()
        used.append(time.process_time() - start)
        taken.append(time.perf_counter() - wall)
    print(
        f"{len(graph):,} rows after one more label: {np.median(used):.2f} processor seconds, {np.median(taken):.2f} s"
    )
    print(Bar("one-more-label", float(np.median(taken)), 1.0, at_most=True))


def calibration_error(confidence: Tensor, is_right: Tensor, *, bins: int = 15) -> float:
    """Expected calibration error: the mean of |accuracy − confidence| over ``bins`` of equally many rows each.

    ``confidence`` (n,) is the probability of the class that was said, ``is_right`` (n,) whether it was that class.
    """
    if confidence.shape != is_right.shape or confidence.ndim != 1 or len(confidence) == 0:
        raise ShapeError(
            f"confidence and is_right must be (n,); got {tuple(confidence.shape)}, {tuple(is_right.shape)}"
        )
    order = confidence.argsort()
    gaps = (confidence.double() - is_right.double())[order]
    return sum(abs(float(gap.sum())) for gap in gaps.tensor_split(min(bins, len(gaps)))) / len(gaps)


def measured(graph: ImageGraph, labels: Tensor, truth: Tensor, classes: int, spreader: str) -> dict[str, float]:
    start = time.perf_counter()
    answers = SPREADERS[spreader](graph, labels, classes=classes)
    taken = time.perf_counter() - start
    rest = labels < 0
    confidence, guess = answers[rest].max(dim=1)
    is_right = (guess == truth[rest]).double()
    ordered = is_right[confidence.argsort(descending=True)]
    return {
        "accuracy": float(is_right.mean()),
        "calibration_error": calibration_error(confidence, is_right, bins=BINS),
        "confidence": float(confidence.mean()),
        "at_50": float(ordered[: len(ordered) // 2].mean()),
        "at_80": float(ordered[: len(ordered) * 4 // 5].mean()),
        "seconds": taken,
    }


def report(entries: list[dict], options: argparse.Namespace) -> None:  # type: ignore[type-arg]
    """Means over draws with 95 % intervals, and the bars."""
    values: dict[tuple[str, str, str, int, str], list[float]] = defaultdict(list)
    for entry in entries:
        for spreader, scores in entry["scores"].items():
            for figure, value in scores.items():
                values[entry["data"], entry["way"], spreader, entry["labels"], figure].append(value)
    bars = []
    for name in options.data:
        for figure in ("accuracy", "calibration_error", "at_50", "at_80"):
            print(f"\n{name}, {figure} x 100, mean of draws ± 95 % interval")
            for way in options.ways:
                for spreader in SPREADERS:
                    cells = [interval(values[name, way, spreader, count, figure]) for count in options.labels]
                    print(f"{way:>12} + {spreader:16}" + "".join(f"{cell:>16}" for cell in cells))
        for count in options.labels:
            own = {
                figure: np.mean(values[name, "coverage", "graph_and_head", count, figure] or [np.nan])
                for figure in FIGURES
            }
            others = {
                f"{way} + {spreader}": values[name, way, spreader, count, "accuracy"]
                for way in options.ways
                for spreader in SPREADERS
                if way != "coverage" and spreader != "graph_and_head" and values[name, way, spreader, count, "accuracy"]
            }
            if name == "stl10" and count in BARS:
                bars.append(Bar(f"{name}-accuracy-{count}", 100 * float(own["accuracy"]), BARS[count], at_most=False))
            if others:
                best = max(others, key=lambda pair: float(np.mean(others[pair])))
                ours = values[name, "coverage", "graph_and_head", count, "accuracy"]
                paired = [mine - theirs for mine, theirs in zip(ours, others[best], strict=False)]
                print(f"{count} labels: {interval(paired)} above the best published pair, {best}, draw by draw")
                above = 100 * (float(np.mean(paired or [np.nan])) + half_interval(paired))  # 0: as good as the best
                bars.append(Bar(f"{name}-above-published-or-equal-{count}", above, 0, at_most=False))
            for peer in ("label_spreading", "logistic"):
                if count >= 20 and (theirs := values[name, "coverage", peer, count, "calibration_error"]):
                    ratio = float(own["calibration_error"] / np.mean(theirs))
                    bars.append(Bar(f"{name}-calibration-to-{peer}-{count}", ratio, 1.0, at_most=True))
    finish(bars, {"/".join(map(str, name)): value for name, value in values.items()}, options.json)


FIGURES = ("accuracy", "calibration_error")


def interval(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{100 * np.mean(values):.1f} ± {100 * half_interval(values):.1f}"


def half_interval(values: list[float]) -> float:
    return float(1.96 * np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def merged(entries: list[dict]) -> dict[tuple[str, int, int, str, int], dict]:  # type: ignore[type-arg]
    """One entry for each key, with all that was measured on its picks, draws in order."""
    made: dict[tuple[str, int, int, str, int], dict] = {}  # type: ignore[type-arg]
    for entry in sorted(entries, key=lambda entry: entry["draw"]):
        before = made.get(key(entry), {"scores": {}})
        made[key(entry)] = {**before, **entry, "scores": before["scores"] | entry["scores"]}
    return made


def key(entry: dict) -> tuple[str, int, int, str, int]:  # type: ignore[type-arg]
    return entry["data"], entry["rows"], entry["draw"], entry["way"], entry["labels"]


def features(name: str, folder: Path) -> tuple[Tensor, Tensor]:
    """From FOLDER/NAME.npz or .parquet; made if it is not there yet."""
    place = next((file for file in (folder / f"{name}.parquet", folder / f"{name}.npz") if file.is_file()), None)
    if place is None:
        place = folder / f"{name}.npz"
        rows, labels = digits() if name == "digits" else photographs(PHOTOGRAPHS[name])
        np.savez(place, x=rows, y=labels)
    stored = open_embeddings(place)
    assert stored.labels is not None
    return stored.vectors, stored.labels


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def photographs(pattern: str) -> tuple[np.ndarray, np.ndarray]:
    from PIL import Image

    from eigenview.nn.build import load_encoder

    encoder = load_encoder("efficientnet-lite0").encoder.eval()
    rows, labels = [], []
    for batch in batched(encoded_pictures(pattern), 128):
        labels += [label for _, label in batch]
        pictures = [Image.open(io.BytesIO(data)).convert("RGB") for data, _ in batch]
        sized = [np.asarray(picture.resize((96, 96), Image.Resampling.BICUBIC)) for picture in pictures]
        with torch.inference_mode():
            pixels = torch.from_numpy(np.stack(sized)).permute(0, 3, 1, 2).float()
            rows.append(encoder((pixels - 127) / 128).half().numpy())
    return np.concatenate(rows), np.array(labels)


def encoded_pictures(pattern: str) -> Iterator[tuple[bytes, int]]:
    """(an encoded picture, its label) of the tables of a data set."""
    import pyarrow.parquet

    root = Path(os.environ.get("EIGENVIEW_DATA") or Path(__file__).parents[2] / "shared" / "data")
    for file in sorted(root.glob(pattern)):
        table = pyarrow.parquet.read_table(file)
        for cell, label in zip(table["image"], table["label"], strict=True):
            yield cell["bytes"].as_py(), label.as_py()


def batched(items: Iterator[tuple[bytes, int]], size: int) -> Iterator[list[tuple[bytes, int]]]:
    while batch := list(islice(items, size)):
        yield batch


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--data", nargs="+", default=["stl10", "digits", "cifar10"])
    parser.add_argument("--labels", nargs="+", type=int, default=[10, 20, 50, 100])
    parser.add_argument("--ways", nargs="+", default=list(CHOOSERS))
    parser.add_argument("--spreaders", nargs="+", default=list(SPREADERS))
    parser.add_argument("--again", nargs="*", default=[], help="spreaders to ask anew, of the same picks")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, default=0, help="of each draw, drawn by its number; 0: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--update", action="store_true", help="time one more label, too")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
