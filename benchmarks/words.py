"""Images and words on Flickr8k: CLIP beside LaCLIP, kernels, a locked tower and one from scratch; docs/words.md.

    python benchmarks/words.py --data data --out runs/words

``data`` holds flickr8k_112/ (train, val and test.parquet: images of 112 pixels, five captions each). Settings with
several values are tried on the first seed and chosen by text-to-image recall@10 on val; what is printed is of test.
Numbers of steps are fixed, so that a busy machine changes no figure. Every finished run is kept in ``out`` and not made
again: stop it and go on whenever you like. The features of the locked encoder are computed once, for all.
Intervals are over images (an image's captions stay together), of the mean over seeds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from bars import Bar, finish

from eigenview.cli import main as eigenview
from eigenview.data import Source, open_source
from eigenview.evaluation import extract
from eigenview.evaluation.scores import bootstrap_interval
from eigenview.evaluation.words import caption_recall
from eigenview.files import read_object, write_json
from eigenview.nn import POOLED
from eigenview.runs import open_run

Values = npt.NDArray[np.float64]
K = (1, 5, 10)
SEEDS = (0, 1, 2)
STEPS = 150  # of the tables
SCREENED = "Laplacian", "simple sum", "soft targets"  # by val, among the settings below
COMMON = "--batch-size 256 --optimizer.weight-decay 0.2 --optimizer.warmup-epochs 1 --method-settings.text.depth 1"
LOCKED = f"--encoder efficientnet-lite0 --encoder.locked --views laclip --views.size 160 --workers 0 {COMMON}"
TABLE = f"{LOCKED} --method-settings.text.width 128"  # a third of the cost of 256
SCRATCH = f"--encoder small --views laclip --views.size 48 {COMMON} --method-settings.text.width 128"


@dataclass(frozen=True)
class Contender:
    """What is trained: ``tried`` are its settings, one of which is chosen."""

    name: str
    tried: tuple[str, ...] = ("",)
    steps: int = STEPS
    seeds: tuple[int, ...] = SEEDS
    base: str = TABLE
    method: str = "clip"


CONTENDERS = (
    Contender("LaCLIP"),
    Contender("CLIP", ("--method-settings.caption-weights 1 0",)),
    Contender("Laplacian", tuple(f"--kernel Laplacian({t})" for t in (0.05, 0.1))),
    Contender("simple sum", tuple(f"--kernel Gaussian({t})+Laplacian({t})" for t in (0.05, 0.1))),
    Contender(
        "soft targets",
        tuple(f"--method-settings.soft-targets --method-settings.target-temperature {t}" for t in (0.1, 0.15)),
    ),
    Contender("SigLIP", ("", *(f"--method-settings.temperature {t}" for t in (0.05, 0.03, 0.02))), method="siglip"),
    Contender("locked", steps=300, seeds=(0,), base=LOCKED),
    Contender("scratch", steps=500, seeds=(0,), base=SCRATCH),
)
PAIRS = (("LaCLIP", "CLIP"), *((name, "LaCLIP") for name in (*SCREENED, "SigLIP")))
BARS = (("locked", 10, 43.0), ("locked", 1, 11.0), ("scratch", 10, 8.0))


def folder_of(contender: Contender, settings: str, seed: int, out: Path) -> Path:
    words = "-".join(word.lstrip("-") for word in f"{contender.name} {settings}".split())
    return out / f"{words.replace('method-settings.', '')}-{contender.steps}-{seed}"


def trained(contender: Contender, settings: str, seed: int, options: argparse.Namespace) -> Path:
    folder, features = folder_of(contender, settings, seed, options.out), options.out / "features"
    if (folder / "took.json").exists():
        return folder
    is_locked = LOCKED in contender.base
    if is_locked and features.is_dir() and not folder.exists():
        shutil.copytree(features, folder / "features", copy_function=os.link)
    start, cpu = time.perf_counter(), sum(os.times()[:4])
    source = options.data / "flickr8k_112/train.parquet"
    given = ["train", str(source), "--method", contender.method, "--out", str(folder)]
    given += [*contender.base.split(), *settings.split(), "--steps", str(contender.steps), "--seed", str(seed)]
    given += ["--no-look", "--checkpoint-every", "50"]
    if (folder / "checkpoints/last").is_dir():
        given.append("--resume")
    print("eigenview", *given, flush=True)
    if code := eigenview(given):
        raise SystemExit(code)
    if is_locked and not features.is_dir():
        shutil.copytree(folder / "features", features, copy_function=os.link)
    took = {"minutes": (time.perf_counter() - start) / 60, "cpu_minutes": (sum(os.times()[:4]) - cpu) / 60}
    write_json(folder / "took.json", took)
    return folder


def hits(folder: Path, half: str, options: argparse.Namespace) -> dict[str, Values]:
    """{"text to image@10": (images,)}: 1 where it is found, over an image's captions their mean; kept."""
    file = folder / f"hits-{half}.json"
    if not file.exists():
        source = open_source(options.data / f"flickr8k_112/{half}.parquet")
        assert isinstance(source, Source)
        write_json(file, measured(folder, source, options.out / "cache"))
    return {name: np.array(values) for name, values in read_object(file).items()}


