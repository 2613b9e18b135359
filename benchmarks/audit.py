"""Wrong labels put into a set, and pictures put into two: how many are found, how fast; beside cleanlab.

    python benchmarks/audit.py --folder audit --parts labels leaks photos
    .venv-peers/bin/python benchmarks/audit.py --folder audit --parts cleanlab

Noise: 5 % and 20 % of labels replaced by any other class, or by the next class. Features: FOLDER/NAME.npz as
few_labels.py makes them (EfficientNet-lite0 at 96 pixels). Ours is the whole of it: the graph, five folds, the ranking.
cleanlab's is its own way: five-fold logistic regression of scikit-learn, on the features as they come and on centred
rows of one length at two penalties, find_label_issues and get_label_quality_scores. Each on one thread, processor
seconds.

Leaks: 500 of 10,000 test images of CIFAR-10 are replaced by training images that were re-encoded (JPEG 70 to 90),
cropped to 88 to 97 % of their sides and resized, or brightened by up to 15 %. CIFAR-10 has many
copies of its own: 50 of the pairs that were not planted are drawn into FOLDER/others.png to look at, and
FOLDER/looked.json, such as [50, 49], tells how many were looked at and how many of them show one picture; the precision
counts the others by that share.

Photos: every other file of $EIGENVIEW_DATA/photos is the first set; the rest, and copies of 200 of the first by each
change, the second. Pairs that were not planted are drawn into FOLDER/others-photos.png, and counted by
FOLDER/looked-photos.json in the same way.

FOLDER keeps every result as a line of audit.jsonl; what is there is not done again.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from bars import Bar, finish
from few_labels import features
from PIL import Image

NOISES = (("any", 0.05), ("any", 0.2), ("next", 0.05), ("next", 0.2))
LEAKED, TESTED = 500, 10_000
CLEANLAB = ("raw", "unit C=1", "unit C=.01")
PLANTED = ("re-encoded", "cropped", "brightened")
COPIED = 200  # photographs, by each change: how much of the sides is kept, by what brightness and size are multiplied
CHANGES = {
    "re-encoded": (1, 1, 1),
    "97 % of the sides": (0.97, 1, 1),
    "92 % of the sides": (0.92, 1, 1),
    "88 % of the sides": (0.88, 1, 1),
    "84 % of the sides": (0.84, 1, 1),
    "brightness × 0.88": (1, 0.88, 1),
    "brightness × 1.12": (1, 1.12, 1),
    "half the size": (1, 1, 0.5),
}


def main() -> None:
    options = parsed()
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "audit.jsonl"
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    makers = {"labels": ours, "cleanlab": theirs, "leaks": leaks, "photos": photos}
    for part in options.parts:
        kept = {tuple(entry["key"]) for entry in done}
        for entry in makers[part](options, kept):
            done.append(entry)
            print(json.dumps(entry), flush=True)
            with file.open("a") as log:
                log.write(json.dumps(entry) + "\n")
    report(done, options)


def noisy_sets(options: argparse.Namespace) -> Iterator[tuple[str, str, torch.Tensor, torch.Tensor, np.ndarray]]:
    """(data, noise, rows, labels with noise, whether each is wrong)."""
    for name in options.data:
        rows, truth = features(name, options.folder)
        classes = int(truth.max()) + 1
        for kind, rate in NOISES:
            random = np.random.default_rng(0)
            labels = truth.numpy().copy()
            hit = random.permutation(len(labels))[: int(rate * len(labels))]
            step = random.integers(1, classes, len(hit)) if kind == "any" else 1
            labels[hit] = (labels[hit] + step) % classes
            yield name, f"{kind} {rate:g}", rows, torch.from_numpy(labels), labels != truth.numpy()


def ours(options: argparse.Namespace, kept: set) -> Iterator[dict]:  # type: ignore[type-arg]
    from eigenview.graph.nearest import nearest
    from eigenview.graph.principal import two_projections
    from eigenview.labels import audit_labels
    from eigenview.labels.auditing import HEAD_DIRECTIONS
    from eigenview.labels.graph import KNOWN, graph_of_neighbours

    graphs = {}
    for name, noise, rows, labels, is_wrong in noisy_sets(options):
        if (name, noise, "ours") in kept:
            continue
        if name not in graphs:
            start = time.process_time()
            wide, (_, narrow) = two_projections(rows, directions=HEAD_DIRECTIONS)
            graph = graph_of_neighbours(narrow, nearest(narrow, narrow, k=KNOWN, excludes_self=True))
            graphs[name] = graph, wide, time.process_time() - start
        graph, wide, before = graphs[name]
        start = time.process_time()
        doubts = audit_labels(graph, labels, rows=wide)
        taken = before + time.process_time() - start
        yield entry(name, noise, "ours", is_wrong, doubts.score.numpy(), doubts.is_flagged.numpy(), taken)


def theirs(options: argparse.Namespace, kept: set) -> Iterator[dict]:  # type: ignore[type-arg]
    import warnings

    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    warnings.simplefilter("ignore")  # that it has not converged after so many steps
    for name, noise, rows, labels, is_wrong in noisy_sets(options):
        raw = rows.numpy()
        unit = raw - raw.mean(axis=0)
        unit *= unit.shape[1] ** 0.5 / 8 / np.linalg.norm(unit, axis=1, keepdims=True)
        for way, given, penalty in (("raw", raw, 1.0), ("unit C=1", unit, 1.0), ("unit C=.01", unit, 0.01)):
            is_wanted = way in options.cleanlab and not (way == "unit C=1" and len(rows) > TESTED)
            if (name, noise, f"cleanlab {way}") in kept or not is_wanted:
                continue
            start = time.process_time()
            model = LogisticRegression(C=penalty, max_iter=200)
            shares = cross_val_predict(model, given, labels.numpy(), cv=5, method="predict_proba")
            issues = find_label_issues(labels.numpy(), shares, n_jobs=1)
            quality = get_label_quality_scores(labels.numpy(), shares)
            taken = time.process_time() - start
            yield entry(name, noise, f"cleanlab {way}", is_wrong, -quality, issues, taken)


def entry(  # type: ignore[type-arg]
    name: str, noise: str, way: str, is_wrong: np.ndarray, score: np.ndarray, flags: np.ndarray, seconds: float
) -> dict:
    from sklearn.metrics import average_precision_score, f1_score

    figures = {"precision": average_precision_score(is_wrong, score), "f1": f1_score(is_wrong, flags)}
    return {
        "key": [name, noise, way],
        "rows": len(is_wrong),
        "flagged": int(flags.sum()),
        "seconds": seconds,
        **figures,
    }


def leaks(options: argparse.Namespace, kept: set) -> Iterator[dict]:  # type: ignore[type-arg]
    """Vectors are embedded before the clock starts; the search and the comparing of pixels are timed."""
    from eigenview.data import ArraySource

    if ("cifar10", "leaks", "ours") in kept:
        return
    rows, _ = features("cifar10", options.folder)
    tests, _ = features("cifar10-test", options.folder)
    pictures, test_pictures = (read_pictures(f"cifar10/{part}*") for part in ("train", "test"))
    random = np.random.default_rng(0)
    originals, places = random.permutation(len(rows))[:LEAKED], random.permutation(TESTED)[:LEAKED]
    for number, (original, place) in enumerate(zip(originals, places, strict=True)):
        test_pictures[place] = altered(pictures[original], PLANTED[number % 3], random)
    tests[places] = embedded(test_pictures[places])
    names = [[str(number) for number in range(len(vectors))] for vectors in (rows, tests)]
    sources = ArraySource(pictures), ArraySource(test_pictures)
    pairs, seconds = shared(rows, tests, *names, sources=sources)
    hits = [pairs.get(int(place)) == int(original) for original, place in zip(originals, places, strict=True)]
    # a picture that is in the training set twice may be found by its other copy, which is no miss
    by_kind = {kind: float(np.mean(hits[number::3])) for number, kind in enumerate(PLANTED)}
    planted = {int(place) for place in places}
    others = [(first, second) for second, first in pairs.items() if second not in planted]
    write_sheet(others, pictures, test_pictures, options.folder / "others.png")
    yield {
        "key": ["cifar10", "leaks", "ours"],
        "recall": float(np.mean(hits)),
        "found_at_all": float(np.mean([int(place) in pairs for place in places])),
        "by_kind": by_kind,
        "others": others,
        "pairs": len(pairs),
        **seconds,
    }


def photos(options: argparse.Namespace, kept: set) -> Iterator[dict]:  # type: ignore[type-arg]
    """The same with files, whose sizes differ."""
    if ("photos", "leaks", "ours") in kept:
        return
    data = Path(os.environ.get("EIGENVIEW_DATA") or Path(__file__).parents[2] / "shared" / "data")
    files = sorted((data / "photos").rglob("*.jpg"))
    first, second = files[::2], files[1::2]
    random = np.random.default_rng(0)
    originals = random.permutation(len(first))[:COPIED].tolist()
    for change, amounts in CHANGES.items():
        for original in originals:
            copy = options.folder / "photos" / change / f"{original:05d}.jpg"
            copy.parent.mkdir(parents=True, exist_ok=True)
            changed(Image.open(first[original]).convert("RGB"), *amounts, random).save(copy, quality=90)
            second.append(copy)
    pictures = [[np.asarray(Image.open(file).convert("RGB")) for file in part] for part in (first, second)]
    names = [[str(file.absolute()) for file in part] for part in (first, second)]
    pairs, seconds = shared(*(embedded(part) for part in pictures), *names)
    planted = dict(enumerate(originals * len(CHANGES), start=len(files) - len(first)))
    hits = [pairs.get(copy) == original for copy, original in planted.items()]
    others = [(one, other) for other, one in pairs.items() if planted.get(other) != one]
    write_sheet(others, *pictures, options.folder / "others-photos.png")
    yield {
        "key": ["photos", "leaks", "ours"],
        "recall": float(np.mean(hits)),
        "by_kind": dict(zip(CHANGES, np.reshape(hits, (len(CHANGES), -1)).mean(axis=1).tolist(), strict=True)),
        "others": others,
        "pairs": len(pairs),
        **seconds,
    }


def shared(  # type: ignore[type-arg]
    first: torch.Tensor, second: torch.Tensor, first_names: list[str], second_names: list[str], sources=(None, None)
) -> tuple[dict[int, int], dict]:
    """(row of the second set → row of the first, what it took)."""
    from eigenview.labels import shared_pictures
    from eigenview.search.stored import Embeddings

    sets = [
        Embeddings(Path(place), vectors, torch.arange(len(vectors)), names, None, None)
        for place, vectors, names in (("train", first, first_names), ("test", second, second_names))
    ]
    start, wall = time.process_time(), time.perf_counter()
    found = shared_pictures(*sets, sources=sources)
    seconds = {"seconds": time.process_time() - start, "wall": time.perf_counter() - wall}
    return {pair.rows[1]: pair.rows[0] for pair in found.pairs}, seconds


def changed(
    picture: Image.Image, kept: float, brightness: float, size: float, random: np.random.Generator
) -> Image.Image:
    left, top = random.uniform(0, 1 - kept, 2)
    width, height = picture.size
    box = (left * width, top * height, (left + kept) * width, (top + kept) * height)
    resized = picture.resize((round(width * size), round(height * size)), Image.Resampling.BICUBIC, box=box)
    return resized.point(lambda value: min(255, round(value * brightness)))


def altered(pixels: np.ndarray, how: str, random: np.random.Generator) -> np.ndarray:
    picture = Image.fromarray(pixels)
    if how == "re-encoded":
        data = io.BytesIO()
        picture.save(data, "JPEG", quality=int(random.integers(70, 91)))
        return np.asarray(Image.open(data).convert("RGB"))
    if how == "cropped":
        side = random.uniform(0.88, 0.97) * picture.width
        left, top = random.uniform(0, picture.width - side, 2)
        box = (left, top, left + side, top + side)
        return np.asarray(picture.resize(picture.size, Image.Resampling.BICUBIC, box=box))
    return (pixels * random.uniform(0.85, 1.15)).clip(0, 255).round().astype(np.uint8)


def embedded(pictures: Sequence[np.ndarray]) -> torch.Tensor:
    """As few_labels.py does it."""
    from eigenview.nn.build import load_encoder

    encoder = load_encoder("efficientnet-lite0").encoder.eval()
    answers = []
    for start in range(0, len(pictures), 100):
        sized = [
            np.asarray(Image.fromarray(pixels).resize((96, 96), Image.Resampling.BICUBIC))
            for pixels in pictures[start : start + 100]
        ]
        with torch.inference_mode():
            batch = torch.from_numpy(np.stack(sized)).permute(0, 3, 1, 2).float()
            answers.append(encoder((batch - 127) / 128).half().float())
    return torch.cat(answers)


def read_pictures(pattern: str) -> np.ndarray:
    from few_labels import encoded_pictures

    return np.stack([np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data, _ in encoded_pictures(pattern)])


def write_sheet(
    pairs: list[tuple[int, int]], train: Sequence[np.ndarray], test: Sequence[np.ndarray], out: Path
) -> None:
    """50 of the pairs that were not planted, drawn at random: training picture and test picture side by side."""
    sheet = Image.new("RGB", (10 * 140, 5 * 70), "white")
    drawn = np.random.default_rng(0).permutation(len(pairs))[:50]
    for number, (first, second) in enumerate(pairs[place] for place in drawn):
        for side, pixels in enumerate((train[first], test[second])):
            tile = Image.fromarray(pixels).resize((64, 64), Image.Resampling.NEAREST)
            sheet.paste(tile, (number % 10 * 140 + side * 66, number // 10 * 70))
    sheet.save(out)


def report(done: list[dict], options: argparse.Namespace) -> None:  # type: ignore[type-arg]
    by_key = {tuple(entry["key"]): entry for entry in done}
    bars = []
    for name in options.data:
        for kind, rate in NOISES:
            noise = f"{kind} {rate:g}"
            peers = [entry for key, entry in by_key.items() if key[:2] == (name, noise) and key[2] != "ours"]
            own = by_key.get((name, noise, "ours"))
            for shown in ([] if own is None else [own]) + peers:
                figures = " ".join(f"{figure} {shown[figure]:.3f}" for figure in ("precision", "f1"))
                print(f"{name} {noise} {shown['key'][2]:20} {figures} {shown['seconds']:.1f} s")
            if own is not None and peers:
                for figure in ("precision", "f1"):
                    best = max(peer[figure] for peer in peers)
                    bars.append(Bar(f"{name}-{noise}-{figure}-to-cleanlab", own[figure] / best, 1, at_most=False))
                usual = next((peer["seconds"] for peer in peers if peer["key"][2] == "cleanlab raw"), None)
                if usual is not None and own["rows"] > TESTED:
                    bars.append(Bar(f"{name}-{noise}-speed-to-cleanlab", usual / own["seconds"], 5, at_most=False))
    if (leaked := by_key.get(("cifar10", "leaks", "ours"))) is not None:
        bars.append(Bar("leaks-recall", leaked["found_at_all"], 0.95, at_most=False))
        bars.append(Bar("leaks-precision", precision(leaked, options.folder / "looked.json"), 0.95, at_most=False))
        bars.append(Bar("leaks-processor-seconds", leaked["seconds"], 60, at_most=True))
    if (leaked := by_key.get(("photos", "leaks", "ours"))) is not None:
        for change, recall in leaked["by_kind"].items():
            print(f"photos {change:20} {recall:.1%} found")
        share = precision(leaked, options.folder / "looked-photos.json")
        print(f"photos, {leaked['pairs']} pairs, {len(leaked['others'])} not planted; precision {share:.1%}")
        crops = min(recall for change, recall in leaked["by_kind"].items() if change.endswith("sides"))
        bars.append(Bar("photos-leaks-recall", leaked["recall"], 0.95, at_most=False))
        bars.append(Bar("photos-leaks-recall-of-crops", crops, 0.95, at_most=False))
        bars.append(Bar("photos-leaks-precision", share, 0.95, at_most=False))
    finish(bars, {"/".join(key): entry for key, entry in by_key.items()}, options.json)


def precision(leaked: dict, looked: Path) -> float:  # type: ignore[type-arg]
    seen, copies = json.loads(looked.read_text()) if looked.is_file() else (1, 0)
    return 1 - len(leaked["others"]) * (1 - copies / seen) / leaked["pairs"]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument(
        "--parts", nargs="+", choices=["labels", "cleanlab", "leaks", "photos"], default=["labels", "leaks"]
    )
    parser.add_argument("--data", nargs="+", default=["stl10", "cifar10"])
    parser.add_argument("--cleanlab", nargs="+", default=CLEANLAB, choices=CLEANLAB, help="what it is fed with")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
