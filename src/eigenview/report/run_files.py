"""A run as the report shows it: what is there, what is missing, what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eigenview.diagnostics import Diagnosis
from eigenview.errors import EigenviewError
from eigenview.evaluation.subjects import COMPARED_WITH
from eigenview.files import JSON
from eigenview.runs import Metrics, RunDirectory, Sample, Score
from eigenview.runs.directory import DATA, ENVIRONMENT
from eigenview.runs.shown_labels import ShownLabels, read_shown_labels

Settings = Mapping[str, JSON]
Content = TypeVar("Content")


@dataclass(frozen=True)
class RunFiles:
    """Everything a report is made from; ``config`` or ``encoder`` must be there."""

    folder: Path
    name: str
    config: Settings  # empty where nothing was trained
    encoder: Settings  # which it was to begin with; empty for a run of before
    log: Metrics
    data: Settings  # empty where the file is missing
    environment: Settings
    scores: tuple[Score, ...]
    diagnosis: Diagnosis | None
    sample: Sample | None
    problems: tuple[str, ...]  # files that are there but cannot be read
    labels: tuple[ShownLabels, ...] = ()  # suggested and suspicious ones, as spread and audit left them

    @property
    def is_trained(self) -> bool:
        return bool(self.config) or not self.encoder

    def own_scores(self) -> list[Score]:
        """One a protocol and data set; those under a former name of the folder count where there are no others."""
        own = [score for score in self.scores if score.subject not in COMPARED_WITH]
        kept: dict[tuple[str, str], Score] = {}
        for score in sorted(own, key=lambda score: score.subject != self.name):
            kept.setdefault((score.protocol_hash, score.data_hash), score)
        return list(kept.values())


def read_run(folder: str | Path) -> RunFiles:
    """The files of a run; a damaged optional one becomes a line in ``problems`` instead of an error."""
    directory = RunDirectory.existing(folder)
    problems: list[str] = []

    def attempt(read: Callable[[], Content], otherwise: Content) -> Content:
        try:
            return read()
        except EigenviewError as error:
            problems.append(str(error))
            return otherwise

    log = attempt(lambda: directory.metrics, Metrics(()))
    if log.damaged:
        problems.append(f"{log.damaged} damaged lines of metrics.jsonl are left out")
    has_data, has_environment = ((directory.folder / name).is_file() for name in (DATA, ENVIRONMENT))
    return RunFiles(
        folder=directory.folder,
        name=directory.name,
        config=attempt(lambda: directory.config.model_dump(mode="json"), {}) if directory.is_trained else {},
        encoder=attempt(lambda: _record(directory), {}),
        log=log,
        data=attempt(lambda: directory.data.model_dump(mode="json"), {}) if has_data else {},
        environment=attempt(lambda: directory.environment.model_dump(mode="json"), {}) if has_environment else {},
        scores=attempt(lambda: tuple(directory.scores()), ()),
        diagnosis=attempt(directory.diagnosis, None),
        sample=attempt(directory.sample, None),
        labels=attempt(lambda: read_shown_labels(directory.folder), ()),
        problems=tuple(problems),
    )


def _record(directory: RunDirectory) -> Settings:
    return {} if directory.encoder is None else directory.encoder.model_dump(mode="json")
