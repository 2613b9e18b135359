"""A run directory as the report reads it: what is there, what is missing, what could not be read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from eigenview.diagnostics import Diagnosis
from eigenview.errors import DataError, EigenviewError
from eigenview.evaluation import Score, load_scores
from eigenview.evaluation.comparison import BASELINES
from eigenview.evaluation.run_diagnosis import load_diagnosis
from eigenview.evaluation.sample import Sample, read_sample

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"
Settings = Mapping[str, JSON]


@dataclass(frozen=True)
class RunFiles:
    """Everything a report is made from. Only ``config`` must be there."""

    folder: Path
    name: str
    config: Settings
    metrics: tuple[Settings, ...]  # lines of metrics.jsonl, in order
    data: Settings  # empty where the file is missing
    environment: Settings
    scores: tuple[Score, ...]
    diagnosis: Diagnosis | None
    sample: Sample | None
    problems: tuple[str, ...]  # files that are there but cannot be read

    @property
    def last(self) -> Settings:
        """The last line that has a loss; empty for a run that wrote none."""
        return next((line for line in reversed(self.metrics) if number(line.get("loss")) is not None), {})

    def own_scores(self) -> list[Score]:
        """One a protocol and data set; those under a former name of the folder count where there are no others."""
        own = [score for score in self.scores if score.subject not in BASELINES]
        found: dict[tuple[str, str], Score] = {}
        for score in sorted(own, key=lambda score: score.subject != self.name):
            found.setdefault((score.protocol_hash, score.data_hash), score)
        return list(found.values())


def read_run(folder: str | Path) -> RunFiles:
    """The files of a run; a damaged optional one becomes a line in ``problems`` instead of an error."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise DataError(f"no config.json in {folder}; is it a run directory?")
    problems: list[str] = []
    scores: tuple[Score, ...] = ()
    diagnosis: Diagnosis | None = None
    sample: Sample | None = None
    try:
        scores = tuple(load_scores(folder))
    except EigenviewError as error:
        problems.append(str(error))
    try:
        sample = read_sample(folder)
    except EigenviewError as error:
        problems.append(str(error))
    try:
        diagnosis = load_diagnosis(folder)
    except (EigenviewError, OSError, ValueError) as error:
        problems.append(f"diagnosis.json is of another version: {error!s:.120}…; diagnose the run again")
    return RunFiles(
        folder=folder,
        name=folder.resolve().name,
        config=_object(folder / "config.json", problems),
        metrics=tuple(_lines(folder / "metrics.jsonl")),
        data=_object(folder / "data.json", problems),
        environment=_object(folder / "environment.json", problems),
        scores=scores,
        diagnosis=diagnosis,
        sample=sample,
        problems=tuple(problems),
    )


def number(value: object) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _object(file: Path, problems: list[str]) -> Settings:
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.append(f"{file.name}: {error}")
        return {}
    if not isinstance(content, dict):
        problems.append(f"{file.name}: not an object")
        return {}
    return content


def _lines(file: Path) -> list[Settings]:
    """Lines that a crash cut short are left out."""
    if not file.is_file():
        return []
    found: list[Settings] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            content = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict):
            found.append(content)
    return found
