"""A folder, or vectors from anywhere, looked at without training: a verdict, copies, odd ones out, scores, a sample."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.data import Failure, Source, subset
from eigenview.diagnostics import Diagnosis, diagnose
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import PROTOCOLS, Measuring, Subject, Task, diagnose_run, evaluate
from eigenview.evaluation.features import Features
from eigenview.evaluation.observation import Observation
from eigenview.evaluation.sampling import save_sample
from eigenview.evaluation.subjects import split_by_class
from eigenview.files import file_digest
from eigenview.graph.nearest import nearest
from eigenview.names import printable
from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import Step
from eigenview.runs import OpenedRun, RunDirectory, Score
from eigenview.search.duplicate_sets import DuplicateSets, duplicates
from eigenview.search.embedding import Progress, embed
from eigenview.search.pictures import EmbeddedSource, item_key, matched_rows, no_match
from eigenview.search.stored import Embeddings, open_embeddings
from eigenview.views import CentreView

DIAGNOSED = 1000  # images, each seen three times
SAMPLED = 2000  # images on the map
NEIGHBOURS = 10  # by which an image is near others or alone
SHOWN_OUTLIERS, SHOWN_SETS, SHOWN_COPIES = 24, 40, 4  # sets, and images of each


@dataclass(frozen=True)
class Looked:
    """What was found. Everything is kept in the run's folder, for the report."""

    directory: RunDirectory
    embeddings: Embeddings
    diagnosis: Diagnosis
    copies: DuplicateSets
    outliers: NDArray[np.int64]  # rows of the embeddings, the most isolated first
    unreadable: tuple[Failure, ...]


def passes(images: int) -> int:
    """How many times an image is encoded in all."""
    return images + 3 * min(DIAGNOSED, images)


def look(
    run: OpenedRun,
    source: Source,
    *,
    spec: str | None = None,
    seed: int = 0,
    workers: int | str = "auto",
    progress: Progress | None = None,
    told: Callable[[str], None] = lambda line: None,
) -> Looked:
    """Look at the images of ``source`` with the encoder of ``run``. ``told`` hears what is being done."""
    if len(source) < 3:
        raise DataError(f"images are compared: at least 3 are needed; {source.describe().place} has {len(source)}")
    written = embed(run, source, workers=workers, progress=progress, spec=spec)
    stored = open_embeddings(written.path)
    diagnosis = _known_diagnosis(run.directory, seed) if written.was_there else None
    if diagnosis is None:
        told("is the representation healthy: two views of each of some images")
        diagnosis = diagnose_run(run, source, items=DIAGNOSED, seed=seed, workers=workers)
        run.directory.save_diagnosis(diagnosis)
    told("copies and odd ones out")
    copies = duplicates(stored, source=source)
    outliers = most_isolated(stored.vectors)
    told("groups, and a sample for the map")
    keep_sample(run, source, stored, copies, outliers, seed)
    return Looked(run.directory, stored, diagnosis, copies, outliers, written.unreadable)


def _known_diagnosis(directory: RunDirectory, seed: int) -> Diagnosis | None:
    """That of an earlier look at the same images with the same encoder, if it came to its end."""
    try:
        sample, diagnosis = directory.sample(), directory.diagnosis()
    except DataError:
        return None
    is_whole = sample is not None and sample.seed == seed and len(sample.outliers) > 0  # written last, by a look alone
    return diagnosis if is_whole and diagnosis is not None and diagnosis.figures.n <= DIAGNOSED else None


def most_isolated(vectors: torch.Tensor) -> NDArray[np.int64]:
    """Rows by their mean cosine with their ten nearest, the lowest first: what is like nothing else comes first.

    Vectors are taken around their mean: those of most networks all point one way.
    """
    centred = vectors - vectors.mean(dim=0)
    near = nearest(centred, centred, k=min(NEIGHBOURS, len(vectors) - 1), excludes_self=True)
    order: NDArray[np.int64] = near.similarity.mean(dim=1).argsort(stable=True).numpy()
    return order


def keep_sample(
    run: OpenedRun | RunDirectory,
    source: Source,
    stored: Embeddings,
    copies: DuplicateSets,
    outliers: NDArray[np.int64],
    seed: int,
) -> None:
    """Images drawn by ``seed``, and with them the outliers and some sets of copies, which the report shows."""
    sets = [[member.row for member in islice(copied.members, SHOWN_COPIES)] for copied in copies.sets[:SHOWN_SETS]]
    outliers = outliers[:SHOWN_OUTLIERS]
    drawn = np.random.default_rng(seed).permutation(len(stored))[:SAMPLED]
    rows = np.unique([*drawn, *outliers, *(row for members in sets for row in members)])
    place = {int(row): position for position, row in enumerate(rows)}
    labels = None if stored.labels is None else stored.labels.numpy()[rows]
    observation = Observation.of_features(
        stored.index.numpy()[rows], labels, stored.vectors[torch.from_numpy(rows)], seed
    )
    save_sample(
        run,
        source,
        observation,
        outliers=[place[int(row)] for row in outliers],
        copies=[[place[row] for row in members] for members in sets],
    )


