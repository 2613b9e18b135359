"""All that a run directory holds, read at once and leniently: for whoever shows it, whatever state it is in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args

from eigenview.diagnostics import Diagnosis
from eigenview.errors import DataError, EigenviewError
from eigenview.files import inside
from eigenview.runs.config import TrainConfig
from eigenview.runs.directory import DATA, ENVIRONMENT, RunDirectory
from eigenview.runs.facts import DataFacts, EncoderRecord, EnvironmentFacts
from eigenview.runs.metrics import Metrics
from eigenview.runs.sample import Sample
from eigenview.runs.scores import Score
from eigenview.runs.stored import read_stored, write_stored

FOLDER = "labels"
BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")

Kind = Literal["suggested", "suspicious", "outliers"]


@dataclass(frozen=True)
class ShownPicture:
    """A picture with what is said about it."""

    name: str
    caption: str
    picture: str  # JPEG in base64; empty where it is gone


@dataclass(frozen=True)
class ShownGroup:
    heading: str
    pictures: tuple[ShownPicture, ...]


@dataclass(frozen=True)
class ShownLabels:
    """``RUN/labels/KIND.json``."""

    kind: Kind
    summary: str  # in one sentence
    groups: tuple[ShownGroup, ...]


def write_shown_labels(run: Path, shown: ShownLabels) -> Path:
    """It takes the place of an earlier one of its kind."""
    return write_stored(run / FOLDER / f"{shown.kind}.json", asdict(shown))


def read_shown_labels(run: Path) -> tuple[ShownLabels, ...]:
    """All kinds that are there."""
    files = [inside(run, FOLDER) / f"{kind}.json" for kind in get_args(Kind)]
    kept = [(file, read_stored(ShownLabels, file)) for file in files if file.is_file()]
    for file, shown in kept:
        pictures = [picture.picture for group in shown.groups for picture in group.pictures]
        if not all(BASE64.fullmatch(picture) for picture in pictures):
            raise DataError(f"{file} holds a picture that is none; it was edited or damaged: write the labels again")
    return tuple(shown for _, shown in kept)


Content = TypeVar("Content")


@dataclass(frozen=True)
class RunContents:
    """What is missing is None or empty; so is what is there but cannot be read, and ``problems`` says why."""

    directory: RunDirectory
    config: TrainConfig | None  # None where nothing was trained
    encoder: EncoderRecord | None
    data: DataFacts | None
    environment: EnvironmentFacts | None
    metrics: Metrics
    scores: tuple[Score, ...]
    diagnosis: Diagnosis | None
    sample: Sample | None
    labels: tuple[ShownLabels, ...]  # suggested and suspicious ones, as spread and audit left them
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def is_trained(self) -> bool:
        return self.directory.is_trained

    @classmethod
    def of(cls, folder: str | Path) -> RunContents:
        """Of a run directory; a damaged file becomes a line in ``problems`` instead of an error."""
        directory = RunDirectory.existing(folder)
        problems: list[str] = []

        def attempt(read: Callable[[], Content], otherwise: Content) -> Content:
            try:
                return read()
            except EigenviewError as error:
                problems.append(str(error))
                return otherwise

        metrics = attempt(lambda: directory.metrics, Metrics(()))
        if metrics.damaged:
            problems.append(f"{metrics.damaged} damaged lines of metrics.jsonl are left out")
        has_data, has_environment = ((directory.folder / name).is_file() for name in (DATA, ENVIRONMENT))
        return cls(
            directory,
            config=attempt(lambda: directory.config, None) if directory.is_trained else None,
            encoder=attempt(lambda: directory.encoder, None),
            data=attempt(lambda: directory.data, None) if has_data else None,
            environment=attempt(lambda: directory.environment, None) if has_environment else None,
            metrics=metrics,
            scores=attempt(lambda: tuple(directory.scores()), ()),
            diagnosis=attempt(directory.diagnosis, None),
            sample=attempt(directory.sample, None),
            labels=attempt(lambda: read_shown_labels(directory.folder), ()),
            problems=tuple(problems),
        )
