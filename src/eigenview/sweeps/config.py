"""The settings of a sweep: what is searched, what is fixed, by which figure, how often, where it is kept."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from eigenview.errors import DataError, SettingError
from eigenview.files import read_object, read_text
from eigenview.runs import merge_settings
from eigenview.settings import Strict, read_settings
from eigenview.sweeps.objectives import OBJECTIVES
from eigenview.sweeps.space import check_space, read_space


class SweepConfig(Strict):
    """A sweep; the same settings again go on with it, as do other workers at the same time."""

    out: Path  # the folder of the sweep: its runs, its results and, unless told otherwise, its database
    search: dict[str, Any]  # by the name of a setting: {low, high, log} or a list of choices
    settings: dict[str, Any] = Field(default_factory=dict)  # of every run, as its config has them
    objective: str = "linear"  # what is sought: linear, knn, effective-rank or agreement
    trials: int = Field(20, ge=1)  # by all workers together
    sampler: Literal["tpe", "random"] = "tpe"
    pruner: Literal["median", "asha", "none"] = "median"  # what ends a run early that falls behind the others
    labelled: str | None = None  # training images with labels for linear and knn; the images learned from unless given
    storage: str | None = None  # address of a database, postgresql://…; a SQLite file in the folder unless given
    study: str | None = None  # its name in the database; the folder's unless given
    heartbeat: int = Field(30, ge=1)  # seconds between signs of life; a worker silent for twice as long counts as dead
    seed: int = Field(0, ge=0)  # of what is tried, and of the labels held out

    @property
    def name(self) -> str:
        return self.study or self.out.resolve().name

    @property
    def address(self) -> str:
        return self.storage or f"sqlite:///{self.out / 'study.db'}"


def read_sweep(given: Mapping[str, Any]) -> SweepConfig:
    """The sweep in ``given``; every name and every end of a range is checked before anything runs."""
    config = read_settings(SweepConfig, given)
    OBJECTIVES.find(config.objective)
    if "source" not in config.settings:
        raise SettingError("the images to learn from are missing: source, among the settings of the runs")
    if "out" in config.settings:
        raise SettingError("out is not a setting of the runs: each has a folder of its own inside the sweep's")
    check_space(read_space(config.search), config.settings)
    return config


def gathered(
    file: Path | None, given: Mapping[str, Any], *, search: Mapping[str, Any], settings: Mapping[str, Any]
) -> SweepConfig:
    """The sweep in a file, with what was ``given`` over it; in sweeps/FILE unless it says where."""
    place = Path("sweeps") / ("sweep" if file is None else file.stem)
    whole = {"out": place, **({} if file is None else sweep_file(file)), **given}
    whole["search"] = {**whole.get("search", {}), **search}
    whole["settings"] = merge_settings(whole.get("settings", {}), settings)
    return read_sweep(whole)


def sweep_file(file: Path) -> dict[str, Any]:
    """What a TOML or JSON file says about a sweep."""
    if file.suffix.lower() == ".json":
        return dict(read_object(file))
    if file.suffix.lower() != ".toml":
        raise SettingError(f"a sweep is described in a .toml or .json file; got {file.name!r}")
    try:
        return tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{file} is no TOML: {error}") from None
