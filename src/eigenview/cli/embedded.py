"""Embeddings as the verbs want them, and what those that use them share: tables, pictures, how long a graph takes."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, RunOptions, open_with, say_wait, vectors_folder
from eigenview.data import Source
from eigenview.data.rowgroups import read_schema
from eigenview.files import free_path
from eigenview.labels.graph import GraphEngine, graph_seconds
from eigenview.labels.label_files import check_place
from eigenview.labels.suggesting import HEAD, Suggestions, head_beside
from eigenview.progress import progress_bar
from eigenview.runs import EMBEDDINGS, OpenedRun
from eigenview.search import Embeddings, embed, open_embeddings, open_pictures
from eigenview.search.approximate import Recall
from eigenview.search.contact import plain_name_of
from eigenview.search.embedding import Embedded
from eigenview.search.formats import VECTOR_COLUMNS, column_of
from eigenview.search.places import place_beside
from eigenview.tensors import map_array


def embed_shown(run: OpenedRun, source: str | Source, out: Path | None, output: Output, **options: Any) -> Embedded:
    """``embed`` with progress; after the first images it says how long all will take."""
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

    A run embeds ``source`` first, or where nothing is embedded, what it was trained on. ``is_late``: vectors are read
    when asked for.
    """
    if given.suffix in VECTORS:
        return open_embeddings(given, is_late=is_late), None
    run = open_with(options, given, output, source)
    if source is None and run.directory.embeddings is not None:
        return open_embeddings(run.folder, is_late=is_late), run
    spec = source or run.directory.source
    file = embed_beside(run, spec, output, network=source is not None)  # no address of a run's settings is fetched
    return open_embeddings(file, is_late=is_late), run


def embed_beside(run: OpenedRun, source: str, output: Output, **options: Any) -> Path:
    """The file of the embeddings of any images, in the run's folder: of others than its own, under their own name."""
    file = place_beside(run, source)
    place = "" if file.name == EMBEDDINGS[0] else f" into {file}"
    output.say(f"embedding {source}{place} (once; what is there already is kept)", style="dim")
    return embed_shown(run, source, file, output, **options).path


def checked_places(out: Path | None, sheet: Path | None, *, overwrite: bool, has_head: bool = False) -> None:
    """Refuse before anything is computed what cannot be written."""
    if out is not None:
        check_place(out, overwrite=overwrite)
    if out is not None and has_head:
        check_place(head_beside(out), overwrite=overwrite, suffixes=(HEAD,))
    if sheet is not None:
        check_place(sheet, overwrite=overwrite, suffixes=(".png",))


def table_place(out: Path | None, verb: str, stored: Embeddings, *, writes: bool) -> Path | None:
    """Where a verb's table goes: there, or ``VERB-NAME.csv``, with no head of before beside it; None: nowhere."""
    if out is not None or not writes:
        return out
    return free_path(
        f"{verb}-{plain_name_of(stored)}",
        ".csv",
        is_free=lambda place: not any(map(os.path.lexists, (place, head_beside(place)))),
    )


def report_folder(
    options: RunOptions, place: Path, source: str | None, opened: OpenedRun | None, *, writes: bool
) -> Path | None:
    """Where the report looks for what was said of labels: in the run, or in ``runs/FILE`` of vectors; None: nowhere."""
    if opened is not None:
        return opened.folder
    return vectors_folder(options, place, source).folder if writes or options.keep_in is not None else None


def say_graph(output: Output, stored: Embeddings, engine: GraphEngine = "auto") -> None:
    """How long the graph will take, where it is not kept yet."""
    seconds = graph_seconds(stored, engine=engine)
    what = f"the graph of {len(stored):,} images (once; it is kept)"
    if seconds is None:
        why = "as asked" if engine == "faiss" else "an exact one would take too long"
        output.say(f"{what} is sought approximately, by faiss: {why}")
    else:
        say_wait(output, what, seconds)


def say_recall(output: Output, recall: Recall | None) -> None:
    """How many neighbours an approximate graph knows."""
    if recall is not None:
        output.say(str(recall), style="yellow")


def holds_vectors(file: Path) -> bool:
    """Or images: both come as Parquet and as arrays."""
    if file.suffix == ".parquet":
        return column_of(VECTOR_COLUMNS, read_schema(file).names) is not None
    return file.suffix == ".npz" or map_array(file).ndim == 2


def open_pictures_of(place: Path, source: str | None) -> Source | None:
    """The pictures behind a file of vectors; those of a run are found by their names."""
    return None if source is None or place.suffix not in VECTORS else open_pictures(source)


def say_labels(answers: Suggestions, out: Path, output: Output) -> None:
    """What was written, and how many pictures each class has."""
    said = int((answers.numbers >= 0).sum())
    left = len(answers.stored) - said
    output.say(
        f"{out}: {said:,} labels" + (f"; {left:,} left empty, less sure than {answers.certain:g}" if left else "")
    )
    for number, name in enumerate(answers.classes):
        chosen = answers.numbers == number
        if bool(chosen.any()):
            output.say(f"  {name}: {int(chosen.sum()):,}, probability {float(answers.probability[chosen].mean()):.2f}")
