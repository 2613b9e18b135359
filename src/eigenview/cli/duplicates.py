"""Near-identical images by their vectors, as sets, with a contact sheet to look at before anything is deleted.

Examples:
  eigenview duplicates runs/photos
  eigenview duplicates photos.parquet --cosine 0.98 -o twins.png
  eigenview duplicates photos.parquet --json > twins.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from eigenview.cli.options import AsJson, Word, parse, positional
from eigenview.cli.output import Output
from eigenview.settings import Strict

SHOWN = 10  # sets in the terminal


class Options(Strict):
    place: Annotated[Path, positional("RUN|FILE")]  # a run directory, or embeddings as .parquet or .npy
    source: Annotated[str | None, Word("SOURCE")] = None  # images to search in, where they are not embedded yet
    cosine: Annotated[float | None, Word("X")] = None  # how alike is near-identical; the library's threshold unless
    # given
    out: Annotated[Path, Word("FILE", "-o")] = Path("duplicates.png")  # the contact sheet
    as_json: AsJson = False  # print the sets as JSON, and draw nothing


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="duplicates", about=__doc__)
    from eigenview.cli.embedded import open_or_embed
    from eigenview.search import duplicates, duplicates_sheet

    output = Output(as_json=options.as_json)
    stored = open_or_embed(options.place, options.source, output)
    found = duplicates(stored) if options.cosine is None else duplicates(stored, cosine=options.cosine)
    output.result(json.loads(found.to_json()))
    if options.as_json:
        return
    output.say(
        f"{len(found.sets):,} sets of near-identical images (cosine {found.threshold:g} or more) among "
        f"{found.images:,}; {found.surplus:,} could go if one of each stayed"
    )
    for one in found.sets[:SHOWN]:
        output.say(f"  {one.highest:.4f}  {'  =  '.join(member.path for member in one.members[:4])}")
    if not found.is_complete:
        output.say("there are more pairs than were listed; raise --cosine", style="yellow")
    if found.sets:
        output.say(f"to look at: {duplicates_sheet(found, stored, options.out)}")
