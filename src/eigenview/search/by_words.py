"""Words that find images: the images of a source embedded once beside words, then searched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eigenview.batches import PROJECTION
from eigenview.data import Source, open_source
from eigenview.runs import OpenedRun
from eigenview.search.embedding import Progress, embed
from eigenview.search.neighbour_search import Answer, Engine, text_neighbours
from eigenview.search.stored import Embeddings, open_embeddings

PROJECTIONS = "projections.parquet"  # of a run: where images lie beside words


def find_by_words(
    run: OpenedRun,
    texts: str | Sequence[str],
    source: str | Path | Source | None = None,
    *,
    k: int = 10,
    engine: Engine = "exact",
    progress: Progress | None = None,
) -> tuple[Embeddings, tuple[Answer, ...]]:
    """The ``k`` nearest images of ``source`` to each text, with their captions, and the embeddings that were searched.

    The images are those of the run's training unless others are given; an address in its settings is not fetched. They
    are embedded once, in ``RUN/projections.parquet``.
    """
    run.needed_text()
    given = run.directory.source if source is None else source
    place, is_named = run.folder / PROJECTIONS, source is not None
    embed(run, given, place, layer=PROJECTION, network=is_named, progress=progress)
    images = given if isinstance(given, Source) else open_source(given, network=is_named)
    stored, captioned = open_embeddings(place), images if isinstance(images, Source) else None
    return stored, text_neighbours(stored, texts, run=run, k=k, engine=engine, source=captioned)
