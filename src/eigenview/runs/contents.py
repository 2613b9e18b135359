"""All that a run directory holds, read at once and leniently: for whoever shows it, whatever state it is in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eigenview.diagnostics import Diagnosis
from eigenview.errors import EigenviewError
from eigenview.runs.config import TrainConfig
from eigenview.runs.directory import DATA, ENVIRONMENT, RunDirectory
from eigenview.runs.facts import DataFacts, EncoderRecord, EnvironmentFacts
from eigenview.runs.metrics import Metrics
from eigenview.runs.sample import Sample
from eigenview.runs.scores import Score
from eigenview.runs.shown_labels import ShownLabels, read_shown_labels

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
