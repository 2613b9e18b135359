"""Copies of one picture: sought by their vectors, confirmed on their pixels, with a contact sheet to look at.

Examples:
  eigenview duplicates runs/photos
  eigenview duplicates photos.parquet --cosine 0.98 -o twins.png
  eigenview duplicates photos.parquet --json > twins.json
"""

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import RunOptions, say_wait


class Options(RunOptions):
    place: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name (with
    # --source), or embeddings as .parquet, .npy or .npz
    source: Annotated[str | None, Word("SOURCE")] = None  # images to search in, where they are not embedded yet;
    # of a file of vectors, the pictures they were made of
    neighbours: Annotated[int, Word("K")] = Field(5, ge=0)  # each image is compared with so many, however alike
    cosine: Annotated[float | None, Word("X")] = None  # and with all that are as alike as this; the library's threshold
    # unless given
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # the contact sheet; duplicates-NAME.png unless given
    as_json: AsJson = False  # print the sets as JSON, and draw nothing


def run(options: Options, output: Output) -> None:
    from eigenview.cli.embedded import open_or_embed, open_pictures_of
    from eigenview.diagnostics.neighbours import COSINE
    from eigenview.search import duplicates, duplicates_sheet
    from eigenview.search.candidates import reading_seconds, search_seconds
    from eigenview.search.pictures import Pictures

    stored, _ = open_or_embed(options.place, options.source, options, output)
    pictures = open_pictures_of(options.place, options.source)
    seconds = reading_seconds(Pictures(stored, pictures).image, len(stored))
    seconds += search_seconds(len(stored), stored.width)
    say_wait(output, f"{len(stored):,} images, each with those like it", seconds)
    cosine = COSINE if options.cosine is None else options.cosine
    copies = duplicates(stored, cosine=cosine, neighbours=options.neighbours, source=pictures)
    output.result(json.loads(copies.to_json()))
    if options.as_json:
        return
    for line in copies.lines():
        output.say(line)
    if copies.sets:
        output.say(f"to look at: {duplicates_sheet(copies, stored, options.out, source=pictures)}")