class NoEncoder(Encoder):
    """In the place of an encoder that nobody has: only its vectors are at hand, and no protocol may run it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.feature_width, self.channels = width, 3

    def steps(self) -> list[Step]:
        return []


@dataclass(frozen=True, kw_only=True)
class VectorSubject(Subject):
    """Vectors that are looked up by the names of items instead of computed."""

    vectors: Tensor  # (n, d)
    rows: Mapping[str, int]  # name of an item → its row
    digest: str

    @property
    def identity(self) -> str:
        return self.digest[:16]

    def features(
        self, source: Source, layers: Sequence[str], how: Measuring, *, view: CentreView | None = None
    ) -> Features:
        index = torch.arange(len(source))
        chosen = torch.tensor([self.rows[item_key(source, item)] for item in range(len(source))], dtype=torch.long)
        labels = None if source.labels is None else torch.from_numpy(np.asarray(source.labels))
        return Features({POOLED: self.vectors[chosen]}, index, labels, source.classes, self.digest)


def vectors_subject(
    stored: Embeddings, name: str, *sources: Source, told: Callable[[str], None] = warnings.warn
) -> tuple[VectorSubject, list[Source]]:
    """The vectors as a subject, and of each source the items that have one: matched by path or name.

    Vectors without any names are matched by order. ``told`` hears of that, and of images that have no vector.
    """
    rows: dict[str, int] = {}
    kept: list[Source] = []
    for source in sources:
        matched = matched_rows(stored, source)
        items = [item for item, row in enumerate(matched) if row is not None]
        if not items:
            raise no_match(stored, source)
        if stored.has_no_names and not isinstance(source, EmbeddedSource):
            told(f"{printable(stored.place)} has no names: its rows are taken for the images in their order")
        if len(items) < len(source):
            told(
                f"{len(items):,} of {len(source):,} images of {source.describe().place} have a vector and are measured"
            )
        rows |= {item_key(source, item): row for item, row in enumerate(matched) if row is not None}
        kept.append(source if len(items) == len(source) else subset(source, items))
    encoder, digest = NoEncoder(stored.width), file_digest(stored.place)
    return VectorSubject(name, encoder, CentreView(1, 1), vectors=stored.vectors, rows=rows, digest=digest), kept


def evaluate_vectors(
    stored: Embeddings,
    directory: RunDirectory,
    train: Source | None = None,
    test: Source | None = None,
    *,
    protocols: Sequence[str] = ("knn", "linear"),
    test_share: float = 0.2,
    name: str = "",
    measuring: Measuring | None = None,
    told: Callable[[str], None] = warnings.warn,
) -> Iterator[Score]:
    """Scores of vectors, kept in ``directory``. Labels are those of ``train`` and ``test``, or the file's own."""
    how = measuring or Measuring()
    if running := [name for name in protocols if PROTOCOLS.find(name).on_source is not None]:
        raise SettingError(f"{printable(stored.place)} holds vectors, and {running[0]} runs an encoder: leave it out")
    given = [source for source in (train or EmbeddedSource(stored), test) if source is not None]
    subject, kept = vectors_subject(stored, directory.name, *given, told=told)
    labelled = [_labelled(source) for source in kept]
    if len(labelled) == 2:
        task = Task(labelled[0], labelled[1], name)
    else:
        task = split_by_class(labelled[0], share=test_share, seed=how.seed, name=name)
    for score in evaluate(subject, task, protocols=protocols, measuring=how):
        directory.save_score(score)
        yield score


def look_at_vectors(
    stored: Embeddings, directory: RunDirectory, pictures: Source | None = None, *, seed: int = 0
) -> Looked:
    """What :func:`eigenview.search.look` finds of a source, of vectors alone; pictures are shown as far as found."""
    diagnosis = diagnose(stored.vectors)
    directory.save_diagnosis(diagnosis)
    copies = duplicates(stored, source=pictures)
    outliers = most_isolated(stored.vectors)
    shown = EmbeddedSource(stored, pictures)
    keep_sample(directory, shown, replace(stored, index=torch.arange(len(stored))), copies, outliers, seed)
    return Looked(directory, stored, diagnosis, copies, outliers, ())


def _labelled(source: Source) -> Source:
    labels = source.labels
    known = np.empty(0) if labels is None else np.flatnonzero(np.asarray(labels) >= 0)
    if labels is None or len(np.unique(np.asarray(labels)[known])) < 2:
        raise DataError(
            f"scores need labels of at least two classes, and {source.describe().place} has none: give labelled images "
            "as SOURCE, such as 'photos/?labelled=yes'"
        )
    return source if len(known) == len(source) else subset(source, known)
