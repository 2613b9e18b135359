"""A sweep's page: which settings mattered, how the figure depends on each, and all trials side by side."""

from collections.abc import Sequence

from eigenview.files import JSON
from eigenview.report.html import Html, element, table, table_row
from eigenview.report.page import document
from eigenview.report.sections import Section, chart, section
from eigenview.sweeps import Results, Trial

SHOWN = 200  # trials in the table


def sweep_page(results: Results) -> str:
    """The whole document for a sweep."""
    listed = [*results.ranked, *(trial for trial in results.trials if trial not in results.ranked)]
    heads = ["trial", "run", "state", results.objective, *results.names]
    rows = [_row(trial, results.names) for trial in listed[:SHOWN]]
    lead = "" if len(listed) <= SHOWN else f"The first {SHOWN} of {len(listed)}; trials.parquet has them all."
    trials = section("trials", "Trials", "All trials", lead, table(heads, rows, label="all trials"))
    parts = [_best(results), *_charts(results), trials]
    return document(f"sweep {results.name}", parts, {"sweep": sweep_data(results)}, scripts=("theme.js", "sweep.js"))


def sweep_data(results: Results) -> dict[str, JSON]:
    """What the scripts draw: finished trials; what is watched in those that ended early is another figure."""
    drawn = [trial for trial in results.trials if trial.value is not None]
    importance: list[JSON] = [[name, round(share, 4)] for name, share in results.importance.items()]
    names: list[JSON] = list(results.names)
    trials: list[JSON] = [{"number": trial.number, "value": trial.value, "values": trial.values} for trial in drawn]
    return {"objective": results.objective, "names": names, "importance": importance, "trials": trials}


def _best(results: Results) -> Section:
    counts = ", ".join(f"{count} {state}" for state, count in results.counts().items())
    lead = f"{counts}. Chosen by {results.objective}; labels, where it uses any, are held-out ones of training images."
    ranked = results.ranked
    if not ranked:
        return section("best", "Best", f"Sweep {results.name}", lead, element("p.quiet", "no trial has finished yet"))
    rows = [table_row(name, element("td", _text(value))) for name, value in ranked[0].values.items()]
    said = f"Best: {results.objective} {ranked[0].value:.4g}, {ranked[0].run}"
    return section("best", "Best", said, lead, table(["setting", "value"], rows, label="settings of the best trial"))


def _charts(results: Results) -> list[Section]:
    if sum(trial.value is not None for trial in results.trials) < 2:
        return []
    slices = [chart(f"slice-{at}", name, "finished trials") for at, name in enumerate(results.names)]
    parallel = chart(
        "parallel",
        "Trials side by side",
        "a line for each that finished; gold: the best, violet: the worst",
        size="tall",
    )
    listed = [
        section("slices", "Settings", "The figure by each setting", "", element("div.multiples", *slices)),
        section("parallel", "Side by side", "All settings at once", "", parallel),
    ]
    if results.importance:
        said = "share of the figure's variance that each setting explains (fANOVA), of finished trials"
        drawn = chart("importance", "Importance", said)
        listed.insert(0, section("importance", "Importance", "Which settings mattered", "", drawn))
    return listed


def _row(trial: Trial, names: Sequence[str]) -> Html:
    state = f"{trial.state}: {trial.note}" if trial.note else trial.state
    cells = [trial.run, state, _text(trial.value), *(_text(trial.values.get(name)) for name in names)]
    return table_row(str(trial.number), *(element("td", cell) for cell in cells))


def _text(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
