"""Which pictures to label: a few that stand for all, and once some are labelled, those that are still unclear.

Writes a table with a column to fill in (name,label); any spreadsheet opens it. Give it back by --labels: to choose the
next ones, and to spread the labels to all other pictures.

Examples:
  eigenview choose efficientnet-lite0 --source photos/ -n 10 -o answers.csv --sheet answers.png
  eigenview spread efficientnet-lite0 --source photos/ --labels answers.csv -o labels.csv
  eigenview choose runs/photos -n 10 --labels answers.csv -o more.csv
"""

import shlex
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import RunOptions


class Options(RunOptions):
    place: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name (with
    # --source), or embeddings as .parquet, .npy or .npz
    source: Annotated[str | None, Word("SOURCE")] = None  # the images, where they are not embedded yet; of a file of
    # vectors, the pictures they were made of
    count: Annotated[int, Word("N", "-n")] = Field(10, ge=1)  # pictures to choose
    labels: Annotated[tuple[Path, ...], Word("FILE ...")] = ()  # what was labelled so far: tables with name and label
    column: Annotated[str | None, Word("NAME")] = None  # of the tables, that holds the labels; label unless given
    way: Literal["coverage", "typical", "maxherding", "random"] = "coverage"  # of choosing
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # .csv or .parquet; choose-NAME.csv unless given
    sheet: Annotated[Path | None, Word("FILE")] = None  # a contact sheet of them as well, .png
    seed: int = Field(0, ge=0)  # of all that is drawn
    engine: Literal["auto", "exact", "faiss"] = "auto"  # of the graph: exact, faiss (approximate, and says how many
    # neighbours it finds), or by the number of pictures
    overwrite: bool = False  # replace files that are there already
    as_json: AsJson = False  # print the names as JSON, and write nothing unless -o says so


def run(options: Options, output: Output) -> None:
    from eigenview.cli.embedded import (
        checked_places,
        open_or_embed,
        open_pictures_of,
        say_graph,
        say_recall,
        table_place,
    )
    from eigenview.labels.label_files import read_labels, write_table
    from eigenview.labels.suggesting import choose_images
    from eigenview.search.pictures import Pictures

    checked_places(options.out, options.sheet, overwrite=options.overwrite)
    stored, _ = open_or_embed(options.place, options.source, options, output)
    given = read_labels(options.labels, stored, column=options.column) if options.labels else None
    if given is not None:
        output.say(str(given))
    source = None if options.sheet is None else open_pictures_of(options.place, options.source)
    Pictures(stored, source)  # other pictures are refused before anything is written
    say_graph(output, stored, options.engine)
    chosen = choose_images(
        stored, options.count, given=given, way=options.way, seed=options.seed, engine=options.engine
    )
    say_recall(output, chosen.recall)
    output.result({"names": list(chosen.names), "rows": list(chosen.rows)})
    out = table_place(options.out, "choose", stored, writes=not options.as_json)
    if out is not None:
        column = options.column or "label"
        write_table(out, {"name": chosen.names, column: [""] * len(chosen.names)}, overwrite=options.overwrite)
        said = f"fill in the column {column}, leave it empty if unsure"
        output.say(f"{out}: {len(chosen.names):,} pictures to label; {said}")
    if options.sheet is not None:
        chosen.sheet(options.sheet, source=source, overwrite=options.overwrite)
        output.say(f"to look at: {options.sheet}")
    if out is not None:
        output.say(f"then: {_spread_words(options, out)}", style="dim")


def _spread_words(options: Options, out: Path) -> str:
    """The command that spreads the labels, once they are filled in."""
    words = ["eigenview", "spread", str(options.place)]
    for name in ("source", *RunOptions.model_fields, "column"):
        if (value := getattr(options, name)) != Options.model_fields[name].default:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, "--labels", *map(str, [*options.labels, out])])
