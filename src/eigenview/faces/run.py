"""A run as Python users hold it: what training left, with the verbs of the command line as methods."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, overload

from torch import nn

from eigenview.data import Source, open_images, open_source
from eigenview.devices import find_device
from eigenview.diagnostics import Diagnosis
from eigenview.diagnostics.label_free import Ranked, label_free
from eigenview.errors import SettingError
from eigenview.evaluation import (
    BASELINES,
    Compared,
    Measuring,
    are_by_words,
    choose_run,
    compare_runs,
    diagnose_run,
    evaluate_run,
    open_tasks,
    told_apart,
    word_scores,
)
from eigenview.evaluation.linear import EncoderChoice
from eigenview.evaluation.observation import measure_without_labels
from eigenview.evaluation.run_look import Where
from eigenview.evaluation.subjects import TEST_SHARE
from eigenview.export import Exported, Format, export
from eigenview.faces.embeddings import Embeddings, open_embeddings
from eigenview.labels import Labeller
from eigenview.names import named_code, printable
from eigenview.report import write_report
from eigenview.runs import (
    LAST,
    OpenedRun,
    RunDirectory,
    Score,
    TrainConfig,
    best_encoder,
    encoder_named,
    folder_for,
    folder_of_vectors,
    is_run,
)
from eigenview.runs import open_encoder as open_by_name
from eigenview.runs import open_run as open_directory
from eigenview.search import Answer, embed, find_by_words, find_captions
from eigenview.search import look as look_at
from eigenview.search.formats import READERS
from eigenview.search.makers import anchored
from eigenview.search.neighbour_search import Engine, Query
from eigenview.search.places import place_beside

AnyImages = str | Path | Source


class Run:
    """A run directory. Every method is the verb of that name; ``checkpoint`` is what they use of the run."""

    def __init__(
        self,
        folder: str | Path,
        *,
        checkpoint: str = LAST,
        encoder: nn.Module | str | None = None,
        text_encoder: str | None = None,
        device: str = "auto",
        opened: OpenedRun | None = None,
    ) -> None:
        self.directory = RunDirectory.existing(os.path.abspath(folder))  # good after a change of folder, too
        self.checkpoint, self.device, self._encoder = checkpoint, device, encoder
        self._text_encoder, self._opened = text_encoder, opened

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def folder(self) -> Path:
        return self.directory.folder

    @property
    def config(self) -> TrainConfig:
        return self.directory.config

    @property
    def metrics(self) -> Sequence[Mapping[str, Any]]:
        """The lines of ``metrics.jsonl``."""
        return self.directory.metrics.lines

    @property
    def scores(self) -> list[Score]:
        """What was measured so far."""
        return self.directory.scores()

    @property
    def opened(self) -> OpenedRun:
        """The encoder with its weights, its view, head and prototypes."""
        if self._opened is None:
            module = None if isinstance(self._encoder, str) else self._encoder
            with self._named():
                self._opened = open_directory(
                    self.directory, checkpoint=self.checkpoint, encoder=module, device=find_device(self.device)
                )
                if self._text_encoder is not None:
                    self._opened.needed_text()  # built here, where its code is named
        return self._opened

    def _named(self, *more: object) -> AbstractContextManager[None]:
        """Where the user's own code may run: what opened the run, and what this call names."""
        return named_code(self._encoder, self._text_encoder, *more)

    def _source(self, source: AnyImages | None) -> Source:
        """The images given, or those it was made for; an address in the run's settings is not fetched."""
        if source is not None:
            with named_code(source):
                return open_images(source, needs_index=True)
        return open_images(self.directory.source, needs_index=True, network=False)

    def evaluate(
        self,
        source: AnyImages | None = None,
        test: AnyImages | None = None,
        *,
        protocols: Sequence[str] = ("knn", "linear"),
        sets: Mapping[str, AnyImages | tuple[AnyImages, AnyImages]] | None = None,
        layers: Sequence[str] = ("pooled",),
        baselines: Sequence[str] = tuple(BASELINES),
        supervised: Run | None = None,
        folds: str | None = None,
        test_share: float = TEST_SHARE,
        templates: Sequence[str] = (),
        cache: str | Path | None = None,
        seed: int = 0,
    ) -> list[Score]:
        """Scores on labelled images, next to baselines, kept in the run. Without ``test``, a fifth is kept back.

        ``sets`` are more data sets by name, perhaps with test images: ``{"birds": "birds/", "cars": (train, test)}``.
        ``supervised`` is a run trained on labels, as one more baseline; ``folds`` a column of the table ``source`` that
        lists the folds of each row. Of a run that learnt from captions also ``captions`` (recall both ways) or
        ``zero-shot`` (``templates``: prompts in the place of the usual ones, or files of them), each by itself.
        """
        how = Measuring(cache=None if cache is None else Path(cache), seed=seed)
        by_words = are_by_words(protocols, templates=templates, beside=(test, sets, folds, source is None))
        with self._named(source, test, sets):
            if by_words and source is not None:
                return list(word_scores(self.opened, protocols, source, templates=templates, measuring=how))
            tasks = open_tasks(
                source, test, sets=sets, folds=folds, test_share=test_share, seed=seed, protocols=protocols
            )
            return list(
                evaluate_run(
                    self.opened,
                    tasks,
                    protocols=protocols,
                    layers=layers,
                    baselines=baselines,
                    supervised=None if supervised is None else supervised.opened,
                    measuring=how,
                )
            )

    def diagnose(
        self, source: AnyImages | None = None, *, where: Where = "projection", items: int = 5000, seed: int = 0
    ) -> Diagnosis:
        """Figures and a verdict, no labels needed, on the images it was made for unless others are given; kept."""
        return diagnose_run(self.opened, self._source(source), items=items, where=where, seed=seed, keeps=True)

    def report(self, out: str | Path | None = None, *, beside: Sequence[Run] = ()) -> Path:
        """One web page about the run, or one that sets others beside it."""
        return write_report([self.folder, *(run.folder for run in beside)], out)

    def export(
        self, to: Format = "safetensors", out: str | Path | None = None, *, head: str | Path | Labeller | None = None
    ) -> Exported:
        """The encoder for others to load; to ONNX with a ``head`` that :meth:`Embeddings.spread` made.

        Of a run that learnt from captions also both towers and the tokenizer.
        """
        with self._named():
            return export(self.opened, to, out, head=head)

    def find(
        self, text: str | Sequence[str], source: AnyImages | None = None, *, k: int = 10, engine: Engine = "exact"
    ) -> tuple[Answer, ...]:
        """The images that words describe, of its training unless others are given; embedded once, in the run."""
        with named_code(source):
            return find_by_words(self.opened, text, source, k=k, engine=engine)[1]

    def find_captions(
        self, pictures: Query | Sequence[Query], source: AnyImages | None = None, *, k: int = 10
    ) -> tuple[Answer, ...]:
        """The captions that describe pictures (files, or indices), of its training unless others are given."""
        with named_code(source):
            return find_captions(self.opened, pictures, source, k=k)[1]

    def embed(
        self,
        source: str | Path | Source | None = None,
        out: str | Path | None = None,
        *,
        layer: str = "pooled",
        overwrite: bool = False,
    ) -> Embeddings:
        """A vector for every image, of its training unless others are given.

        Without ``out`` into ``RUN/embeddings.parquet``, those of others into ``RUN/embeddings-NAME.parquet``.
        ``overwrite``: also a file at ``out`` that holds no embeddings made here.
        """
        with named_code(source):
            if out is None and isinstance(source, (str, Path)):
                out = place_beside(self.opened, str(source))
            written = embed(
                self.opened, self._source(None) if source is None else source, out, layer=layer, overwrite=overwrite
            )
        return open_embeddings(written.path, run=self.opened)


