"""A vector for every image, as Parquet (index, path, label, vector) or .npy; streaming, and it goes on after a stop.

Several processes share the work: torchrun --nproc-per-node 4 -m eigenview embed RUN SOURCE -o out.parquet

Examples:
  eigenview embed runs/photos photos/ -o photos.parquet
  eigenview embed runs/photos 's-{000..099}.tar' -o photos.npy
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, parse, positional
from eigenview.cli.output import JSON, Output
from eigenview.settings import Strict


class Options(Strict):
    run: Annotated[Path, positional("RUN")]  # a run directory
    source: Annotated[str, positional("SOURCE")]  # the images
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # .parquet or .npy; RUN/embeddings.parquet unless given
    layer: str = "pooled"  # of the encoder
    batch_size: int = Field(256, ge=1)  # images at a time
    anew: bool = False  # forget what an earlier call left unfinished
    as_json: AsJson = False  # print what was written as JSON


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="embed", about=__doc__)
    output = Output(as_json=options.as_json)
    embed_into(options, output)


def embed_into(options: Options, output: Output) -> Path:
    from eigenview.progress import progress_bar
    from eigenview.search import embed

    done = 0
    with progress_bar("embedding", total=None) as advance:

        def told(now: int, total: int | None) -> None:
            nonlocal done
            advance(now - done)
            done = now

        found = embed(
            options.run,
            options.source,
            options.out,
            layer=options.layer,
            batch_size=options.batch_size,
            resume=not options.anew,
            progress=told,
        )
    left_out: list[JSON] = [{"name": one.name, "reason": one.reason} for one in found.unreadable]
    output.result({"path": str(found.path), "rows": found.rows, "width": found.width, "unreadable": left_out})
    if not options.as_json:
        output.say(f"{found.path}: {found.rows:,} vectors of {found.width} numbers")
        for one in found.unreadable[:5]:
            output.say(f"  left out: {one.name} ({one.reason})", style="yellow")
        if len(found.unreadable) > 5:
            output.say(f"  and {len(found.unreadable) - 5:,} more", style="yellow")
    return found.path
