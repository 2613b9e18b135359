"""Words that find images, images that find words: a source embedded once beside words, then searched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eigenview.batches import PROJECTION, AnySource
from eigenview.data import Source, open_source
from eigenview.errors import DataError
from eigenview.runs import OpenedRun
from eigenview.search.embedding import Progress, embed
from eigenview.search.neighbour_search import Answer, Engine, Query, caption_neighbours, text_neighbours
from eigenview.search.stored import Embeddings, open_embeddings


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
    stored, images = _beside_words(run, source, progress)
    captioned = images if isinstance(images, Source) else None
    return stored, text_neighbours(stored, texts, run=run, k=k, engine=engine, source=captioned)


def find_captions(
    run: OpenedRun,
    pictures: Query | Sequence[Query],
    source: str | Path | Source | None = None,
    *,
    k: int = 10,
    progress: Progress | None = None,
) -> tuple[Embeddings, tuple[Answer, ...]]:
    """The ``k`` captions of ``source`` nearest to each picture, and its embeddings; the other way as above."""
    stored, images = _beside_words(run, source, progress)
    if not isinstance(images, Source):
        raise DataError("a stream of images has no captions to look through; give a table or a list (--source)")
    return stored, caption_neighbours(stored, pictures, run=run, source=images, k=k)


def _beside_words(
    run: OpenedRun, source: str | Path | Source | None, progress: Progress | None
) -> tuple[Embeddings, AnySource]:
    run.needed_text()
    given = run.directory.source if source is None else source
    place, is_named = run.directory.projections, source is not None
    embed(run, given, place, layer=PROJECTION, network=is_named, progress=progress)
    images = given if isinstance(given, Source) else open_source(given, network=is_named)
    return open_embeddings(place), images
