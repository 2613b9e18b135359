"""Embeddings as the verbs want them: made with progress, or from a file, from a run, from a run's images."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenview.cli.run_options import VECTORS, RunOptions, open_with, say_wait
from eigenview.progress import progress_bar

if TYPE_CHECKING:
    from eigenview.cli.output import Output
    from eigenview.data import Source
    from eigenview.runs import OpenedRun
    from eigenview.search import Embedded, Embeddings


def embed_shown(run: OpenedRun, source: str | Source, out: Path | None, output: Output, **options: Any) -> Embedded:
    """``embed`` with progress; after the first images it says how long all will take."""
    from eigenview.search import embed

    with shown_embedding(output) as progress:
        return embed(run, source, out, progress=progress, **options)


@contextmanager
def shown_embedding(output: Output) -> Iterator[Callable[[int, int | None], None]]:
    """What shows how far ``embed`` is, and says after the first images how long all will take."""
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
            if now == total:
                stack.close()

        yield told


def open_or_embed(
    given: Path, source: str | None, options: RunOptions, output: Output, *, is_late: bool = False
) -> tuple[Embeddings, OpenedRun | None]:
    """The embeddings in a file, of a run, or of an encoder by name; and the run, if there is one.

    A run without any embeds ``source``, or what it was trained on, first. ``is_late``: vectors are read when asked for.
    """
    from eigenview.search import open_embeddings

    if given.suffix in VECTORS:
        return open_embeddings(given, is_late=is_late), None
    run = open_with(options, given, output, source)
    if source is not None or run.directory.embeddings is None:
        spec = source or run.directory.source
        output.say(f"embedding {spec} (once; what is there already is kept)", style="dim")
        embed_shown(run, spec, None, output, network=source is not None)  # no address of a run's settings is fetched
    return open_embeddings(run.folder, is_late=is_late), run


def embed_beside(run: OpenedRun, source: str, output: Output) -> Embeddings:
    """The embeddings of any images, kept in the run's folder: of others than its own, under a name of their own."""
    from eigenview.runs import folder_for
    from eigenview.search import open_embeddings
    from eigenview.search.about import anchored

    is_own = anchored(source) == anchored(run.directory.source)
    out = None if is_own else run.folder / f"embeddings-{folder_for('', source).name}.parquet"
    output.say(f"embedding {source} (once; what is there already is kept)", style="dim")
    return open_embeddings(embed_shown(run, source, out, output).path)
