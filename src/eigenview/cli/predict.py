"""The labels of later pictures, by the head that spread kept: no label file, no graph, only the encoder.

Writes one line a picture, as spread does: name, label, probability, given (always no). The vectors must be of the
encoder that the head was made with.

Examples:
  eigenview predict labels.head.safetensors runs/photos --source new-photos/ -o new.csv
  eigenview predict labels.head.safetensors new-photos.parquet --certain 0.9
  eigenview export runs/photos --to onnx --head labels.head.safetensors -o what-is-it.onnx
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, RunOptions, open_with
from eigenview.errors import SettingError


class Options(RunOptions):
    head: Annotated[Path, positional("HEAD")]  # what spread wrote beside the labels: OUT.head.safetensors
    place: Annotated[Path, positional("RUN|ENCODER|FILE")]  # whose encoder sees --source, or embeddings of the
    # later pictures as .parquet, .npy or .npz
    source: Annotated[str | None, Word("SOURCE")] = None  # the later pictures, where they are not embedded yet;
    # of a file of vectors, those they were made of
    certain: Annotated[float, Word("P")] = Field(0.0, ge=0, le=1)  # no label where its probability is below
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # .csv, or .parquet with every class's probability;
    # predict-NAME.csv unless given
    sheet: Annotated[Path | None, Word("FILE")] = None  # a contact sheet of the surest and least sure of each class
    overwrite: bool = False  # replace files that are there already
    as_json: AsJson = False  # print the labels as JSON, and write nothing unless -o says so


def run(options: Options, output: Output) -> None:
    from eigenview.cli.embedded import checked_places, embed_beside, open_pictures_of, say_labels, table_place
    from eigenview.cli.spread import suggestions_json
    from eigenview.labels.suggesting import read_labeller
    from eigenview.search import open_embeddings

    checked_places(options.out, options.sheet, overwrite=options.overwrite)
    labeller = read_labeller(options.head)
    if options.place.suffix in VECTORS:
        stored = open_embeddings(options.place)
    elif options.source is None:
        raise SettingError("which pictures? Give them as --source, or embeddings of them in the place of the encoder")
    else:
        run = open_with(options, options.place, output, options.source)
        stored = open_embeddings(embed_beside(run, options.source, output))
    answers = labeller.predict(stored, certain=options.certain)
    output.result(suggestions_json(answers))
    out = table_place(options.out, "predict", stored, writes=not options.as_json)
    if out is not None:
        say_labels(answers, answers.write(out, overwrite=options.overwrite), output)
    if options.sheet is not None:
        source = open_pictures_of(options.place, options.source)
        answers.sheet(options.sheet, source=source, overwrite=options.overwrite)
        output.say(f"to look at: {options.sheet}")
