"""A folder, or vectors from anywhere, looked at without training: a verdict, copies, odd ones out, a sample."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from eigenview.data import Failure, Source
from eigenview.diagnostics import Diagnosis, diagnose
from eigenview.errors import DataError
from eigenview.evaluation import diagnose_run
from eigenview.evaluation.observation import Observation
from eigenview.evaluation.sampling import save_sample
from eigenview.graph.nearest import nearest
from eigenview.runs import OpenedRun, RunDirectory
from eigenview.search.duplicate_sets import DuplicateSets, duplicates
from eigenview.search.embedding import Progress, embed
from eigenview.search.pictures import EmbeddedSource
from eigenview.search.stored import Embeddings, open_embeddings

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
