"""A run directory written in a moment, without training, by the run's own writers: what the report's tests read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from eigenview.data import open_source
from eigenview.evaluation import Origin, mean_score
from eigenview.evaluation.sampling import packed
from eigenview.methods import MethodParts
from eigenview.runs import EncoderRecord, Packed, RunDirectory, Words, data_facts, read_config, write_sample
from eigenview.runs.facts import EnvironmentFacts
from eigenview.views import preset

CLASSES = ("cat", "dog", "frog", "ship")
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "a\u2028b\u2029c",
    "\"'&`<!--",
    "\u202efdp.exe",
)


def write_run(
    folder: Path,
    *,
    items: int = 120,
    seed: int = 0,
    is_labelled: bool = True,
    has_sample: bool = True,
    has_scores: bool = True,
    names: tuple[str, ...] = (),
    classes: tuple[str, ...] = CLASSES,
    loss: float = 3.0,
    words: Words | None = None,
) -> Path:
    """Config, metrics, data, environment, scores with baselines, a sample of ``items`` images of coloured squares."""
    directory = RunDirectory(folder)
    settings = {"source": "pictures", "out": str(folder), "epochs": 2, "seed": seed}
    config = read_config({**settings, "optimizer": {"learning_rate": 0.1}})
    facts = data_facts(open_source("digits"), preset("simclr-cifar"), (32, 32, 3), None)
    environment = EnvironmentFacts(eigenview="0.1.0", torch="2.5", processes=2, threads=3, cores=4)
    record = EncoderRecord(settings=config.encoder, channels=3, view=facts.view)
    directory.prepare(config, facts, environment, MethodParts(), record, resume=False)
    for step in range(10, 210, 10):
        directory.metrics_file.append(_line(step, loss))
    with directory.metrics_file.path.open("a") as file:
        file.write('{"step": 22')  # a crash cut it short
    if has_scores:
        write_scores(directory, seed, data={"test": "x"})
    if has_sample:
        _write_sample(folder, items, seed, names, classes if is_labelled else None, words)
    return folder


def _line(step: int, loss: float) -> dict[str, object]:
    return {
        "step": step,
        "epoch": step // 100,
        "loss": loss + 100 / step / 10,
        "chance": 6.2,
        "learning_rate": 0.1 * (1 - step / 200),
        "gradient_norm": 1.0,
        "alignment": 0.5 + 5 / step,
        "uniformity": -2.0 - step / 200,
        "effective_rank": 4.0 + step / 100,
        "seconds": step * 1.8,
        "views_per_second": 1000.0,
        "knn_accuracy": 0.4 + step / 1000,
        "alarms": ["step 20: the rank fell"] if step == 20 else [],
    }


def write_scores(
    directory: RunDirectory, seed: int, *, data: dict[str, object], rate: float = 0.8, has_baselines: bool = True
) -> None:
    random = np.random.default_rng(seed)
    rates = {directory.name: rate} | ({"untrained": 0.6, "raw pixels": 0.5} if has_baselines else {})
    for name in ("linear", "knn k=20"):
        for subject, chance in rates.items():
            right = torch.from_numpy(random.random(300) < chance)
            score = mean_score(right, Origin(subject, data), name=name, metric="accuracy", protocol={"k": 1})
            directory.save_score(score)


def _write_sample(
    folder: Path,
    items: int,
    seed: int,
    names: tuple[str, ...],
    classes: tuple[str, ...] | None,
    words: Words | None,
) -> None:
    random = np.random.default_rng(seed)
    group = np.arange(items) % 4
    centres = 4 * random.normal(size=(4, 12))
    features = (centres[group] + random.normal(size=(items, 12))).astype(np.float32)
    features[1] = features[5]  # one pair of duplicates, of one class
    colours = ((200, 60, 40), (40, 120, 200), (60, 160, 80), (220, 180, 40))
    pictures = [Image.new("RGB", (8, 8), colours[number]) for number in group]
    columns = 32
    sheets = [packed(pictures[start : start + columns**2], 8, columns) for start in range(0, items, columns**2)]
    sample = {
        "features": features,
        "index": np.arange(items),
        "clusters": group.astype(np.int64),
        "labels": None if classes is None else group.astype(np.int64),
        "names": [*names, *(f"photos/{number:05d}.jpg" for number in range(items))][:items],
        "classes": None if classes is None else list(classes),
        "source": "pictures",
        "seed": seed,
        "checkpoint": "last",
        "words": None if words is None else asdict(words),
    }
    for name in ("first_view", "second_view"):
        sample[name] = (features[:, :8] + 1.0 * random.normal(size=(items, 8))).astype(np.float32)
    views = Packed([packed(pictures[:12], 8, 3)], 8, 3, 4)
    write_sample(folder, sample, thumbnails=Packed(sheets, 8, columns, columns), views=views)
