"""The whole way on embedded data: train without labels, evaluate, diagnose, report. About two minutes on two cores.

Run: make demo        (or python examples/demo.py [--out runs/demo] [--epochs N])
"""

from __future__ import annotations

import argparse
import logging
import shutil
import warnings
from pathlib import Path

from eigenview.evaluation.run_diagnosis import diagnose_run, save_diagnosis
from eigenview.evaluation.sample import write_sample
from rich.console import Console
from rich.table import Table

from eigenview.data import Source, open_source
from eigenview.evaluation import Score, evaluate_run
from eigenview.recipes import RECIPES
from eigenview.report import write_report
from eigenview.training import progress, read_config, train

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
    warnings.filterwarnings("ignore", module="lightning_fabric")
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    console = Console()
    recipe = RECIPES["digits-demo"]
    if (options.out / "config.json").is_file():  # an earlier demo, and nothing else, is thrown away
        shutil.rmtree(options.out)
    given = {**recipe.settings, "source": recipe.source, "out": str(options.out)}
    config = read_config({**given, "epochs": options.epochs or given["epochs"]})
    learnt, kept_back = (as_images(open_source(spec)) for spec in (recipe.source, str(recipe.test)))

    console.print(f"[bold]1. Learn[/bold] from {len(learnt):,} handwritten digits of 8 × 8 pixels, without labels")
    train(config, listeners=[progress(console)])

    console.print(f"[bold]2. Evaluate[/bold] on {len(kept_back)} others, next to raw pixels and the untrained encoder")
    protocols = ("knn", "linear", "few-label")
    scores = evaluate_run(options.out, {"digits": (learnt, kept_back)}, protocols=protocols)
    console.print(table_of(scores))

    console.print("[bold]3. Diagnose[/bold] without labels")
    found = diagnose_run(options.out, learnt)
    save_diagnosis(found, options.out)
    console.print(f"   verdict: {found.verdict}")

    write_sample(options.out, learnt)
    page = write_report([options.out])
    console.print(f"[bold]4. Report[/bold]: open {page} in a browser\n")
    console.print("On a folder of your own, no labels needed:")
    for command in (
        "eigenview train photos/ --minutes 10 --out runs/photos",
        "eigenview report runs/photos",
        "eigenview neighbours runs/photos a-picture.jpg --source photos/",
    ):
        console.print(f"  .venv/bin/{command}", highlight=False)


def as_images(source: object) -> Source:
    if not isinstance(source, Source):
        raise TypeError("the demo's digits are an indexed source")
    return source


def table_of(scores: list[Score]) -> Table:
    """Percent with 95% intervals: over test images, or over draws for few labels."""
    table = Table(caption="accuracy in %, with 95% intervals (over draws of the labels, or over test images)")
    table.add_column("")
    for title in COLUMNS:
        table.add_column(title, justify="right")
    for subject in ("raw pixels", "untrained", *{s.subject: 0 for s in scores if s.subject not in BASELINES}):
        cells = [cell(scores, subject, name) for name in COLUMNS.values()]
        table.add_row("Eigenview" if subject not in BASELINES else subject, *cells)
    return table


BASELINES = ("raw pixels", "untrained")


def cell(scores: list[Score], subject: str, name: str) -> str:
    score = next(one for one in scores if (one.subject, one.name) == (subject, name))
    return f"{100 * score.value:.1f} [{100 * score.interval[0]:.1f}, {100 * score.interval[1]:.1f}]"


if __name__ == "__main__":
    main()
