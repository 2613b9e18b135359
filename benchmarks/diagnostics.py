"""Are the verdicts right? Short runs on CIFAR-10 and STL-10, good ones and some made to fail, trained and diagnosed.

    python benchmarks/diagnostics.py --cifar cifar10/train.parquet --stl stl10_64/unlabelled.parquet \
        --stl-labelled stl10_64/train.parquet --out runs/diagnostics

The runs and what is expected of them are in diagnostics_runs.py. What is finished is not done again: stop it and go on
whenever you like. Figures are kept in each run (delete diagnosis.json and features.json to measure anew); verdicts are
given anew, by the thresholds of today. kNN accuracy (k = 20, features before the head) is for the reader: no verdict
sees a label.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from diagnostics_runs import PLAN, TRAINED, Planned

from eigenview.data import Source, decoded, open_source
from eigenview.diagnostics import Diagnosis, diagnosed
from eigenview.diagnostics.verdict import THRESHOLDS
from eigenview.evaluation import diagnose_run, extract, knn_predict
from eigenview.names import named_code
from eigenview.runs import RunDirectory, is_run, open_run, read_config
from eigenview.training import TrainingDiverged, train

TRAINING, BANK, QUERIES = 20_000, 8_000, 2_000  # CIFAR-10 images: to train on, and labelled ones for kNN
ITEMS = {"A": 5000, "B": 2000, "C": 2000}  # images that a diagnosis looks at
REPEATED = {"cifar10": 0.1, "stl10": 0.2}  # shares of the images that the repeated sets hold twice


def images_of(source: Source, first: int, last: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Images (n, h, w, c) and labels of a range of items."""
    images = np.stack([source.image(index).pixels() for index in range(first, last)])
    return images, None if source.labels is None else source.labels[first:last]


def prepare(options: argparse.Namespace) -> None:
    """Small arrays of both sets, written once: what is trained on, the same with repetitions, and what kNN needs."""
    folder = options.out / "data"
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "done").exists():
        return
    cifar, stl, labelled = (
        decoded(open_source(path), shows_progress=False) for path in (options.cifar, options.stl, options.stl_labelled)
    )
    for name, source, last in (("cifar10", cifar, TRAINING), ("stl10", stl, len(stl))):
        images, _ = images_of(source, 0, last)
        np.savez(folder / f"{name}.npz", images=images)
        again = round(REPEATED[name] * len(images))
        np.savez(folder / f"{name}-repeated.npz", images=np.concatenate([images, images[:again]]))
    for name, source, first in (("cifar10", cifar, TRAINING), ("stl10", labelled, 0)):
        images, labels = images_of(source, first, min(first + BANK + QUERIES, len(source)))
        np.savez(folder / f"{name}-labelled.npz", images=images, labels=labels)
    (folder / "done").touch()


def folder_of(name: str, out: Path) -> Path:
    return out / re.sub(r"[^a-z0-9]+", "-", name.lower().replace("×", "x")).strip("-")


def trained(name: str, planned: Planned, out: Path) -> Path:
    """The run's folder, trained if it was not. A run that ends in NaN is finished too."""
    folder = folder_of(name, out)
    if not (folder / "trained").exists():
        try:
            with named_code(planned.method):
                config = read_config(planned.config(str(out / "data" / f"{planned.data}.npz"), str(folder)))
                train(config, resume=is_run(folder), looks_back=False)
        except TrainingDiverged as problem:
            print(f"{name}: {problem}")
        last = RunDirectory(folder).metrics.lines[-1]
        print(f"{name:34s} step {last['step']} loss {last.get('loss')} chance {last.get('chance')}", flush=True)
        (folder / "trained").touch()
    return folder


@dataclass(frozen=True)
class Judged:
    """A run with the verdicts on its projections and on its features, and how well its features do with labels."""

    name: str
    right: tuple[str, ...]
    projections: Diagnosis
    features: Diagnosis
    accuracy: float
    untrained: float

    def outcome(self, diagnosis: Diagnosis) -> str:
        """right: the verdict is one of those expected; told: something else is said to be wrong."""
        if not self.right:
            return "right" if diagnosis.verdict == "healthy" else "FALSE ALARM"
        return "right" if diagnosis.verdict in self.right else "MISSED" if diagnosis.verdict == "healthy" else "told"


