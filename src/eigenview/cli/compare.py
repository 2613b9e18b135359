"""The scores of several runs side by side, each difference to the first run with its interval and significance.

Only scores of the same protocol on the same images are compared. With one run: its baselines against it. To choose one
of several runs without looking at test images, --select SOURCE measures them by cross-validation on training labels.

Without any labels, --unlabelled SOURCE measures runs, encoders by name and files of vectors by LiDAR, RankMe, α-ReQ,
IdEst and what their graphs of neighbours say, and tells how far each of these is to be trusted; so do runs that have
no scores, on the images they were made for.

Examples:
  eigenview compare runs/simclr runs/swav runs/moco
  eigenview compare runs/photos --json
  eigenview compare runs/a runs/b runs/c --select 'train/?labelled=yes'
  eigenview compare runs/a runs/b efficientnet-lite0 --unlabelled photos/
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import JSON, Output
from eigenview.cli.run_options import VECTORS, RunOptions, open_with, vectors_folder
from eigenview.errors import DataError, SettingError

if TYPE_CHECKING:
    from eigenview.evaluation import Compared


class Options(RunOptions):
    runs: Annotated[tuple[Path, ...], positional("RUN|FILE|ENCODER ...")]  # runs and files of vectors that were
    # evaluated, and with --unlabelled encoders by name; differences are to the first
    protocol: Annotated[tuple[str, ...], Word("NAME ...")] = ()  # only scores whose name begins so
    supervised: Annotated[Path | None, Word("RUN")] = None  # a run trained on labels, as one more baseline
    select: Annotated[str | None, Word("SOURCE")] = None  # labelled training images to choose a run by; nothing is
    # compared then
    unlabelled: Annotated[str | None, Word("SOURCE")] = None  # images to compare by without labels
    folds: int = Field(5, ge=2)  # of that cross-validation
    seed: int = Field(0, ge=0)  # of its folds, and of the images drawn
    as_json: AsJson = False  # print the comparison as JSON


def run(options: Options, output: Output) -> None:
    if options.select is not None:
        _select(options, output)
        return
    if options.unlabelled is not None or _has_no_scores(options.runs):
        from eigenview.cli.unlabelled import compare_unlabelled

        shows = not options.as_json
        compare_unlabelled(options, options.runs, options.unlabelled, output, seed=options.seed, shows=shows)
        return
    from eigenview.evaluation import compare_runs
    from eigenview.runs import RunDirectory

    runs = [_directory(options, given) for given in options.runs]
    for given, folder in zip(options.runs, runs, strict=True):
        if not RunDirectory.existing(folder).scores():
            raise DataError(f"{given} has no scores yet; make some with: eigenview evaluate {given} SOURCE")
    named = compare_runs(runs, supervised=options.supervised, protocols=options.protocol or None)
    rows = [named[name] for name in sorted(named, key=_by_numbers)]
    output.result([[_as_json(compared) for compared in row] for row in rows])
    if not options.as_json:
        _show(rows, [folder.resolve().name for folder in runs], output)


def _has_no_scores(given: Sequence[Path]) -> bool:
    """Whether there are several runs, none of which was evaluated yet."""
    from eigenview.runs import RunDirectory, is_run

    return len(given) > 1 and all(is_run(place) and not RunDirectory.existing(place).scores() for place in given)


def _directory(options: Options, given: Path) -> Path:
    return vectors_folder(options, given).folder if given.suffix in VECTORS else given


def _by_numbers(text: str) -> list[str | int]:
    """A key that puts k=5 before k=20."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"([0-9]+)", text)]


def _select(options: Options, output: Output) -> None:
    from eigenview.evaluation import Measuring, Subject, choose_encoder, open_labelled

    source = open_labelled(str(options.select))
    how, features, labels = Measuring(seed=options.seed), {}, None
    for folder in options.runs:
        subject = Subject.of_run(open_with(options, folder, output))
        if subject.name in features:
            raise SettingError(
                f"runs are told apart by their folders' names; two are called {subject.name}: rename one"
            )
        seen = subject.features(source, ["pooled"], how)
        features[subject.name], labels = seen["pooled"], seen.labelled
    assert labels is not None
    choice = choose_encoder(features, labels, folds=options.folds, seed=options.seed)
    output.result({"chosen": choice.name, "accuracy": dict(choice.accuracy)})
    if not options.as_json:
        rows = [[name, f"{100 * accuracy:.1f}"] for name, accuracy in choice.accuracy.items()]
        output.table([f"{options.folds}-fold cross-validation", "accuracy %"], rows)
        output.say(f"chosen: {choice.name}. The figures are for choosing; report its score on test images.")


def _show(rows: Sequence[Sequence[Compared]], runs: Sequence[str], output: Output) -> None:
    """A column for each run and baseline; below a value its difference to the first of the row that has one."""
    from eigenview.cli.scores_table import cell, title

    subjects = dict.fromkeys([*runs, *(compared.score.subject for row in rows for compared in row)])
    measured = {compared.score.subject for row in rows for compared in row}
    names = [name for name in subjects if name in measured]
    lines = []
    for row in rows:
        by_name = {compared.score.subject: compared for compared in row}
        first = row[0].score
        against = "" if first.subject == names[0] else f" to {first.subject}"
        cells = [cell(it.score) + _gain(it, against) if (it := by_name.get(name)) else "–" for name in names]
        lines.append([title(first, with_data=True), *cells])
    output.table([f"below: difference to {names[0]}", *names], lines, stacks=True)


def _gain(compared: Compared, against: str) -> str:
    if not compared.chance:
        return ""
    sign = "+" if compared.difference >= 0 else "−"
    return f"\n{sign}{compared.score.text(abs(compared.difference))}{against}, {compared.chance}"


def _as_json(compared: Compared) -> JSON:
    from eigenview.cli.scores_table import score_as_json

    interval = None if compared.interval is None else list(compared.interval)
    return {
        **score_as_json(compared.score),
        "difference": compared.difference,
        "difference_interval": interval,
        "p_value": compared.p_value,
    }
