"""The whole way on embedded data: train without labels, evaluate, diagnose, label ten, report. Minutes on two cores.

Run: make demo        (or python examples/demo.py [--out runs/demo] [--epochs N])
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import eigenview as ev
from eigenview.data import open_images
from eigenview.recipes import RECIPES
from eigenview.runs import Score
from eigenview.training import shown_progress

BASELINES = ("raw pixels", "untrained")
COLUMNS = {  # of the table: the scores' names, as the protocols give them
    "1-NN\n5 labels a class": "1-NN, 5 labels a class",
    "logistic\n5 labels a class": "5 labels a class",
    "1-NN\nall labels": "knn k=1",
    "logistic\nall labels": "linear",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="the run directory; made anew")
    parser.add_argument("--epochs", type=int, help="fewer are quicker and worse")
    options = parser.parse_args()
    console = Console()
    recipe = RECIPES["digits-demo"]
    if (options.out / "config.json").is_file():  # an earlier demo, and nothing else, is thrown away
        shutil.rmtree(options.out)
    given = {**recipe.settings, "source": recipe.source, "out": str(options.out)}
    config = ev.read_config({**given, "epochs": options.epochs or given["epochs"]})
    learnt, kept_back = (open_images(spec, needs_index=True) for spec in (recipe.source, str(recipe.test)))

    console.print(f"[bold]1. Learn[/bold] from {len(learnt):,} handwritten digits of 8 × 8 pixels, without labels")
    run = ev.train(config, listeners=[shown_progress(console)])

    console.print(f"[bold]2. Evaluate[/bold] on {len(kept_back)} others, next to raw pixels and the untrained encoder")
    protocols = ("knn", "linear", "few-label")
    scores = run.evaluate(learnt, kept_back, protocols=protocols, baselines=BASELINES)
    console.print(table_of(scores))

    console.print("[bold]3. Diagnose[/bold] without labels")
    console.print(f"   verdict: {run.diagnose(learnt).verdict}")

    console.print("[bold]4. Label ten[/bold] and let the graph label the rest")
    embeddings = run.embed(learnt)
    console.print(
        "   ten drawn at random: {:.0%} of the others right; ten chosen: {:.0%}".format(*ten_labels(embeddings))
    )
    console.print(f"   groups without any label: {embeddings.clusters().count}", highlight=False)

    page = run.report()
    console.print(f"[bold]5. Report[/bold]: open {page} in a browser\n")
    console.print("On a folder of your own, no labels needed:")
    for command in (
        "eigenview train photos/ --minutes 10 --out runs/photos",
        "eigenview report runs/photos",
        "eigenview neighbours runs/photos a-picture.jpg --source photos/",
        "eigenview clusters runs/photos --source photos/",
        "eigenview label photos/",
    ):
        console.print(f"  .venv/bin/{command}", highlight=False)


def ten_labels(embeddings: ev.Embeddings) -> tuple[float, float]:
    """The share of other digits that get their label right from ten drawn at random (mean of five draws), or chosen."""
    truth = embeddings.labels
    assert truth is not None

    def accuracy(rows: Sequence[int]) -> float:
        spread = embeddings.spread({row: int(truth[row]) for row in rows})
        return float(np.mean(np.delete(np.array(spread.labels) == truth.astype(str), list(rows))))

    drawn = [accuracy(embeddings.choose(10, way="random", seed=seed).rows) for seed in range(5)]
    return float(np.mean(drawn)), accuracy(embeddings.choose(10).rows)  # the last one is in the report


def table_of(scores: list[Score]) -> Table:
    """Percent with 95% intervals: over test images, or over draws for few labels."""
    table = Table(caption="accuracy in %, with 95% intervals (over draws of the labels, or over test images)")
    table.add_column("")
    for title in COLUMNS:
        table.add_column(title, justify="right")
    for subject in (*BASELINES, *{score.subject: 0 for score in scores if score.subject not in BASELINES}):
        cells = [cell(scores, subject, name) for name in COLUMNS.values()]
        table.add_row("Eigenview" if subject not in BASELINES else subject, *cells)
    return table


def cell(scores: list[Score], subject: str, name: str) -> str:
    score = next(score for score in scores if (score.subject, score.name) == (subject, name))
    return f"{100 * score.value:.1f} [{100 * score.interval[0]:.1f}, {100 * score.interval[1]:.1f}]"


if __name__ == "__main__":
    main()
