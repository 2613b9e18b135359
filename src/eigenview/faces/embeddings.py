"""Embeddings as Python users hold them: vectors with names and labels, and what they are good for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from eigenview.data import Source
from eigenview.diagnostics import Diagnosis, diagnose
from eigenview.diagnostics.neighbours import COSINE
from eigenview.diagnostics.sphere import Labels
from eigenview.errors import SettingError
from eigenview.evaluation import Measuring, open_labelled
from eigenview.evaluation.subjects import TEST_SHARE
from eigenview.extras import extra_module
from eigenview.labels import (
    Audit,
    Chosen,
    ImageClusters,
    Labeller,
    Suggestions,
    audit,
    choose_images,
    cluster_images,
    labels_from,
    own_labels,
    read_labeller,
    spread_labels,
)
from eigenview.labels.audits import OUTLIERS
from eigenview.labels.graph import GraphEngine
from eigenview.labels.label_files import AnyLabels
from eigenview.labels.sheets import keep_audit, keep_suggestions
from eigenview.names import named_code
from eigenview.report import write_report
from eigenview.report.structure import first_projection
from eigenview.runs import OpenedRun, RunDirectory, Score, folder_of_vectors
from eigenview.search import (
    Answer,
    DuplicateSets,
    contact_sheet,
    duplicates,
    evaluate_vectors,
    look_at_vectors,
    neighbours,
    open_pictures,
)
from eigenview.search import Embeddings as Stored
from eigenview.search import open_embeddings as open_stored
from eigenview.search.duplicate_sets import NEIGHBOURS
from eigenview.search.formats import READERS
from eigenview.search.makers import About
from eigenview.search.stored import save_embeddings

Query = int | str | Path


class Embeddings:
    """What an encoder says about a source. ``array`` (n, d), a name and perhaps a label for each row."""

    def __init__(self, stored: Stored, *, run: OpenedRun | None = None) -> None:
        self.stored, self._run = stored, run

    def __repr__(self) -> str:
        return f"Embeddings({len(self)} x {self.stored.width} in {str(self.stored.place)!r})"

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def array(self) -> npt.NDArray[np.float32]:
        """(n, d) float32."""
        rows: npt.NDArray[np.float32] = self.stored.vectors.numpy()
        return rows

    @property
    def names(self) -> list[str]:
        """(n,) the path of each image, or what else it is called."""
        return list(self.stored.paths)

    @property
    def labels(self) -> npt.NDArray[np.int64] | None:
        """(n,), −1 for none; None when no item has one."""
        return None if self.stored.labels is None else self.stored.labels.numpy()

    @property
    def about(self) -> About | None:
        """What made them; None for a file from elsewhere."""
        return self.stored.about

    def neighbours(
        self, query: Query | Sequence[Query], *, k: int = 10, engine: Literal["exact", "faiss"] = "exact"
    ) -> tuple[Answer, ...]:
        """The nearest images to pictures (by file) or items (by number)."""
        return neighbours(self.stored, query, k=k, run=self._run, engine=engine)

    def contact_sheet(self, answers: Answer | Sequence[Answer], out: str | Path | None = None) -> Path:
        """A picture of the answers of :meth:`neighbours`, called after its query unless ``out`` is given."""
        return contact_sheet(answers, self.stored, out)

    def duplicates(
        self, *, cosine: float = COSINE, neighbours: int = NEIGHBOURS, source: str | None = None
    ) -> DuplicateSets:
        """Copies of one picture, confirmed on the pixels, as sets; ``source``: the pictures, if they are not found.

        Compared are each image's nearest ``neighbours``, and all of a cosine of at least ``cosine``.
        """
        return duplicates(self.stored, cosine=cosine, neighbours=neighbours, source=_pictures(source))

    def clusters(self, number: int | None = None, *, seed: int = 0, engine: GraphEngine = "auto") -> ImageClusters:
        """Groups without labels, as many as there are, or ``number``.

        ``.write("a.csv")`` makes a table of it and ``.sheet("a.png")`` a picture, as of what :meth:`choose`,
        :meth:`spread` and :meth:`audit` say. The graph behind them is exact while that is bearable, or approximate
        (``.recall`` says how good); ``engine`` exact or faiss decides it.
        """
        return cluster_images(self.stored, number, seed=seed, engine=engine)

    def choose(
        self,
        count: int = 10,
        *,
        labels: AnyLabels | None = None,
        way: str = "coverage",
        seed: int = 0,
        engine: GraphEngine = "auto",
    ) -> Chosen:
        """Which images to label next; ``labels`` are those so far. ``.write("answers.csv")`` makes a table of them."""
        given = None if labels is None else labels_from(labels, self.stored)
        return choose_images(self.stored, count, given=given, way=way, seed=seed, engine=engine)

    def spread(
        self,
        labels: AnyLabels,
        *,
        sizes: Mapping[str, float] | None = None,
        way: str = "graph-and-head",
        certain: float = 0.0,
        keep_in: str | Path | None = None,
        engine: GraphEngine = "auto",
    ) -> Suggestions:
        """Labels of all images from a few, with probabilities: a file, {name or row: label}, or one a row.

        A run keeps them for its report; vectors of a file in the folder ``keep_in``, whose report shows them.
        """
        given = labels_from(labels, self.stored)
        spread = spread_labels(self.stored, given, sizes=sizes, way=way, certain=certain, engine=engine)
        if (folder := self._reported(keep_in)) is not None:
            keep_suggestions(folder, spread)
        return spread

    def predict(self, head: str | Path | Labeller, *, certain: float = 0.0) -> Suggestions:
        """Labels by the head that :meth:`spread` made of other images (``.labeller``), or its file."""
        labeller = head if isinstance(head, Labeller) else read_labeller(head)
        return labeller.predict(self.stored, certain=certain)

    def audit(
        self,
        labels: AnyLabels | None = None,
        *,
        against: Embeddings | str | Path | None = None,
        outliers: int = OUTLIERS,
        copies: bool = True,
        source: str | None = None,
        keep_in: str | Path | None = None,
        seed: int = 0,
        engine: GraphEngine = "auto",
    ) -> Audit:
        """Doubtful labels, odd ones out and copies; the embeddings' own labels unless given. Without any, the rest.

        ``against``: embeddings of another set by the same encoder, or their file, of which pictures that are in this
        one are found. ``source``: the pictures, if they are not found. ``keep_in`` as in :meth:`spread`.
        """
        own = None if self.stored.labels is None else own_labels(self.stored)
        given = own if labels is None else labels_from(labels, self.stored)
        other = None if against is None else _other_set(against).stored
        pictures = _pictures(source)
        audited = audit(
            self.stored,
            given,
            against=other,
            outliers=outliers,
            copies=copies,
            sources=(pictures, None),
            seed=seed,
            engine=engine,
        )
        if (folder := self._reported(keep_in)) is not None:
            keep_audit(folder, audited, self.stored, pictures)
        return audited

    def label(
        self,
        *,
        labels: AnyLabels | None = None,
        classes: Sequence[str] = (),
        source: str | None = None,
        session: str | Path | None = None,
        out: str | Path | None = None,
        port: int = 0,
        browser: bool = True,
        seed: int = 0,
    ) -> None:
        """A page to label the images on, until Ctrl-C; its address is printed. ``labels``: those that are there.

        Answers are kept in ``session``, beside the embeddings unless given; exports go into new folders of ``out``.
        """
        extra_module("uvicorn", extra="app", purpose="the labelling page")
        from eigenview.app.serving import opened_page, serve_page

        with opened_page(
            self.stored,
            folder=None if session is None else Path(session),
            out=None if out is None else Path(out).absolute(),
            existing=None if labels is None else labels_from(labels, self.stored),
            classes=classes,
            seed=seed,
            source=_pictures(source),
        ) as page:
            serve_page(page, port=port, opens_browser=browser, told=print)

    def evaluate(
        self,
        source: str | Path | Source | None = None,
        test: str | Path | Source | None = None,
        *,
        keep_in: str | Path | None = None,
        protocols: Sequence[str] = ("knn", "linear"),
        test_share: float = TEST_SHARE,
        seed: int = 0,
    ) -> list[Score]:
        """Scores of the vectors, by the labels of ``source`` (matched by name, or by order) or their own; kept."""
        with named_code(source, test):
            sources = [None if given is None else open_labelled(given) for given in (source, test)]
        how = Measuring(seed=seed)
        directory = self._directory(keep_in)
        scores = evaluate_vectors(
            self.stored, directory, *sources, protocols=protocols, test_share=test_share, measuring=how
        )
        return list(scores)

    def report(self, source: str | None = None, *, keep_in: str | Path | None = None) -> Path:
        """One web page about the vectors; ``source``: the pictures behind them, if they are not found."""
        directory = self._directory(keep_in)
        look_at_vectors(self.stored, directory, _pictures(source))
        return write_report([directory.folder])

    def _reported(self, keep_in: str | Path | None) -> Path | None:
        """Where what a report shows is kept; None: nowhere."""
        if keep_in is not None:
            return self._directory(keep_in).folder
        return None if self._run is None else self._run.folder

    def _directory(self, keep_in: str | Path | None) -> RunDirectory:
        """``runs/FILE``, where what is measured is kept unless told otherwise."""
        return folder_of_vectors(self.stored.place, keep_in)

    def diagnose(self, second: Embeddings | None = None, labels: Labels | None = None) -> Diagnosis:
        """Figures and a verdict; ``second``: other views of the same images, ``labels``: whole numbers, row by row."""
        return diagnose(self.stored.vectors, None if second is None else second.stored.vectors, labels)

    def map(self, *, seed: int = 0) -> npt.NDArray[np.float64]:
        """(n, 2) places for a picture: UMAP if installed, otherwise t-SNE, or a spectral map of many rows."""
        return first_projection(self.stored.vectors, seed=seed).places

    def save(self, out: str | Path, *, overwrite: bool = False) -> Path:
        """Into a .parquet or .npy file; only embeddings made here are written over without ``overwrite``."""
        return save_embeddings(self.stored, out, overwrite=overwrite)


def _other_set(given: Embeddings | str | Path) -> Embeddings:
    if isinstance(given, Embeddings):
        return given
    if Path(str(given)).suffix not in READERS:
        how = f"by the same encoder: against=run.embed({str(given)!r})"
        raise SettingError(f"a set is compared with embeddings of another; embed that one first, {how}")
    return open_embeddings(given)


def _pictures(source: str | None) -> Source | None:
    with named_code(source):
        return None if source is None else open_pictures(source)


def open_embeddings(path: str | Path, *, run: OpenedRun | None = None) -> Embeddings:
    """Embeddings in a .parquet or .npy file, or those of a run directory."""
    return Embeddings(open_stored(path), run=run)
