"""A vector for every image, as Parquet (index, path, label, vector) or .npy; streaming, and it goes on after a stop.

Several processes share the work: torchrun --nproc-per-node 4 -m eigenview embed RUN SOURCE -o out.parquet

Examples:
  eigenview embed runs/photos photos/ -o photos.parquet
  eigenview embed efficientnet-lite0 photos/ -o photos.parquet
  eigenview embed runs/photos 's-{000..099}.tar' -o photos.npy
"""

from functools import cache, partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import JSON, Output
from eigenview.cli.run_options import RunOptions, open_with


class Options(RunOptions):
    run: Annotated[Path, positional("RUN|ENCODER")]  # a run directory, or an encoder by name
    source: Annotated[str, positional("SOURCE")]  # the images
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # .parquet or .npy; RUN/embeddings.parquet unless given
    layer: str = "pooled"  # of the encoder
    batch_size: int = Field(256, ge=1)  # images at a time
    anew: bool = False  # forget what an earlier call left unfinished
    overwrite: bool = False  # replace a file that is there already and holds no embeddings made here
    as_json: AsJson = False  # print what was written as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.cli.embedded import shown_embedding
    from eigenview.data import open_source
    from eigenview.search import embed
    from eigenview.search.makers import anchored

    opening = cache(partial(open_source, options.source))
    run = open_with(options, options.run, output, options.source, opening)
    with shown_embedding(output) as progress:
        written = embed(
            run,
            opening(),
            options.out,
            layer=options.layer,
            batch_size=options.batch_size,
            resume=not options.anew,
            overwrite=options.overwrite,
            progress=progress,
            spec=anchored(options.source),
        )
    left_out: list[JSON] = [{"name": failure.name, "reason": failure.reason} for failure in written.unreadable]
    output.result({"path": str(written.path), "rows": written.rows, "width": written.width, "unreadable": left_out})
    if not options.as_json:
        output.say(f"{written.path}: {written.rows:,} vectors of {written.width} numbers")
        for failure in written.unreadable[:5]:
            output.say(f"  left out: {failure.name} ({failure.reason})", style="yellow")
        if len(written.unreadable) > 5:
            output.say(f"  and {len(written.unreadable) - 5:,} more", style="yellow")
