"""Copies of one picture: sought by their vectors, confirmed on their pixels, with a contact sheet to look at.

Examples:
  eigenview duplicates runs/photos
  eigenview duplicates photos.parquet --cosine 0.98 -o twins.png
  eigenview duplicates photos.parquet --json > twins.json
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, RunOptions, say_wait

if TYPE_CHECKING:
    from torch import Tensor

TRIED = 4000  # vectors that are compared with each other to tell how long all will take


class Options(RunOptions):
    place: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name (with
    # --source), or embeddings as .parquet, .npy or .npz
    source: Annotated[str | None, Word("SOURCE")] = None  # images to search in, where they are not embedded yet;
    # of a file of vectors, the pictures they were made of
    cosine: Annotated[float | None, Word("X")] = None  # how alike is near-identical; the library's threshold unless
    # given
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # the contact sheet; duplicates-NAME.png unless given
    as_json: AsJson = False  # print the sets as JSON, and draw nothing


def run(options: Options, output: Output) -> None:
    from eigenview.cli.embedded import open_or_embed
    from eigenview.diagnostics.duplicates import COSINE
    from eigenview.search import duplicates, duplicates_sheet, open_pictures

    stored, _ = open_or_embed(options.place, options.source, options, output)
    pictures = None if options.source is None or options.place.suffix not in VECTORS else open_pictures(options.source)
    say_wait(output, f"{len(stored):,} vectors, each with each", _seconds(stored.vectors))
    copies = duplicates(stored, cosine=COSINE if options.cosine is None else options.cosine, source=pictures)
    output.result(json.loads(copies.to_json()))
    if options.as_json:
        return
    for line in copies.lines():
        output.say(line)
    if copies.sets:
        output.say(f"to look at: {duplicates_sheet(copies, stored, options.out, source=pictures)}")


def _seconds(vectors: Tensor) -> float:
    """To find the pairs, by the time that some take; their pictures show progress of their own."""
    from eigenview.diagnostics import near_duplicates

    if len(vectors) <= TRIED:
        return 0.0
    start = time.monotonic()
    near_duplicates(vectors[:TRIED])
    return float((time.monotonic() - start) * (len(vectors) / TRIED) ** 2)
