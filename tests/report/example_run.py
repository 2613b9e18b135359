"""A run directory made in a moment, without training: what the report's tests read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from eigenview.evaluation import mean_score, save_score
from eigenview.evaluation.sample import packed

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
) -> Path:
    """Config, metrics, data, environment, scores with baselines, a sample of ``items`` images of coloured squares."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"source": "pictures", "out": str(folder), "method": "simclr", "encoder": {"name": "small", "width": 1.0}}
    _write_json(folder / "config.json", {**config, "epochs": 2, "seed": seed, "optimizer": {"learning_rate": 0.1}})
    _write_json(folder / "data.json", {"source": {"kind": "folder", "place": "pictures", "count": 500}})
    machine = {"eigenview": "0.1.0", "torch": "2.5", "processes": 2, "threads": 3, "cores": 4}
    _write_json(folder / "environment.json", machine)
    lines = [_line(step, loss) for step in range(10, 210, 10)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 22')
    if has_scores:
        _write_scores(folder, seed)
    if has_sample:
        _write_sample(folder, items, seed, names, classes if is_labelled else None)
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


def _write_scores(folder: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    for name in ("linear", "knn k=20"):
        for subject, rate in {folder.name: 0.8, "untrained": 0.6, "raw pixels": 0.5}.items():
            right = torch.from_numpy(random.random(300) < rate)
            score = mean_score(
                right, name=name, metric="accuracy", protocol={"k": 1}, data={"test": "x"}, subject=subject
            )
            save_score(score, folder)


def _write_sample(folder: Path, items: int, seed: int, names: tuple[str, ...], classes: tuple[str, ...] | None) -> None:
    random, place = np.random.default_rng(seed), folder / "sample"
    place.mkdir()
    group = np.arange(items) % 4
    centres = 4 * random.normal(size=(4, 12))
    features = (centres[group] + random.normal(size=(items, 12))).astype(np.float32)
    features[1] = features[5]  # one pair of duplicates, of one class
    arrays = {"features": features, "index": np.arange(items), "clusters": group.astype(np.int64)}
    for name in ("first_view", "second_view"):
        arrays[name] = (features[:, :8] + 1.0 * random.normal(size=(items, 8))).astype(np.float32)
    if classes is not None:
        arrays["labels"] = group.astype(np.int64)
    for name, values in arrays.items():
        np.save(place / f"{name}.npy", values)
    shown = [*names, *(f"photos/{number:05d}.jpg" for number in range(items))][:items]
    colours = ((200, 60, 40), (40, 120, 200), (60, 160, 80), (220, 180, 40))
    pictures = [Image.new("RGB", (8, 8), colours[number]) for number in group]
    columns = 32
    sheets = [pictures[start : start + columns**2] for start in range(0, items, columns**2)]
    for number, part in enumerate(sheets):
        packed(part, 8, columns).save(place / f"thumbnails-{number}.jpg", quality=90, subsampling=0)
    packed(pictures[:12], 8, 3).save(place / "views.png")
    summary = {
        "names": shown,
        "classes": classes,
        "thumbnails": {
            "files": [f"thumbnails-{n}.jpg" for n in range(len(sheets))],
            "side": 8,
            "columns": 32,
            "rows": 32,
        },
        "views": {"files": ["views.png"], "side": 8, "columns": 3, "rows": 4},
        "source": "pictures",
        "seed": seed,
        "checkpoint": "last",
    }
    _write_json(place / "sample.json", summary)


def _write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content), encoding="utf-8")