AnyRun = Run | Embeddings | str | Path


def open_run(
    folder: str | Path,
    *,
    checkpoint: str = LAST,
    encoder: nn.Module | str | None = None,
    text_encoder: str | None = None,
    device: str = "auto",
) -> Run:
    """The run in ``folder``. ``encoder``: a module like the one it trained, or the name of the user's own code.

    ``text_encoder`` likewise, of a run that learnt from captions.
    """
    return Run(folder, checkpoint=checkpoint, encoder=encoder, text_encoder=text_encoder, device=device)


@overload
def compare(
    *runs: AnyRun, protocols: Sequence[str] | None = ..., supervised: Run | str | Path | None = ...
) -> Mapping[str, Sequence[Compared]]: ...
@overload
def compare(*runs: AnyRun, unlabelled: AnyImages, seed: int = ...) -> Ranked: ...
@overload
def compare(*runs: Run | str | Path, select: AnyImages, folds: int = ..., seed: int = ...) -> EncoderChoice: ...
def compare(
    *runs: AnyRun,
    protocols: Sequence[str] | None = None,
    supervised: Run | str | Path | None = None,
    unlabelled: AnyImages | None = None,
    select: AnyImages | None = None,
    folds: int = 5,
    seed: int = 0,
) -> object:
    """The scores of several runs by protocol and data, each with its difference to the first run's.

    A run or a file of vectors may be given by its path, and an encoder by name beside ``unlabelled`` images.
    ``supervised``: a run trained on labels, as one more baseline. With ``unlabelled`` images: the measures of each run
    or encoder that need no labels, by its folder's name, of vectors by their file's; ``.best`` is probably the best,
    ``.by`` the measure that says so. With labelled images to ``select`` by: the run that cross-validation chooses.
    """
    names = told_apart([_place(run) for run in runs])
    if select is not None:
        trained = [run for run in map(_held, runs) if isinstance(run, Run)]
        if len(trained) < len(runs):
            raise SettingError("runs are chosen by images, and vectors see none: leave them out")
        with named_code(select):
            return choose_run((run.opened for run in trained), select, folds=folds, seed=seed)
    if unlabelled is None:
        held = map(_held, runs)
        folders = [run.folder if isinstance(run, Run) else folder_of_vectors(run.stored.place).folder for run in held]
        against = None if supervised is None else _place(supervised)
        return compare_runs(folders, supervised=against, protocols=protocols)
    with named_code(unlabelled):
        images = open_images(unlabelled, needs_index=True)
    measured = Ranked()
    for name, given in zip(names, runs, strict=True):
        run = _held(given, unlabelled, images)
        if isinstance(run, Run):
            measured[name] = measure_without_labels(run.opened, images, seed=seed)
        else:
            measured[name] = label_free(run.stored.vectors, seed=seed)
    return measured


