"""Who is measured, on what, and how: three objects instead of a dozen arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor, nn

from eigenview.batches import PROJECTION, Extractor
from eigenview.batches.identity import data_identity, weights_identity
from eigenview.data import Source
from eigenview.distributed import Group, rank
from eigenview.evaluation.baselines import ColourStatistics, RawPixels
from eigenview.evaluation.features import Features, extract
from eigenview.evaluation.scores import Origin
from eigenview.files import JSON
from eigenview.names import Table
from eigenview.nn import Encoder
from eigenview.runs import OpenedRun
from eigenview.views import CentreView

START, UNTRAINED, RAW_PIXELS, COLOURS, SUPERVISED = (
    "starting point",
    "untrained",
    "raw pixels",
    "colour statistics",
    "supervised",
)
TRAINING_MEAN = "training mean"  # in the place of depth
COMPARED_WITH = (SUPERVISED, START, UNTRAINED, RAW_PIXELS, COLOURS, TRAINING_MEAN)  # these come last in a table


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

    def layers_among(self, layers: Sequence[str]) -> list[str]:
        """Those of the layers that this subject has."""
        own = self.encoder.layer_names
        return [name for name in layers if name in own or (name == PROJECTION and self.head is not None)]

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


MAKERS: dict[str, Callable[[OpenedRun, int], Encoder | None]] = {  # None: a run that has no such thing
    START: lambda run, _: run.starting_point(),
    UNTRAINED: lambda run, seed: run.untrained(seed=seed),
    RAW_PIXELS: lambda run, _: RawPixels(run.view.size, channels=run.channels),
    COLOURS: lambda run, _: ColourStatistics(channels=run.channels),
}
BASELINES = Table("baseline", MAKERS)


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
