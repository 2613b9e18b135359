"""The scores of several runs side by side, each difference to the first run with its interval and significance.

Only scores of the same protocol on the same images are compared. With one run: its baselines against it.

Examples:
  eigenview compare runs/simclr runs/swav runs/moco
  eigenview compare runs/photos --json
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenview.cli.options import AsJson, Word, parse, positional
from eigenview.cli.output import JSON, Output
from eigenview.errors import DataError
from eigenview.settings import Strict

if TYPE_CHECKING:
    from eigenview.evaluation import Compared


class Options(Strict):
    runs: Annotated[tuple[Path, ...], positional("RUN ...")]  # directories of runs that were evaluated; differences
    # are to the first
    protocol: Annotated[tuple[str, ...], Word("NAME ...")] = ()  # only scores whose name begins so
    supervised: Annotated[Path | None, Word("RUN")] = None  # a run trained on labels, as one more baseline
    as_json: AsJson = False  # print the comparison as JSON


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="compare", about=__doc__)
    from eigenview.evaluation import compare_runs
    from eigenview.runs import RunDirectory

    for folder in options.runs:
        if not RunDirectory.existing(folder).scores():
            raise DataError(f"{folder} has no scores yet; make some with: eigenview evaluate {folder} SOURCE")
    found = compare_runs(options.runs, supervised=options.supervised, protocols=options.protocol or None)
    output = Output(as_json=options.as_json)
    output.result([[_as_json(one) for one in row] for row in found.values()])
    if not options.as_json:
        _show(found, output)


def _show(found: Mapping[str, Sequence[Compared]], output: Output) -> None:
    from eigenview.cli.scores_table import cell, title

    names = list(dict.fromkeys(one.score.subject for row in found.values() for one in row))
    lines = []
    for row in found.values():
        of = {one.score.subject: one for one in row}
        cells = [cell(of[name].score) + _gain(of[name]) if name in of else "–" for name in names]
        lines.append([title(row[0].score), *cells])
    output.table(["below: difference to the first", *names], lines)


def _gain(one: Compared) -> str:
    from eigenview.cli.scores_table import written

    if one.interval is None or one.p_value is None:
        return ""
    sign = "+" if one.difference >= 0 else "−"
    chance = "p < 0.001" if one.p_value < 0.001 else f"p = {one.p_value:.3f}"
    return f"\n{sign}{written(one.score, abs(one.difference))}, {chance}"


def _as_json(one: Compared) -> JSON:
    from eigenview.cli.scores_table import score_as_json

    interval = None if one.interval is None else list(one.interval)
    return {
        **score_as_json(one.score),
        "difference": one.difference,
        "difference_interval": interval,
        "p_value": one.p_value,
    }
