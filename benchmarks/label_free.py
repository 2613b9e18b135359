"""Does a measure without labels tell which encoder is better? Many short runs, each measure against 20-NN accuracy.

    python benchmarks/label_free.py --cifar cifar10/train.parquet --out runs/label_free

The runs are those of label_free_runs.py: many methods, lengths, temperatures and encoders on 10,000 images of CIFAR-10,
with untrained and pretrained encoders beside them. Accuracy is that of 20-NN on the features before the head, 3,000
images asked by 1,000. What is finished is not done again: stop it and go on whenever you like. Printed are Spearman's
rank correlation, with a 95% interval by the bootstrap over runs, and the regret: how many points lower the accuracy of
the run is that the measure calls best than that of the best, of all runs, and on average of five drawn at random.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bars import finish
from label_free_runs import NAMED, PLAN, config
from scipy.stats import spearmanr

from eigenview.data import Source, decoded, open_source, subset
from eigenview.diagnostics.label_free import MEASURES, LabelFree
from eigenview.evaluation import extract, knn_predict
from eigenview.evaluation.observation import measure_without_labels
from eigenview.runs import OpenedRun, is_run, open_encoder, open_run, read_config
from eigenview.training import TrainingDiverged, train

TRAINING, BANK, QUERIES = 10_000, 3_000, 1_000  # CIFAR-10 images: to train on, and others to measure on
DRAWS, CHOSEN_FROM = 2000, 5
SUPERVISED = ("supcon", "supervised")  # runs that saw labels: the measures are also judged without them


def prepare(options: argparse.Namespace) -> None:
    """Small arrays, written once: what is trained on, and what everything is measured on."""
    if (options.out / "measured.npz").exists():
        return
    options.out.mkdir(parents=True, exist_ok=True)
    source = open_source(options.cifar)
    for name, first, last in (("training", 0, TRAINING), ("measured", TRAINING, TRAINING + BANK + QUERIES)):
        some = decoded(subset(source, np.arange(first, last)), shows_progress=False)
        images = np.stack([some.image(index).pixels() for index in range(len(some))])
        np.savez(options.out / f"{name}.npz", images=images, labels=some.labels)


def folder_of(name: str, out: Path) -> Path:
    return out / re.sub(r"[^a-z0-9.]+", "-", name.lower().replace("×", "x")).strip("-")


def trained(name: str, out: Path) -> Path:
    """The run's folder, trained if it was not. A run that ends in NaN is finished too."""
    folder = folder_of(name, out)
    if not (folder / "trained").exists():
        start = time.monotonic()
        try:
            settings = read_config(config(PLAN[name], str(out / "training.npz"), str(folder)))
            train(settings, resume=is_run(folder), looks_back=False)
        except TrainingDiverged as problem:
            print(f"{name}: {problem}")
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
        (folder / "trained").touch()
    return folder


def measured(name: str, opened: OpenedRun, images: Source) -> dict[str, Any]:
    rows = extract(opened.encoder, subset(images, np.arange(BANK + QUERIES)), view=opened.view, title=None)
    bank, queries = (slice(0, BANK), slice(BANK, BANK + QUERIES))
    features, labels = rows["pooled"], rows.labelled
    told = knn_predict(features[bank], labels[bank], features[queries], k=[20], temperature=0.1)[20]
    unlabelled = measure_without_labels(opened, subset(images, np.arange(BANK)), workers=0)
    accuracy = float((told == labels[queries]).double().mean())
    return {"run": name, "accuracy": accuracy, "width": features.shape[1], **asdict(unlabelled)}


def regrets(score: np.ndarray, accuracy: np.ndarray) -> tuple[float, float]:
    """Of all runs, and the mean over draws of five."""
    order = np.random.default_rng(0).random((DRAWS, len(score))).argsort(axis=1)[:, :CHOSEN_FROM]
    chosen = np.take_along_axis(accuracy[order], score[order].argmax(axis=1)[:, None], axis=1)[:, 0]
    return float(accuracy.max() - accuracy[score.argmax()]), float((accuracy[order].max(axis=1) - chosen).mean())


def table(entries: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    accuracy = np.array([entry["accuracy"] for entry in entries])
    fields = LabelFree.__dataclass_fields__
    figures = {}
    for name, measure in MEASURES.items():
        measured = [LabelFree(**{field: entry[field] for field in fields}) for entry in entries]
        score = np.nan_to_num(np.array([measure.score(run) for run in measured]), nan=-1e9, neginf=-1e9)
        draws = np.random.default_rng(0).integers(0, len(score), (DRAWS, len(score)))
        spread = [spearmanr(score[draw], accuracy[draw]).statistic for draw in draws]
        low, high = np.nanquantile(spread, [0.025, 0.975])
        whole, of_five = regrets(score, accuracy)
        correlation = float(spearmanr(score, accuracy).statistic)
        figures[name] = {"spearman": correlation, "low": low, "high": high, "regret": whole, "regret_of_five": of_five}
        shown = f"{correlation:+.2f} [{low:+.2f}, {high:+.2f}]  regret {100 * whole:.1f}, of five {100 * of_five:.1f}"
        print(f"  {name:16s} {shown}")
    by_chance = regrets(np.random.default_rng(1).random(len(accuracy)), accuracy)[1]
    print(f"  at random: regret of five {100 * by_chance:.1f}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", type=Path, required=True, help="labelled images")
    parser.add_argument("--out", type=Path, required=True, help="run directories go here")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    prepare(options)
    file = options.out / "measured.jsonl"
    lines = file.read_text().splitlines() if file.is_file() else []
    done = {entry["run"]: entry for entry in map(json.loads, lines)}
    images = open_source(options.out / "measured.npz")
    for name in [*PLAN, *NAMED]:
        if name not in done:
            if name in PLAN:
                opened = open_run(trained(name, options.out))
            else:
                encoder, size = NAMED[name]
                opened = open_encoder(encoder, images, folder_of(name, options.out), size=size)
            done[name] = measured(name, opened, images)
            with file.open("a") as log:
                log.write(json.dumps(done[name]) + "\n")
            print(json.dumps(done[name]), flush=True)
    entries = [done[name] for name in [*PLAN, *NAMED]]
    alike = [done[name] for name in PLAN if set(PLAN[name]) <= {"method", "settings", "steps", "views", "rate"}]
    unlabelled = [entry for entry in entries if not entry["run"].startswith(SUPERVISED)]
    figures = {}
    for title, some in (("all", entries), ("one encoder", alike), ("no labels seen", unlabelled)):
        print(
            f"{title}: {len(some)} runs and encoders, 20-NN {100 * min(e['accuracy'] for e in some):.1f} to "
            f"{100 * max(e['accuracy'] for e in some):.1f}"
        )
        figures[title] = table(some)
    finish([], {"runs": entries, "figures": figures}, options.json)


if __name__ == "__main__":
    main()
