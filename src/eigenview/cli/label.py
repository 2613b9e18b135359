"""A page to label pictures on, in the browser of this machine: a few by hand, the others by what is alike.

It asks the pictures that tell most. After every answer the labels spread over the whole folder; review shows what is
least sure. Answers are kept in FILE.labelling beside the embeddings, each on disk before the page says so; the same
command goes on from there. Exports go into new folders of labels-NAME. Over SSH: --port 8000 --no-browser, and
ssh -L 8000:127.0.0.1:8000 from where the browser is.

Examples:
  eigenview label photos/
  eigenview label photos/ --encoder timm:vit_small_patch14_dinov2.lvd142m
  eigenview label runs/photos --port 8000 --no-browser
  eigenview label dinov2.npz --source photos/ --labels labels.csv
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from eigenview.cli.options import Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, EncoderOptions, RunOptions
from eigenview.errors import SettingError

if TYPE_CHECKING:
    from eigenview.app.lists import Words
    from eigenview.data import Source
    from eigenview.runs import OpenedRun
    from eigenview.search import Embeddings


class Options(EncoderOptions):
    place: Annotated[str, positional("SOURCE|RUN|FILE")]  # pictures, a run directory, or embeddings as .parquet, .npy
    # or .npz
    encoder: Annotated[str | None, Word("ENCODER|RUN")] = None  # of pictures: by name, or a run directory; the best
    # pretrained one at hand unless given
    source: Annotated[str | None, Word("SOURCE")] = None  # of a run: other pictures than its own; of a file: the
    # pictures behind it, where its names do not find them
    labels: Annotated[tuple[Path, ...], Word("FILE ...")] = ()  # labels that are there already, to be corrected:
    # tables with name and label
    audit: bool = False  # begin with the labels that the pictures have: of class folders, or of a table
    classes: Annotated[tuple[str, ...], Word("CLASS ...")] = ()  # that are offered from the start; others by typing
    session: Annotated[Path | None, Word("DIR")] = None  # where answers are kept; FILE.labelling unless given
    out: Annotated[Path | None, Word("DIR", "-o")] = None  # where exports go, each a new folder; labels-NAME unless
    # given
    port: int = Field(0, ge=0, le=65535)  # of this machine; 0: any that is free
    browser: bool = True  # open it there
    seed: int = Field(0, ge=0)  # of all that is drawn


def run(options: Options, output: Output) -> None:
    gc.disable()  # what a start imports and reads stays: to look for garbage in it takes 0.4 s
    from eigenview.extras import extra_module

    extra_module("starlette", extra="app", purpose="the labelling page")
    extra_module("uvicorn", extra="app", purpose="the labelling page")
    from eigenview.app.serving import opened_page, serve_page
    from eigenview.cli.embedded import say_graph
    from eigenview.labels import own_labels, read_labels

    stored, opened, source = _pictures(options, output)
    existing = None
    if options.labels and options.audit:
        raise SettingError("labels come from files (--labels) or from the pictures (--audit), not from both")
    if options.labels or options.audit:
        existing = read_labels(options.labels, stored) if options.labels else own_labels(stored)
        output.say(f"there already: {existing}")
    words = _words(options, opened, stored, output)
    say_graph(output, stored)
    with opened_page(
        stored,
        folder=options.session,
        out=None if options.out is None else options.out.absolute(),
        existing=existing,
        classes=options.classes,
        seed=options.seed,
        source=source,
        words=words,
    ) as page:
        gc.freeze()  # nor is it looked through later, beside the first request
        gc.enable()
        done = len(page.session.standing.said)
        output.say(f"answers are kept in {page.session.folder}" + (f" ({done:,} so far)" if done else ""))
        if page.session.lost:
            output.say(f"{page.session.lost:,} answers are of pictures that are gone", style="yellow")
        serve_page(
            page,
            port=options.port,
            opens_browser=options.browser,
            told=lambda address: output.say(f"the page: {address}\nCtrl-C ends it; every answer is kept"),
        )


def _pictures(options: Options, output: Output) -> tuple[Embeddings, OpenedRun | None, Source | None]:
    """The embeddings, made first where there are none; the run, if there is one; the pictures behind a bare file."""
    from eigenview.cli.embedded import embed_shown, holds_vectors, open_or_embed
    from eigenview.cli.run_options import open_named
    from eigenview.runs import best_encoder, is_run
    from eigenview.search import open_embeddings, open_pictures
    from eigenview.search.makers import anchored

    place = Path(options.place)
    if place.suffix in VECTORS and (place.suffix != ".parquet" or not place.is_file() or holds_vectors(place)):
        pictures = None if options.source is None else open_pictures(options.source)
        return open_embeddings(place, is_late=True), None, pictures
    if is_run(options.place):
        if options.encoder is not None:
            raise SettingError(f"{options.place} is a run, and brings its encoder; leave --encoder out")
        kept = RunOptions.model_validate({name: getattr(options, name) for name in EncoderOptions.model_fields})
        return *open_or_embed(place, options.source, kept, output, is_late=True), None
    if options.source is not None:
        raise SettingError(f"--source is for a run or a file of vectors; {options.place} are the pictures themselves")
    name = options.encoder
    if name is None:
        name, why = best_encoder()
        output.say(f"encoder {name}: {why}")
    source = open_pictures(options.place)
    output.say(str(source.describe()))
    opened = open_named(options, name, output, options.place, source)
    written = embed_shown(opened, source, None, output, spec=anchored(options.place))
    return open_embeddings(written.path, is_late=True), opened, source


def _words(options: Options, opened: OpenedRun | None, stored: Embeddings, output: Output) -> Words | None:
    """Search by text, where the run learnt from captions."""
    from eigenview.app.serving import knows_words, words_of
    from eigenview.cli.embedded import embed_shown
    from eigenview.search import open_embeddings

    if opened is None or not knows_words(opened):
        return None
    spec = options.source or opened.directory.source
    place = opened.directory.projections
    embed_shown(opened, spec, place, output, layer="projection", network=options.source is not None)
    return words_of(opened, open_embeddings(place), stored)
