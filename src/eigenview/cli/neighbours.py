"""The images most like a picture, or those that words describe, with a contact sheet to look at.

RUN|FILE is a file that embed wrote, or a run: without embeddings it makes them first, of --source or of the images it
was trained on. QUERY is a picture's file, or the index of an item; --text and --captions want a run that learnt from
captions.

Examples:
  eigenview neighbours runs/photos photos/cat.jpg
  eigenview neighbours photos.parquet new.jpg other.jpg -k 20 -o alike.png
  eigenview neighbours photos.parquet 17 --json
  eigenview neighbours runs/captions --text 'two dogs on a beach' --source photos/
  eigenview neighbours runs/captions new.jpg --captions
"""

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, RunOptions, open_with
from eigenview.errors import SettingError
from eigenview.names import printable

LONG = 60.0  # seconds from which a search is announced


class Options(RunOptions):
    place: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name (with
    # --source), or embeddings as .parquet, .npy or .npz
    query: Annotated[tuple[str, ...], positional("[QUERY ...]")] = ()  # pictures, or indices of items
    text: Annotated[tuple[str, ...], Word("WORDS ...", holds_commas=True)] = ()  # what is on the images to be found,
    # each in quotes
    captions: bool = False  # find what describes the pictures: captions of the source, not images
    source: Annotated[str | None, Word("SOURCE")] = None  # images to search in, where they are not embedded yet; the
    # pictures behind a file of embeddings, where it does not say
    run: Annotated[Path | None, Word("RUN")] = None  # whose encoder sees the pictures, where a file of embeddings does
    # not know its run
    k: Annotated[int, Word("N", "-k")] = Field(10, ge=1)  # neighbours of each picture
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # the contact sheet; neighbours-QUERY.png unless given
    engine: Literal["exact", "faiss"] = "exact"  # of the search: faiss is approximate, and says how many it finds
    as_json: AsJson = False  # print the neighbours as JSON, and draw nothing


def run(options: Options, output: Output) -> None:
    from eigenview.cli.embedded import open_or_embed, open_pictures_of, shown_embedding
    from eigenview.progress import about
    from eigenview.search import answers_json, contact_sheet, find_by_words, find_captions, neighbours
    from eigenview.search.neighbour_search import exact_seconds

    if bool(options.query) == bool(options.text):
        raise SettingError(
            "what to look for is missing, or there twice: name a picture (QUERY), or give words (--text)"
        )
    if options.captions and (options.text or options.engine != "exact"):
        raise SettingError("captions are found for pictures (QUERY), by exact search: leave --text and --engine out")
    queries = [int(word) if word.isdecimal() and not Path(word).exists() else word for word in options.query]
    if options.text or options.captions:
        if options.place.suffix in VECTORS or options.run is not None:
            raise SettingError("words are known to a run that learnt from captions: name its folder, and no file")
        run = open_with(options, options.place, output, options.source)
        run.needed_text()
        spec, k = options.source or run.directory.source, options.k
        output.say(f"embedding {spec} (once; what is there already is kept)", style="dim")
        with shown_embedding(output) as progress:
            stored, answers = (
                find_captions(run, queries, options.source, k=k, progress=progress)
                if options.captions
                else find_by_words(run, options.text, options.source, k=k, engine=options.engine, progress=progress)
            )
    else:
        stored, opened = open_or_embed(options.place, options.source, options, output)
        maker = opened if options.run is None else open_with(options, options.run, output)
        if options.engine == "exact" and (seconds := exact_seconds(stored, len(queries))) > LONG:
            output.say(f"exact search takes {about(seconds)}; --engine faiss is approximate", style="dim")
        answers = neighbours(stored, queries, k=options.k, run=maker, engine=options.engine)
    output.result(json.loads(answers_json(answers)))
    if options.as_json:
        return
    for answer in answers:
        output.say(answer.query, style="bold")
        for near in answer.neighbours:
            told = near.caption if near.caption is not None else near.label
            output.say(f"  {near.cosine:.4f}  {near.path}" + ("" if told is None else f"  ({printable(told)})"))
    if answers and (recall := answers[0].recall) is not None:
        output.say(str(recall), style="yellow")
    pictures = open_pictures_of(options.place, options.source)
    output.say(f"to look at: {contact_sheet(answers, stored, options.out, source=pictures)}")
