"""The labels of all pictures from a few: spread along the graph of what is alike, each with a probability.

Reads tables with name and label, as choose writes them for you to fill in, and writes one line a picture: name, label,
probability, given (yes: it was yours). --certain leaves the label empty where it is less sure than that. Beside it a
head is kept, OUT.head.safetensors: predict labels later pictures with it, export puts it into an ONNX file.

Examples:
  eigenview spread runs/photos --labels answers.csv -o labels.csv
  eigenview spread photos.parquet --labels answers.csv more.csv --certain 0.9 -o labels.parquet
  eigenview spread photos.parquet --labels answers.csv --sizes cat=300 dog=700
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import JSON, Output
from eigenview.cli.run_options import RunOptions
from eigenview.errors import SettingError

if TYPE_CHECKING:
    from eigenview.labels.suggesting import Suggestions


class Options(RunOptions):
    place: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name (with
    # --source), or embeddings as .parquet, .npy or .npz
    labels: Annotated[tuple[Path, ...], Word("FILE ...")]  # the labels you gave: tables with name and label
    source: Annotated[str | None, Word("SOURCE")] = None  # the images, where they are not embedded yet; of a file of
    # vectors, the pictures they were made of
    certain: Annotated[float, Word("P")] = Field(0.0, ge=0, le=1)  # no label where its probability is below
    sizes: Annotated[tuple[str, ...], Word("CLASS=N ...")] = ()  # how many pictures of each class there are, or their
    # shares; as the pictures say unless given
    way: Literal["graph-and-head", "label-spreading", "harmonic", "poisson"] = "graph-and-head"  # of spreading
    column: Annotated[str | None, Word("NAME")] = None  # of the tables, that holds the labels; label unless given
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # .csv, or .parquet with every class's probability;
    # spread-NAME.csv unless given
    sheet: Annotated[Path | None, Word("FILE")] = None  # a contact sheet of the surest and least sure of each class
    engine: Literal["auto", "exact", "faiss"] = "auto"  # of the graph: exact, faiss (approximate, and says how many
    # neighbours it finds), or by the number of pictures
    overwrite: bool = False  # replace files that are there already
    as_json: AsJson = False  # print the labels as JSON, and write nothing unless -o says so


def run(options: Options, output: Output) -> None:
    from eigenview.cli import embedded
    from eigenview.labels.label_files import read_labels
    from eigenview.labels.sheets import keep_suggestions
    from eigenview.labels.suggesting import head_beside, spread_labels

    embedded.checked_places(options.out, options.sheet, overwrite=options.overwrite, has_head=True)
    sizes = _sizes(options.sizes)
    stored, opened = embedded.open_or_embed(options.place, options.source, options, output)
    given = read_labels(options.labels, stored, column=options.column)
    output.say(str(given))
    source = embedded.open_pictures_of(options.place, options.source)
    embedded.say_graph(output, stored, options.engine)
    spread = spread_labels(stored, given, sizes=sizes, way=options.way, certain=options.certain, engine=options.engine)
    embedded.say_recall(output, spread.recall)
    output.result(suggestions_json(spread))
    out = embedded.table_place(options.out, "spread", stored, writes=not options.as_json)
    kept = embedded.report_folder(options, options.place, options.source, opened, writes=out is not None)
    if kept is not None:
        keep_suggestions(kept, spread, source)
    if out is not None:
        embedded.say_labels(spread, spread.write(out, overwrite=options.overwrite), output)
        head = spread.labeller.save(head_beside(out), overwrite=options.overwrite)
        output.say(f"{head}: labels later pictures (eigenview predict {head} RUN --source SOURCE)", style="dim")
    if options.sheet is not None:
        spread.sheet(options.sheet, source=source, overwrite=options.overwrite)
        output.say(f"to look at: {options.sheet}")


def suggestions_json(spread: Suggestions) -> JSON:
    probabilities = spread.probability.tolist()
    rows = zip(spread.stored.paths, spread.labels, probabilities, spread.given.tolist(), strict=True)
    labels: list[JSON] = [
        {"name": name, "label": label, "probability": round(probability, 6), "given": is_given}
        for name, label, probability, is_given in rows
    ]
    return {"classes": list(spread.classes), "labels": labels}


def _sizes(words: tuple[str, ...]) -> dict[str, float] | None:
    sizes: dict[str, float] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        try:
            sizes[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise SettingError(f"--sizes takes CLASS=NUMBER, such as cat=300; got {word!r}")
    return sizes or None
