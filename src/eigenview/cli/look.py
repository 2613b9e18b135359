"""A folder looked at, without training and without labels: one page with a map, groups, copies and odd ones out.

The pictures are embedded with a pretrained encoder, the representation is diagnosed, copies are confirmed on their
pixels, and everything is kept in runs/SOURCE-ENCODER: embeddings.parquet for neighbours and duplicates, report.html to
look at. The same command goes on where it was stopped.

Examples:
  eigenview look photos/
  eigenview look photos/ --encoder timm:vit_small_patch14_dinov2.lvd142m
  eigenview look tiles.parquet --encoder runs/tiles --keep-in looks/tiles
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import EncoderOptions, open_named, say_wait, seconds_an_image
from eigenview.names import counted

if TYPE_CHECKING:
    from eigenview.data import Source
    from eigenview.runs import OpenedRun
    from eigenview.search.looking import Looked


class Options(EncoderOptions):
    source: Annotated[str, positional("SOURCE")]  # the images
    encoder: Annotated[str | None, Word("ENCODER|RUN")] = None  # by name, or a run directory; the best pretrained one
    # at hand unless given
    seed: int = Field(0, ge=0)  # of all that is drawn
    as_json: AsJson = False  # print what was found as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.data import open_images
    from eigenview.report import write_report
    from eigenview.runs import best_encoder

    name = options.encoder
    if name is None:
        name, why = best_encoder()
        output.say(f"encoder {name}: {why}")
    source = open_images(options.source, needs_index=True)
    output.say(str(source.describe()))
    opened = open_named(options, name, output, options.source, source)
    looked = look_shown(opened, source, options.source, output, seed=options.seed)
    page = write_report([opened.folder])
    output.result(
        {
            "run": str(opened.folder),
            "report": str(page),
            "embeddings": str(looked.embeddings.place),
            "images": len(looked.embeddings),
            "verdict": looked.diagnosis.verdict,
            "copies": looked.copies.copies,
            "unreadable": [failure.name for failure in looked.unreadable],
        }
    )
    if options.as_json:
        return
    output.say(f"verdict: {looked.diagnosis.verdict}")
    for line in looked.copies.lines():
        output.say(line)
    output.say("like no others: " + ", ".join(looked.embeddings.paths[int(row)] for row in looked.outliers[:3]))
    for failure in looked.unreadable[:5]:
        output.say(f"left out: {failure.name} ({failure.reason})", style="yellow")
    output.say(f"to look at: {page} ({page.stat().st_size / 1e6:.1f} MB); open it in any browser")


def look_shown(opened: OpenedRun, source: Source, spec: str, output: Output, *, seed: int = 0) -> Looked:
    """``look`` with progress, and said beforehand about how long it will take."""
    from eigenview.cli.embedded import shown_embedding
    from eigenview.search.candidates import reading_seconds, search_seconds
    from eigenview.search.looking import look, passes
    from eigenview.search.makers import anchored

    images = passes(len(source))
    seconds = images * seconds_an_image(opened, source) + reading_seconds(source.image, len(source))
    seconds += 2 * search_seconds(len(source), opened.encoder.feature_width)  # for copies, and for odd ones out
    say_wait(output, f"{counted(len(source), 'image')}, {images:,} views in all", seconds)
    with shown_embedding(output) as progress:
        return look(opened, source, spec=anchored(spec), seed=seed, progress=progress, told=output.say)