@torch.no_grad()
def measured(folder: Path, source: Source, cache: Path) -> dict[str, list[float]]:
    run = open_run(folder)
    features = extract(run.encoder, source, view=run.view, cache=cache, title="features")  # the same of all locked ones
    captions = [source.captions(int(index)) for index in features.index]
    owner = torch.tensor([row for row, several in enumerate(captions) for _ in several])
    texts = run.needed_text().embed([caption for several in captions for caption in several])
    recall = caption_recall(run.needed_head()(features[POOLED]), texts, owner, k=K)
    counts = torch.bincount(owner)
    forth = {f"text to image@{k}": torch.bincount(owner, hit) / counts for k, hit in recall.to_image.items()}
    back = {f"image to text@{k}": hit for k, hit in recall.to_text.items()}
    return {name: (100 * values).tolist() for name, values in {**forth, **back}.items()}


def chosen(contender: Contender, options: argparse.Namespace) -> str:
    """The settings with the best recall@10 on val, on the first seed."""
    if len(contender.tried) == 1:
        return contender.tried[0]
    on_val = {}
    for settings in contender.tried:
        folder = trained(contender, settings, contender.seeds[0], options)
        on_val[settings] = float(hits(folder, "val", options)["text to image@10"].mean())
        print(f"{contender.name} {settings}: {on_val[settings]:.1f} on val", flush=True)
    return max(on_val, key=lambda settings: on_val[settings])


def shown(values: Values) -> str:
    low, high = bootstrap_interval(lambda index: float(values[index].mean()), len(values))
    return f"{values.mean():5.1f} [{low:5.1f}, {high:5.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/words"))
    parser.add_argument("--contenders", nargs="+", default=[contender.name for contender in CONTENDERS])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    on_test: dict[str, dict[str, Values]] = {}
    choices, took = {}, {}
    for contender in CONTENDERS:
        if contender.name not in options.contenders:
            continue
        settings = choices[contender.name] = chosen(contender, options)
        folders = [trained(contender, settings, seed, options) for seed in contender.seeds]
        several = [hits(folder, "test", options) for folder in folders]
        on_test[contender.name] = {name: np.mean([hit[name] for hit in several], axis=0) for name in several[0]}
        took[contender.name] = read_object(folders[-1] / "took.json")
        seeds = ", ".join(f"{hit['text to image@10'].mean():.1f}" for hit in several)
        print(f"\n{contender.name} {settings} ({contender.steps} steps), recall@10 of each seed: {seeds}", flush=True)
        for name, values in on_test[contender.name].items():
            print(f"  {name:18}{shown(values)}", flush=True)
    for ours, theirs in PAIRS:
        if ours in on_test and theirs in on_test:
            print(f"\n{ours} − {theirs}")
            for name, values in on_test[ours].items():
                print(f"  {name:18}{shown(values - on_test[theirs][name])}")
    bars = [
        Bar(f"{name}-recall@{k}", float(on_test[name][f"text to image@{k}"].mean()), target, at_most=False)
        for name, k, target in BARS
        if name in on_test
    ]
    means = {name: {of: float(values.mean()) for of, values in rows.items()} for name, rows in on_test.items()}
    finish(bars, {"settings": choices, "took": took, "test": means}, options.json)


if __name__ == "__main__":
    main()
