"""Embeddings as the verbs want them: made with progress, or from a file, from a run, from a run's images."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenview.cli.run_options import RunOptions, open_with, say_wait
from eigenview.progress import progress_bar

if TYPE_CHECKING:
    from eigenview.cli.output import Output
    from eigenview.runs import TrainedRun
    from eigenview.search import Embedded, Embeddings


def embed_shown(run: TrainedRun, spec: str, out: Path | None, output: Output, **options: Any) -> Embedded:
    """``embed`` with progress; after the first images it says how long all will take."""
    from eigenview.search import embed

    start, done = time.monotonic(), 0
    advance: Callable[[int], None] | None = None
    with ExitStack() as stack:

        def told(now: int, total: int | None) -> None:
            nonlocal done, advance
            if advance is None:
                if total is not None and now:
                    say_wait(output, f"{total:,} images", (time.monotonic() - start) * (total - now) / now)
                advance = stack.enter_context(progress_bar("embedding", total=total))
            advance(now - done)
            done = now

        return embed(run, spec, out, progress=told, **options)


def open_or_embed(
    place: Path, source: str | None, options: RunOptions, output: Output
) -> tuple[Embeddings, TrainedRun | None]:
    """The embeddings at ``place``, and the run there if it is one.

    A run without any embeds ``source``, or what it was trained on, first.
    """
    from eigenview.search import open_embeddings

    if not place.is_dir():
        return open_embeddings(place), None
    run = open_with(options, place, output)
    has_some = any((place / name).is_file() for name in ("embeddings.parquet", "embeddings.npy"))
    if source is not None or not has_some:
        spec = source or run.directory.config.source
        output.say(f"embedding {spec} (once; what is there already is kept)", style="dim")
        embed_shown(run, spec, None, output, network=source is not None)  # no address of a run's settings is fetched
    return open_embeddings(place), run