def judged(name: str, planned: Planned, folder: Path, notes: Path, data: Path) -> Judged:
    """Figures of the run in ``folder``, measured once and kept in ``notes``; the verdict by today's thresholds."""
    images = open_source(data / f"{planned.data}.npz")
    labelled = open_source(data / f"{planned.data.removesuffix('-repeated')}-labelled.npz")
    notes.mkdir(parents=True, exist_ok=True)
    diagnoses = {}
    for where, file in (("projection", "diagnosis.json"), ("features", "features.json")):
        if not (notes / file).exists():
            measured = diagnose_run(open_run(folder), images, where=where, items=ITEMS[planned.group])
            (notes / file).write_text(measured.to_json())
        diagnoses[where] = diagnosed(Diagnosis.from_json((notes / file).read_text()).figures)
    kept = notes / "accuracy.json"
    if not kept.exists():
        kept.write_text(json.dumps(accuracies(folder, labelled)))
    after, before = json.loads(kept.read_text())
    return Judged(name, planned.right, diagnoses["projection"], diagnoses["features"], after, before)


def accuracies(folder: Path, labelled: Source) -> tuple[float, float]:
    """20-NN accuracy of the features, trained and untrained: a fifth of the labelled images asks the rest."""
    run = open_run(folder)
    split = 4 * len(labelled) // 5
    scores = []
    for encoder in (run.encoder, run.untrained()):
        rows = extract(encoder, labelled, view=run.view, title=None)
        features, labels = rows["pooled"], rows.labelled
        predicted = knn_predict(features[:split], labels[:split], features[split:], k=[20], temperature=0.1)[20]
        scores.append(float((predicted == labels[split:]).double().mean()))
    return scores[0], scores[1]


def table(rows: list[Judged], where: str) -> list[str]:
    """Markdown: the figures that verdicts rest on, the verdict, and whether it is right."""
    said = [
        "| run | kNN (untrained) | loss / chance | mean cosine | rank share | crowding | disagreement | "
        "skewness | duplicates | dead | usage | findings | |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        diagnosis = row.projections if where == "projection" else row.features
        figures, views = diagnosis.figures, diagnosis.figures.views
        usable = min(figures.d, figures.n - 1, THRESHOLDS.usable_dimensions)
        known = figures.loss is not None and figures.chance is not None
        cells = [
            row.name,
            f"{100 * row.accuracy:.1f} ({100 * row.untrained:.1f})",
            f"{figures.loss:.3g} / {figures.chance:.3g}" if known else "–",
            f"{figures.mean_cosine:.3f}",
            f"{figures.effective_rank_centred / usable:.2f}",
            f"{figures.crowding:.2f}",
            "–" if views is None else f"{views.disagreement:.3f}",
            f"{figures.hubness.skewness.value:.1f}",
            f"{figures.duplicates.value:.3f}",
            f"{len(figures.dead) / figures.d:.2f}",
            "–" if figures.usage is None else f"{figures.usage.entropy:.2f}",
            ", ".join(finding.name for finding in diagnosis.findings) or "healthy",
            row.outcome(diagnosis),
        ]
        said.append(f"| {' | '.join(cells)} |")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", type=Path, required=True)
    parser.add_argument("--stl", type=Path, required=True)
    parser.add_argument("--stl-labelled", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="run directories go here")
    parser.add_argument("--methods", type=Path, help="runs of benchmarks/methods.py, which are judged too")
    parser.add_argument("--groups", nargs="*", default=["A", "B", "C"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    prepare(options)
    data = options.out / "data"
    for group in options.groups:
        rows = []
        for name, planned in PLAN.items():
            if planned.group == group:
                folder = trained(name, planned, options.out)
                rows.append(judged(name, planned, folder, folder, data))
        for name in TRAINED[group] if options.methods else ():
            if (options.methods / name / "checkpoints" / "last").exists():
                notes = options.out / "methods" / name
                good = Planned(group, "cifar10", name)
                rows.append(judged(f"{name}, 3 epochs", good, options.methods / name, notes, data))
        rows.sort(key=lambda row: bool(row.right))
        for where in ("projection", "features"):
            print(f"\nGroup {group}, {where}\n", *table(rows, where), sep="\n", flush=True)


if __name__ == "__main__":
    main()
