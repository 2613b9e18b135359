"""Vectors from anywhere scored as an encoder is, by labels of the images that they belong to."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eigenview.data import Source, subset
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import PROTOCOLS, Measuring, Subject, Task, evaluate
from eigenview.evaluation.features import Features
from eigenview.evaluation.subjects import split_by_class
from eigenview.files import file_digest
from eigenview.names import printable
from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import Step
from eigenview.runs import RunDirectory, Score
from eigenview.search.pictures import EmbeddedSource, item_key, matched_rows, no_match
from eigenview.search.stored import Embeddings
from eigenview.views import CentreView


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


def _labelled(source: Source) -> Source:
    labels = source.labels
    known = np.empty(0) if labels is None else np.flatnonzero(np.asarray(labels) >= 0)
    if labels is None or len(np.unique(np.asarray(labels)[known])) < 2:
        raise DataError(
            f"scores need labels of at least two classes, and {source.describe().place} has none: give labelled images "
            "as SOURCE, such as 'photos/?labelled=yes'"
        )
    return source if len(known) == len(source) else subset(source, known)