def _place(given: AnyRun) -> Path:
    """Where a run or vectors are, or an encoder's name as it stands."""
    if isinstance(given, (Run, Embeddings)):
        return given.folder if isinstance(given, Run) else given.stored.place
    if isinstance(given, (str, Path)):
        return Path(given)
    raise SettingError(f"runs and embeddings are compared, open or by their paths; got {printable(repr(given)):.80}")


def _held(given: AnyRun, source: AnyImages | None = None, images: Source | None = None) -> Run | Embeddings:
    """What is compared, opened if it is a path, or the name of an encoder to look at ``source`` with."""
    if isinstance(given, (Run, Embeddings)):
        return given
    if Path(given).suffix in READERS:
        return open_embeddings(given)
    return open_run(given) if source is None or is_run(given) else open_encoder(str(given), source, images=images)


def open_encoder(
    name: str,
    source: AnyImages,
    *,
    keep_in: str | Path | None = None,
    size: int | None = None,
    weights: str | Path | None = None,
    device: str = "auto",
    images: Source | None = None,
) -> Run:
    """An encoder that is not trained here, by name, to look at ``source`` with; with the verbs of a run.

    ``name``: ``efficientnet-lite0``, ``timm:NAME``, ``torchvision:NAME``, ``hf:NAME_OR_FOLDER``,
    ``open_clip:NAME/TAG``, ``onnx:FILE``, one of ours, a run directory, a weights file that ``export`` wrote, or
    ``module:attribute``. What is measured is kept in ``runs/SOURCE-ENCODER`` unless ``keep_in`` says where. ``size``
    is that of the images it sees, by its makers and the images unless given. ``images``: the source, if it is open.
    """
    with named_code(name, source):
        if isinstance(source, (str, Path)):
            spec, seen = anchored(source), open_source(source) if images is None else images
        else:
            spec, seen = "", source
        settings = encoder_named(name, weights=None if weights is None else os.path.abspath(weights))
        folder = keep_in or folder_for(name, spec or seen.describe().place, size=size)
        opened = open_by_name(settings, seen, folder, spec=spec, size=size, device=find_device(device))
    return Run(opened.folder, opened=opened)


def look(source: AnyImages, *, encoder: str | None = None, seed: int = 0, **options: Any) -> Run:
    """A folder looked at without training: embeddings, verdict, copies, odd ones out and a page, in a run directory.

    ``encoder`` by name, the best pretrained one at hand unless given; ``options`` as :func:`open_encoder` takes them.
    """
    with named_code(source):
        images = open_images(source, needs_index=True)
    run = open_encoder(encoder or best_encoder()[0], source, images=images, **options)
    look_at(run.opened, images, spec=run.directory.source or None, seed=seed)
    run.report()
    return run
