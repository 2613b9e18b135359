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
  eigenview compare runs/a runs/b efficientnet-lite0 --unlabelled photos/ -o measures.csv
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import JSON, Output
from eigenview.cli.run_options import (
    VECTORS,
    RunOptions,
    check_named,
    is_encoder,
    open_with,
    say_wait,
    seconds_an_image,
    vectors_folder,
)
from eigenview.errors import DataError, SettingError

if TYPE_CHECKING:
    from eigenview.data import Source
    from eigenview.diagnostics.label_free import LabelFree
    from eigenview.evaluation import Compared

TRUSTED = 0.7  # rank correlation from which on a measure may choose


class Options(RunOptions):
    runs: Annotated[tuple[Path, ...], positional("RUN|FILE|ENCODER ...")]  # runs and files of vectors that were
    # evaluated, and with --unlabelled encoders by name; differences are to the first
    protocol: Annotated[tuple[str, ...], Word("NAME ...")] = ()  # only scores whose name begins so
    supervised: Annotated[Path | None, Word("RUN")] = None  # a run trained on labels, as one more baseline
    select: Annotated[str | None, Word("SOURCE")] = None  # labelled training images to choose a run by; nothing is
    # compared then
    unlabelled: Annotated[str | None, Word("SOURCE")] = None  # images to compare by without labels
    folds: int = Field(5, ge=2)  # of the cross-validation
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # with --unlabelled: the table as .csv or .parquet
    overwrite: bool = False  # replace a file that is there already
    seed: int = Field(0, ge=0)  # of the folds, and of the images drawn
    as_json: AsJson = False  # print the comparison as JSON


def run(options: Options, output: Output) -> None:
    if options.select is not None:
        _select(options, output)
        return
    from eigenview.evaluation import compare_runs
    from eigenview.runs import RunDirectory, is_run

    are_new = (is_run(place) and not RunDirectory.existing(place).scores() for place in options.runs)
    if options.unlabelled is not None or (len(options.runs) > 1 and all(are_new)):
        _compare_unlabelled(options, output)
        return
    if options.out is not None:
        raise SettingError("-o writes what is measured without labels: give --unlabelled SOURCE, or take --json")
    for given in options.runs:
        if given.suffix not in VECTORS and not is_run(given) and is_encoder(str(given)):
            raise SettingError(f"{given} is an encoder, and has no scores: compare it on images (--unlabelled SOURCE)")
    runs = [vectors_folder(options, given).folder if given.suffix in VECTORS else given for given in options.runs]
    for given, folder in zip(options.runs, runs, strict=True):
        if not RunDirectory.existing(folder).scores():
            raise DataError(f"{given} has no scores yet; make some with: eigenview evaluate {given} SOURCE")
    named = compare_runs(runs, supervised=options.supervised, protocols=options.protocol or None)
    rows = [named[name] for name in sorted(named, key=_by_numbers)]
    output.result([[_as_json(compared) for compared in row] for row in rows])
    if not options.as_json:
        _show(rows, [folder.resolve().name for folder in runs], output)


def _by_numbers(text: str) -> list[str | int]:
    """A key that puts k=5 before k=20."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"([0-9]+)", text)]


def _select(options: Options, output: Output) -> None:
    from eigenview.evaluation import choose_run, told_apart

    told_apart(options.runs)
    runs = (open_with(options, folder, output) for folder in options.runs)
    choice = choose_run(runs, str(options.select), folds=options.folds, seed=options.seed)
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


def _compare_unlabelled(options: Options, output: Output) -> None:
    """Measure all on the images of ``--unlabelled``, or on those that the first run was made for."""
    from eigenview.data import open_images
    from eigenview.diagnostics.label_free import MEASURED_ON, MEASURES, Ranked
    from eigenview.evaluation import told_apart
    from eigenview.labels.label_files import check_place, write_table

    if options.out is not None:
        check_place(options.out, overwrite=options.overwrite)
    for place in options.runs:
        check_named(str(place))
    names, spec, is_given = told_apart(options.runs), options.unlabelled, options.unlabelled is not None
    opening = cache(partial(open_images, needs_index=True, network=is_given))  # no address of settings is fetched
    measured = Ranked()
    for name, place in zip(names, options.runs, strict=True):
        measured[name], spec = _measured(options, place, spec, opening, output)
    figures: dict[str, dict[str, JSON]] = {
        name: {key: None if value is None or not math.isfinite(value) else value for key, value in asdict(each).items()}
        for name, each in measured.items()
    }
    output.result({"best": measured.best, "by": measured.by, "worth": dict(measured.worth), "measures": dict(figures)})
    if options.out is not None:
        columns = {each.field: [of_one[each.field] for of_one in figures.values()] for each in MEASURES.values()}
        write_table(options.out, {"name": list(measured), **columns}, overwrite=options.overwrite)
    if options.as_json:
        return
    rows = []
    for title, measure in MEASURES.items():
        cells = [_cell(getattr(some, measure.field)) for some in measured.values()]
        rows.append([f"{title} ({measure.rule})", *cells, f"{measured.worth[title]:+.2f}"])
    output.table(["without labels", *measured, "worth"], rows)
    hint = "probably best" if measured.worth[measured.by] >= TRUSTED else "a hint, hardly better than a guess"
    output.say(f"{hint}: {measured.best}, by {measured.by}")
    output.say(
        f"worth: rank correlation with 20-NN accuracy over {MEASURED_ON}; 1 is always right, 0 a guess.", style="dim"
    )
    output.say("With a few hundred labels, --select SOURCE tells more than any of these.", style="dim")
    if options.out is not None:
        output.say(f"{options.out}: all of it")


def _measured(
    options: Options, place: Path, spec: str | None, opening: Callable[[str], Source], output: Output
) -> tuple[LabelFree, str | None]:
    """The measures, and on which images; vectors are measured as they are."""
    from eigenview.diagnostics.label_free import label_free
    from eigenview.evaluation.observation import ITEMS, VIEWED, VIEWS, measure_without_labels
    from eigenview.search import open_embeddings

    if place.suffix in VECTORS:
        return label_free(open_embeddings(place).vectors, seed=options.seed), spec
    run = open_with(options, place, output, spec, lambda: opening(str(spec)))
    images = spec or run.directory.source
    source = opening(images)
    seen = min(ITEMS, len(source)) + VIEWS * min(VIEWED, len(source))
    say_wait(output, f"{run.name}: {seen:,} images and views", seen * seconds_an_image(run, source))
    return measure_without_labels(run, source, seed=options.seed), images


def _cell(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.3g}"
