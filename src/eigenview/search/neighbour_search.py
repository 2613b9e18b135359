"""The nearest images to a picture or to words, and the nearest captions: exact, or by faiss where that is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from eigenview.batches import PROJECTION, AnySource, encode_source
from eigenview.data import Source, open_source
from eigenview.data.folder import FilesSource
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.evaluation.features import check_features
from eigenview.graph.nearest import Neighbours, nearest
from eigenview.names import Table, printable
from eigenview.runs import OpenedRun, open_run
from eigenview.search.approximate import Recall, approximate_nearest
from eigenview.search.embedding import Progress, embed
from eigenview.search.makers import AnyRun, Maker, maker_of
from eigenview.search.stored import Embeddings, open_embeddings
from eigenview.views import CentreView

Engine = Literal["exact", "faiss"]
Query = int | str | Path

ENGINES: Table[Callable[[Embeddings, Tensor, int], tuple[Neighbours, Recall | None]]] = Table(
    "engine",
    {"exact": lambda stored, vectors, k: (nearest(stored.vectors, vectors, k=k), None), "faiss": approximate_nearest},
)
READ_A_SECOND = 2e8  # numbers; both are of one slow core, from a disk
OPERATIONS_A_SECOND = 1e10


@dataclass(frozen=True)
class Neighbour:
    """One image found."""

    row: int  # in the embeddings
    index: int  # in the source
    path: str
    label: str | None
    cosine: float
    caption: str | None = None  # the first, where words look for images that have some; or the one that was found


@dataclass(frozen=True)
class Answer:
    """The neighbours of one query, nearest first."""

    query: str  # its path, or what else it is called
    row: int | None  # where it stands itself among the embeddings, if it does; it is no neighbour of itself
    label: str | None
    neighbours: tuple[Neighbour, ...]
    recall: Recall | None = None  # of an approximate search, as measured on the set itself; None: exact
    is_text: bool = False  # the query is words


def neighbours(
    embeddings: Embeddings | str | Path,
    queries: Tensor | Query | Sequence[Query],
    *,
    k: int = 10,
    run: AnyRun | None = None,
    view: CentreView | None = None,
    engine: Engine = "exact",
) -> tuple[Answer, ...]:
    """The ``k`` nearest images by cosine, for each query; fewer where there are not that many.

    ``embeddings`` is an open file, its path, or a run directory with one. A query is a picture's file (text or Path),
    the index of an item (a number), or a vector (a tensor (d,) or (q, d)). A file that was embedded itself is looked up
    by its path, or by the end of it; any other needs the encoder: that of ``run``, or of the run that the embeddings
    remember. Another encoder than theirs is refused.

    ``engine``: exact is a matrix product over all rows; faiss an inverted file, kept beside the embeddings for the next
    time. It is approximate, and building it takes longer than many exact searches: each answer says its recall.
    """
    stored = _opened(embeddings, k)
    if isinstance(queries, Tensor):
        rows = queries[None] if queries.ndim == 1 else queries
        check_features(rows, "query vectors")
        if rows.shape[1] != stored.width:
            raise ShapeError(
                f"query vectors need {stored.width} numbers, as those in {printable(stored.place)}; got {rows.shape[1]}"
            )
        asked = [_Asked(f"vector {number}", row.float(), None) for number, row in enumerate(rows.cpu())]
    else:
        asked = _asked(queries, stored, run, view)
    return _answers(asked, stored, k, engine)


def text_neighbours(
    embeddings: Embeddings | str | Path,
    texts: str | Sequence[str],
    *,
    run: str | Path | OpenedRun,
    k: int = 10,
    engine: Engine = "exact",
    source: Source | None = None,
) -> tuple[Answer, ...]:
    """The ``k`` nearest images to words, for each text, by a run that learnt from captions.

    ``embeddings`` are of its layer ``projection``, where images and words lie together; ``source``: the images that
    were embedded, whose own captions are told.
    """
    stored, opened = _opened(embeddings, k), run if isinstance(run, OpenedRun) else open_run(run)
    given = [texts] if isinstance(texts, str) else list(texts)
    words = [" ".join(text.split()) for text in given]
    if not words or not all(words):
        raise SettingError("no words were given to look for: write some, such as 'two dogs on a beach'")
    tower = opened.needed_text()
    _check_same_encoder(maker_of(opened, layer=PROJECTION), stored)
    asked = [_Asked(printable(text), vector, None) for text, vector in zip(words, tower.embed(words), strict=True)]
    answers = []
    for answer in _answers(asked, stored, k, engine):
        near = answer.neighbours
        if source is not None:
            near = tuple(replace(each, caption=next(iter(source.captions(each.index)), None)) for each in near)
        answers.append(replace(answer, neighbours=near, is_text=True))
    return tuple(answers)


def _opened(embeddings: Embeddings | str | Path, k: int) -> Embeddings:
    if isinstance(k, bool) or k < 1:
        raise SettingError(f"k must be at least 1; got {k}")
    return embeddings if isinstance(embeddings, Embeddings) else open_embeddings(embeddings)


def _answers(asked: Sequence[_Asked], stored: Embeddings, k: int, engine: Engine) -> tuple[Answer, ...]:
    vectors = torch.stack([query.vector for query in asked])
    wanted = min(len(stored), k + any(query.row is not None for query in asked))
    near, recall = ENGINES.find(engine)(stored, vectors, wanted)
    answers = []
    for query, rows, cosines in zip(asked, near.index.tolist(), near.similarity.tolist(), strict=True):
        others = [(row, cosine) for row, cosine in zip(rows, cosines, strict=True) if row not in (query.row, -1)]
        answers.append(_answer(stored, query, [_neighbour(stored, *other) for other in others[:k]], recall))
    return tuple(answers)


def answers_json(answers: Sequence[Answer]) -> str:
    """For scripts: a list of {query, row, label, neighbours: [{row, index, path, label, cosine, caption}], recall}."""
    return json.dumps([asdict(answer) for answer in answers], indent=1, ensure_ascii=False)


def exact_seconds(embeddings: Embeddings, queries: int) -> float:
    """About how long exact search takes, on the slow side: reading the vectors, and two operations a number."""
    numbers = len(embeddings) * embeddings.width
    return numbers / READ_A_SECOND + 2 * numbers * queries / OPERATIONS_A_SECOND


@dataclass(frozen=True)
class _Asked:
    name: str
    vector: Tensor  # (d,)
    row: int | None


def _answer(stored: Embeddings, asked: _Asked, near: Sequence[Neighbour], recall: Recall | None = None) -> Answer:
    label = None if asked.row is None else stored.label_name(asked.row)
    return Answer(asked.name, asked.row, label, tuple(near), recall)


def _neighbour(stored: Embeddings, row: int, cosine: float, caption: str | None = None) -> Neighbour:
    label, near = stored.label_name(row), min(1.0, max(-1.0, cosine))
    return Neighbour(row, int(stored.index[row]), stored.paths[row], label, near, caption)


def _asked(
    queries: Query | Sequence[Query], stored: Embeddings, run: AnyRun | None, view: CentreView | None
) -> list[_Asked]:
    given = [queries] if isinstance(queries, (int, str, Path)) else list(queries)
    if not given:
        raise SettingError("no query was given: name a picture, or the index of an item")
    known: dict[int, _Asked] = {}
    files: dict[int, str] = {}
    for place, query in enumerate(given):
        if isinstance(query, int):
            row: int | None = stored.row_of(query)
        else:
            whole = printable(os.path.abspath(query))
            row = stored.row_of_path(whole)
            if row is None and not os.path.isfile(query):
                row = stored.row_of_name(printable(query))
            elif row is None and run is None and stored.about is None:  # nothing could embed it
                row = stored.row_within(whole)
        if row is not None:
            known[place] = _Asked(stored.paths[row], stored.vectors[row], row)
        else:
            files[place] = os.path.abspath(str(query))
    if files:
        vectors = embed_files(list(files.values()), stored, run=run, view=view)
        for (place, file), vector in zip(files.items(), vectors, strict=True):
            known[place] = _Asked(printable(file), vector, None)
    return [known[place] for place in range(len(given))]


def embed_files(
    files: Sequence[str], stored: Embeddings, *, run: AnyRun | None = None, view: CentreView | None = None
) -> Tensor:
    """(q, d): the vectors of picture files, by the encoder that made ``stored``."""
    for file in files:
        if not Path(file).is_file():
            raise DataError(f"no such picture: {printable(file)}; is the path right?")
    about = stored.about
    if run is None and (about is None or about.run_folder is None or not Path(about.run_folder).is_dir()):
        raise SettingError(
            f"a picture needs the encoder that made {printable(stored.place)}, and its run is not at hand: "
            "name it (--run RUN, or run=)"
        )
    chosen = run if run is not None else str(about.run_folder)  # type: ignore[union-attr]
    layer = about.layer if about is not None else "pooled"
    maker = maker_of(chosen, view=view, layer=layer)
    _check_same_encoder(maker, stored)
    source = FilesSource(Path("/"), list(files), kind="list", place="queries", channels=maker.channels)
    rows = encode_source(maker.extractor, source, maker.view, batch_size=64, workers=0, title=None)
    if rows.unreadable:
        raise DataError(f"{rows.unreadable[0].name} cannot be read: {rows.unreadable[0].reason}")
    return rows.layers[layer][0]


def _check_same_encoder(maker: Maker, stored: Embeddings) -> None:
    about = stored.about
    if about is not None and about.encoder != maker.identity:
        raise DataError(
            f"{printable(stored.place)} was made by another encoder ({about.run}, {about.encoder}) than that of "
            f"{maker.name} ({maker.identity}): their vectors cannot be compared; embed anew"
        )
    if about is not None and about.view != repr(maker.view):
        raise DataError(
            f"{printable(stored.place)} was made through {about.view}; here it is {maker.view}: give that view"
        )


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
    """The ``k`` captions of ``source`` nearest to each picture, and its embeddings; the other way as above.

    Each comes with the image that it is of, and none is found twice.
    """
    stored, images = _beside_words(run, source, progress)
    if not isinstance(images, Source):
        raise DataError("a stream of images has no captions to look through; give a table or a list (--source)")
    _opened(stored, k)
    owner: dict[str, int] = {}
    for row, index in enumerate(stored.index.tolist()):
        for caption in images.captions(index):
            owner.setdefault(caption, row)
    if not owner:
        raise DataError(f"{printable(images.describe().place)} has no captions that a picture could find")
    _check_same_encoder(maker_of(run, layer=PROJECTION), stored)
    asked, captions = _asked(pictures, stored, run, None), list(owner)
    vectors = torch.stack([query.vector for query in asked])
    near = nearest(run.needed_text().embed(captions), vectors, k=min(k, len(captions)))
    answers = (
        [_neighbour(stored, owner[captions[at]], cosine, captions[at]) for at, cosine in zip(*pair, strict=True)]
        for pair in zip(near.index.tolist(), near.similarity.tolist(), strict=True)
    )
    return stored, tuple(map(partial(_answer, stored), asked, answers))


def _beside_words(
    run: OpenedRun, source: str | Path | Source | None, progress: Progress | None
) -> tuple[Embeddings, AnySource]:
    run.needed_text()
    given = run.directory.source if source is None else source
    place, is_named = run.directory.projections, source is not None
    embed(run, given, place, layer=PROJECTION, network=is_named, progress=progress)
    images = given if isinstance(given, Source) else open_source(given, network=is_named)
    return open_embeddings(place), images
