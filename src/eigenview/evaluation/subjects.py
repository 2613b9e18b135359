"""Who is measured, on what, and how: three objects instead of a dozen arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from eigenview.batches import AnySource, Extractor
from eigenview.batches.identity import data_identity, weights_identity
from eigenview.data import Source, open_images, open_source, subset
from eigenview.data.columns import find_column
from eigenview.data.failures import blamed_on
from eigenview.data.rowgroups import column_values, read_schema
from eigenview.distributed import Group, rank
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import Features, extract
from eigenview.evaluation.scores import COLOURS, RAW_PIXELS, START, SUPERVISED, UNTRAINED, Origin
from eigenview.files import JSON
from eigenview.names import Table, printable
from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import Step
from eigenview.runs import OpenedRun
from eigenview.views import CentreView

AnyImages = str | Path | AnySource

LARGEST_SIDE = 16  # pixels: more columns tell a linear classifier little, and take it hours
TEST_SHARE = 0.2  # of each class, where no test images are given


class RawPixels(Encoder):
    """The evaluation view, averaged down to at most 16 × 16 and flattened: a classifier without a representation."""

    def __init__(self, size: int, *, channels: int = 3) -> None:
        super().__init__()
        self.side = min(size, LARGEST_SIDE)
        self.channels, self.feature_width = channels, channels * self.side**2

    def steps(self) -> list[Step]:
        return [(POOLED, self._flattened)]

    def _flattened(self, images: Tensor) -> Tensor:
        small = images if images.shape[2] == self.side else adaptive_avg_pool2d(images, self.side)
        return small.flatten(1)

    def extra_repr(self) -> str:
        return f"{self.feature_width} values, {self.side} x {self.side} pixels"


class ColourStatistics(Encoder):
    """The mean and the standard deviation of each channel: six numbers for colour, two for grey."""

    def __init__(self, *, channels: int = 3) -> None:
        super().__init__()
        self.channels, self.feature_width = channels, 2 * channels

    def steps(self) -> list[Step]:
        return [(POOLED, _statistics)]


def _statistics(images: Tensor) -> Tensor:
    deviation, mean = torch.std_mean(images.flatten(2), dim=2, correction=0)
    return torch.cat([mean, deviation], dim=1)


@dataclass(frozen=True)
class Subject:
    """Whose features are measured, and how it sees an image. With a ``head`` it has the layer ``projection``."""

    name: str
    encoder: Encoder
    view: CentreView
    head: nn.Module | None = None
    flips: bool = True  # False: a run whose own views mirror nothing, since left and right differ

    @cached_property
    def identity(self) -> str:
        """A hash of the weights."""
        return weights_identity(self.encoder, *([] if self.head is None else [self.head]))

    def origin(self, data: Mapping[str, JSON], how: Measuring) -> Origin:
        """Of scores of this subject on such data."""
        return Origin(self.name, data, self.identity, how.seed)

    def features(
        self, source: Source, layers: Sequence[str], how: Measuring, *, view: CentreView | None = None
    ) -> Features:
        """The layers, of all images of a source."""
        return extract(
            Extractor(self.encoder, tuple(layers), self.head),
            source,
            view=view or self.view,
            cache=how.cache,
            workers=how.workers,
            title=f"features: {self.name}" if how.shows_progress else None,
            group=how.group,
        )

    @classmethod
    def of_run(cls, run: OpenedRun, *, name: str | None = None, with_head: bool = False) -> Subject:
        head, directory = run.needed_head() if with_head else None, run.directory
        flips = not directory.is_trained or directory.data.views.flip > 0
        return cls(name or run.name, run.encoder, run.view, head, flips)


@dataclass(frozen=True)
class Task:
    """Labelled images to learn from and to be tested on, with the same label order, and what people call them."""

    train: Source
    test: Source
    name: str = ""

    def identity(self, train_labels: Tensor, test_labels: Tensor) -> dict[str, JSON]:
        """Which images with which labels; ``labels`` are those of the readable images."""
        return {
            "train": data_identity(self.train, train_labels),
            "test": data_identity(self.test, test_labels),
            **({"set": self.name} if self.name else {}),
        }


@dataclass(frozen=True)
class Folds:
    """Labelled images and the items of every fold they bring along: each is learned from, and the rest is the test."""

    source: Source
    folds: Sequence[Tensor]
    name: str = ""

    @property
    def train(self) -> Source:
        return self.source

    @property
    def test(self) -> Source:
        return self.source


@dataclass(frozen=True)
class Measuring:
    """How: where features are kept, what random choices are drawn by, which processes share the work."""

    cache: Path | None = None
    seed: int = 0
    workers: int | str = "auto"
    shows_progress: bool = True
    group: Group = None

    @property
    def is_shown(self) -> bool:
        return self.shows_progress and rank(self.group) == 0


BASELINES: Table[Callable[[OpenedRun, int], Encoder | None]] = Table(
    "baseline",
    {  # None: a run that has no such thing
        START: lambda run, _: run.starting_point(),
        UNTRAINED: lambda run, seed: run.untrained(seed=seed),
        RAW_PIXELS: lambda run, _: RawPixels(run.view.size, channels=run.channels),
        COLOURS: lambda run, _: ColourStatistics(channels=run.channels),
    },
)


def subjects_of(
    run: OpenedRun,
    *,
    baselines: Sequence[str] = tuple(BASELINES),
    supervised: OpenedRun | None = None,
    with_head: bool = False,
    seed: int = 0,
) -> list[Subject]:
    """The run, then what it must beat: the baselines by name, and a run trained on labels."""
    makers = {name: BASELINES.find(name) for name in baselines}
    subjects = [Subject.of_run(run, with_head=with_head)]
    if supervised is not None:
        subjects.append(Subject.of_run(supervised, name=SUPERVISED))
    made = {name: make(run, seed) for name, make in makers.items()}
    return [*subjects, *(Subject(name, encoder, run.view) for name, encoder in made.items() if encoder is not None)]


def open_task(
    train: AnyImages,
    test: AnyImages | None = None,
    *,
    test_share: float = TEST_SHARE,
    seed: int = 0,
    name: str | None = None,
    protocols: Sequence[str] = (),
) -> Task:
    """Images to learn from and to be tested on. Without ``test``, a share of each class is kept back, by ``seed``.

    ``protocols``: what they are for; depth alone needs no labels.
    """
    called = name if name is not None else _name(train)
    if set(protocols) == {"depth"}:
        if test is None:
            raise SettingError("depth is measured on images of their own: give a test source, too")
        return Task(open_images(train, needs_index=True), open_images(test, needs_index=True), called)
    source = open_labelled(train)
    if test is not None:
        return Task(source, open_labelled(test), called)
    return split_by_class(source, share=test_share, seed=seed, name=called)


def open_tasks(
    source: AnyImages | None,
    test: AnyImages | None = None,
    *,
    sets: Mapping[str, AnyImages | tuple[AnyImages, AnyImages]] | None = None,
    folds: str | None = None,
    test_share: float = TEST_SHARE,
    seed: int = 0,
    protocols: Sequence[str] = (),
    opened: AnySource | None = None,
    told: Callable[[str], None] = lambda message: None,
) -> list[Task | Folds]:
    """All that a subject is measured on: ``source`` and more ``sets`` by name (images, or a pair with those of the
    test), or a table and the column that lists its ``folds``.

    ``opened``: the first of them, where it is open. ``told`` hears how a source was split.
    """
    if folds is not None:
        if not isinstance(source, (str, Path)) or test is not None or sets:
            raise SettingError("--folds belongs to one SOURCE, a Parquet table, without --test and --set")
        return [open_folds(source, column=folds, opened=opened)]
    given = [] if source is None else [(_name(source), source, test)]
    for name, images in (sets or {}).items():
        train, against = images if isinstance(images, tuple) else (images, None)
        given.append((name, train, against))
    if not given:
        raise SettingError("SOURCE is missing: labelled images, such as 'photos/?labelled=yes'; or give --set")
    tasks: list[Task | Folds] = []
    for name, train, against in given:
        images = train if opened is None or tasks else opened
        task = open_task(images, against, test_share=test_share, seed=seed, name=name, protocols=protocols)
        if against is None:
            told(
                f"{name}, one source: of each class {test_share:.0%} are for the test (seed {seed}): "
                f"{len(task.train):,} images to learn from, {len(task.test):,} to test on"
            )
        tasks.append(task)
    return tasks


def open_folds(table: str | Path, *, column: str = "folds", opened: AnySource | None = None) -> Folds:
    """A Parquet table with the folds that a column lists. Opened as it is: folds count its rows, readable or not."""
    place = str(table).partition("?")[0]
    folds, source = read_folds(place, column=column), open_source(table) if opened is None else opened
    assert isinstance(source, Source)  # a table is
    return Folds(source, folds, Path(place).name)


def read_folds(table: str | Path, *, column: str = "folds") -> list[Tensor]:
    """The items of every fold, by a column of a Parquet table that lists which folds each row belongs to."""
    find_column("folds", column, read_schema(table).names, printable(table))
    members: dict[int, list[int]] = {}
    with blamed_on(table, f"does not list folds in column {column!r}"):
        for item, folds in enumerate(column_values(table, column)):
            for number in folds or ():  # type: ignore[attr-defined]  # lists, or it is said
                members.setdefault(int(number), []).append(item)
    if not members:
        raise DataError(f"no row of {table} belongs to a fold; is {column!r} the right column?")
    return [torch.tensor(members[number]) for number in sorted(members)]


def open_labelled(spec: AnyImages) -> Source:
    """The items of a source that have a label; at least two classes."""
    source = open_images(spec, needs_index=True)
    place = printable(spec) if isinstance(spec, (str, Path)) else source.describe().place
    labels = source.labels
    if labels is None:
        remedy = source.describe().labels_hint or (
            f"for a folder with a sub-folder for each class write '{place.rstrip('/')}/?labelled=yes'"
        )
        raise DataError(f"{place} has no labels, and scores need them: {remedy} (diagnose needs no labels)")
    known = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[known])) < 2:
        raise DataError(f"scores need at least two classes; {place} has {len(np.unique(labels[known]))}")
    return source if len(known) == len(source) else subset(source, known)


def split_by_class(source: Source, *, share: float = TEST_SHARE, seed: int = 0, name: str = "") -> Task:
    """Of each class ``share`` of the images is for the test, drawn by ``seed``; at least one stays to learn from."""
    if not 0 < share < 1:
        raise SettingError(f"the share for the test lies between 0 and 1; got {share}")
    labels = source.labels
    if labels is None:
        raise DataError("these images have no labels to split by; give a labelled source")
    random = np.random.default_rng(seed)
    tested: list[int] = []
    for label in np.unique(labels):
        places = random.permutation(np.flatnonzero(labels == label))
        count = min(len(places) - 1, max(1, round(share * len(places))))
        tested += places[:count].tolist()
    if not tested:
        raise DataError("no class has two images, so none can be kept for the test; give test images")
    test = np.sort(np.array(tested, dtype=np.int64))
    train = np.setdiff1d(np.arange(len(source)), test)
    return Task(subset(source, train), subset(source, test), name)


def _name(spec: AnyImages) -> str:
    """What people call a data set: the last word of its path, without options."""
    if not isinstance(spec, (str, Path)):
        return Path(spec.describe().place).name
    place = str(spec).partition("?")[0].rstrip("/")
    path = Path(place.rpartition(":")[2] or place)
    is_part = path.stem in ("train", "test")
    return printable(f"{path.parent.name}/{path.name}" if is_part else path.name) or printable(place)
