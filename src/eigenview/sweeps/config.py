"""The settings of a sweep: what is searched, what is fixed, by which figure, how often, where it is kept.

What is searched are settings of a run by name, each with a range or a list of choices.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from eigenview.errors import DataError, SettingError
from eigenview.files import read_object, read_text
from eigenview.methods import DEFAULT_METHOD, find_method
from eigenview.names import did_you_mean, slug
from eigenview.progress import about
from eigenview.runs import merge_settings, read_config
from eigenview.runs.config import LENGTHS
from eigenview.settings import Strict, read_settings
from eigenview.sweeps.objectives import OBJECTIVES

METHOD, OF_THE_METHOD = "method", "method_settings."
OF_THE_MACHINE = ("device", "workers", "tensorboard")


class Range(Strict):
    """From ``low`` to ``high``, both included; whole numbers where both are. ``log``: by factors instead of steps."""

    low: int | float
    high: int | float
    log: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> Range:
        if self.low >= self.high or (self.log and self.low <= 0):
            rule = "0 < low < high" if self.log else "low < high"
            raise ValueError(f"a range needs {rule}; got {self.low} to {self.high}")
        return self

    @property
    def ends(self) -> tuple[int | float, ...]:
        return (self.low, self.high)

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def count(self) -> float:
        return self.high - self.low + 1 if self.is_whole else math.inf

    def suggest(self, trial: Any, name: str) -> int | float:
        value: int | float = (trial.suggest_int if self.is_whole else trial.suggest_float)(
            name, self.low, self.high, log=self.log
        )
        return value


class Choices(Strict):
    """One of several values. The database holds lists and tables (of crops, say) as JSON."""

    values: tuple[bool | int | float | str | list[Any] | dict[str, Any], ...]

    @model_validator(mode="after")
    def _several(self) -> Choices:
        if len(self.kept) < 2:
            raise ValueError(f"choices are at least two different values; got {list(self.values)}")
        return self

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.values

    @property
    def kept(self) -> dict[Any, Any]:
        """Each value by what stands for it in the database."""
        return {json.dumps(value) if isinstance(value, list | dict) else value: value for value in self.values}

    @property
    def count(self) -> float:
        return len(self.kept)

    def suggest(self, trial: Any, name: str) -> Any:
        kept = self.kept
        return kept[trial.suggest_categorical(name, tuple(kept))]


Entry = Range | Choices


def read_space(search: Mapping[str, Any]) -> dict[str, Entry]:
    """``{"batch_size": [64, 128], "optimizer.learning_rate": {"low": 1e-4, "high": 0.1, "log": True}}``."""
    if not search:
        raise SettingError("a sweep needs something to search: --search NAME=LOW..HIGH or NAME=A,B,C")
    space: dict[str, Entry] = {}
    for name, given in search.items():
        kind: type[Entry] = Range if isinstance(given, Mapping) else Choices
        content = given if isinstance(given, Mapping) else {"values": given if isinstance(given, list) else [given]}
        try:
            space[name] = read_settings(kind, content)
        except SettingError as error:
            raise SettingError(f"{name}: {error}") from None
    return space


def read_words(words: Sequence[str]) -> dict[str, Any]:
    """``NAME=LOW..HIGH``, ``NAME=log:LOW..HIGH`` and ``NAME=A,B,C`` as :func:`read_space` has them."""
    search: dict[str, Any] = {}
    for word in words:
        name, text = _named(word, "NAME=LOW..HIGH, NAME=log:LOW..HIGH or NAME=A,B,C")
        bounds = [_value(bound) for bound in text.removeprefix("log:").split("..")]
        if len(bounds) == 2 and all(isinstance(bound, int | float) for bound in bounds):
            search[name] = {"low": bounds[0], "high": bounds[1], "log": text.startswith("log:")}
        else:
            listed = _value(f"[{text}]")  # so that a choice may hold commas: [0.9,0.99],[0.9,0.999]
            search[name] = listed if isinstance(listed, list) else [_value(choice) for choice in text.split(",")]
    return search


def read_fixed(words: Sequence[str]) -> dict[str, Any]:
    """``NAME=VALUE`` as nested settings."""
    fixed: dict[str, Any] = {}
    for word in words:
        name, text = _named(word, "NAME=VALUE")
        fixed = merge_settings(fixed, nested({name: _value(text)}))
    return fixed


def _named(word: str, form: str) -> tuple[str, str]:
    name, equals, text = word.partition("=")
    if not (name and equals and text):
        raise SettingError(f"a setting is written {form}; got {word!r}")
    return name.strip().replace("-", "_"), text.strip()


def _value(text: str) -> Any:
    """A number, true, false or a list as in JSON; otherwise the word itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """``{"a.b": 1}`` as ``{"a": {"b": 1}}``."""
    inner: dict[str, Any] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        place = inner
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return inner


def suggested(trial: Any, space: Mapping[str, Entry], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """This trial's values by name. What belongs to another method than the trial's is left out."""
    values: dict[str, Any] = {}
    method = fixed.get(METHOD, DEFAULT_METHOD)
    if METHOD in space:
        method = values[METHOD] = space[METHOD].suggest(trial, METHOD)
    for name, entry in space.items():
        if name != METHOD and _belongs(name, str(method)):
            values[name] = entry.suggest(trial, name)
    return values


def _belongs(name: str, method: str) -> bool:
    if not name.startswith(OF_THE_METHOD):
        return True
    return name.removeprefix(OF_THE_METHOD).split(".")[0] in find_method(method).settings_type.model_fields


def combinations(space: Mapping[str, Entry], fixed: Mapping[str, Any]) -> float:
    """How many different trials there can be."""
    return sum(
        math.prod(entry.count for name, entry in space.items() if name != METHOD and _belongs(name, method))
        for method in set(_methods(space, fixed))
    )


def _methods(space: Mapping[str, Entry], fixed: Mapping[str, Any]) -> list[str]:
    return [str(end) for end in space[METHOD].ends] if METHOD in space else [str(fixed.get(METHOD, DEFAULT_METHOD))]


def check_space(space: Mapping[str, Entry], fixed: Mapping[str, Any]) -> None:
    """Every end and every choice must make settings of a run: a wrong name or value is said before anything runs."""
    taken = sorted(name for name in space if name.split(".")[0] in ("source", "out"))
    if taken:
        raise SettingError(f"{taken[0]} is the same for every run of a sweep; it cannot be searched")
    methods = _methods(space, fixed)
    for name, entry in space.items():
        own = [method for method in methods if _belongs(name, method)]
        if not own:
            known = [field for method in methods for field in find_method(method).settings_type.model_fields]
            meant = did_you_mean(name.removeprefix(OF_THE_METHOD), known)
            raise SettingError(f"no setting of {' or '.join(methods)} is called {name}{meant}")
        for end in entry.ends:
            _check(fixed, {name: end} if name == METHOD else {METHOD: own[0], name: end})
    if METHOD not in space:
        _check(fixed, {})


def check_labels(config: SweepConfig) -> None:
    """Refuse methods that learn from the very labels which are held out to judge them."""
    methods = _methods(read_space(config.search), config.settings)
    learning = [method for method in methods if find_method(method).needs_labels]
    if learning and config.labelled is None and OBJECTIVES.find(config.objective).needs_labels:
        raise SettingError(
            f"{learning[0]} learns from the labels of all its images, those held out for {config.objective} among "
            "them: judge it by other training images (--labelled), or without labels (--objective effective-rank)"
        )


def _check(fixed: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    given = {"out": "run", "source": "images", **merge_settings(fixed, nested(values))}
    has_length = any(given.get(name) is not None for name in LENGTHS)
    read_config(given if has_length else {**given, "epochs": 1})


class SweepOptions(Strict):
    """How a sweep goes about it."""

    objective: str = "linear"  # what is sought: linear or knn, on held-out labels of training images; effective-rank or
    # agreement without labels
    trials: int = Field(20, ge=1)  # by all workers together
    sampler: Literal["tpe", "random"] = "tpe"  # how settings are drawn
    pruner: Literal["median", "asha", "none"] = "median"  # what ends a run early that falls behind the others
    labelled: str | None = None  # training images with labels for linear and knn; the images learned from unless given
    storage: str | None = None  # address of a database, postgresql://…; a SQLite file in the folder unless given
    study: str | None = None  # its name in the database; the folder's unless given
    heartbeat: int = Field(30, ge=1)  # seconds between signs of life; a worker silent for twice as long counts as dead
    seed: int = Field(0, ge=0)  # of what is tried, and of the labels held out


class SweepConfig(SweepOptions):
    """A sweep; the same settings again go on with it, as do other workers at the same time."""

    out: Path  # the folder of the sweep: its runs, its results and, unless told otherwise, its database
    search: dict[str, Any]  # by the name of a setting: {low, high, log} or a list of choices
    settings: dict[str, Any] = Field(default_factory=dict)  # of every run, as its config has them

    @property
    def name(self) -> str:
        return self.study or self.out.resolve().name

    @property
    def identity(self) -> dict[str, Any]:
        """What must stay for the figures of two trials to be comparable, as JSON has it.

        Machines may differ in where they have the images, not in what these are called.
        """
        held: dict[str, Any] = self.model_dump(
            mode="json", include={"search", "settings", "objective", "labelled", "seed"}
        )
        settings = {name: value for name, value in held["settings"].items() if name not in OF_THE_MACHINE}
        settings["source"] = _last_name(str(settings["source"]))
        return {**held, "settings": settings, "labelled": self.labelled and _last_name(self.labelled)}

    @property
    def address(self) -> str:
        return self.storage or f"sqlite:///{self.out / 'study.db'}"


def gathered(
    file: Path | None, given: Mapping[str, Any], *, search: Mapping[str, Any], settings: Mapping[str, Any]
) -> SweepConfig:
    """The sweep in a file, with what was ``given`` over it; in sweeps/FILE or sweeps/SOURCE unless it says where.

    Every name and every end of a range is checked before anything runs.
    """
    whole: dict[str, Any] = {**({} if file is None else sweep_file(file)), **given}
    whole["search"] = {**whole.get("search", {}), **search}
    whole["settings"] = merge_settings(whole.get("settings", {}), settings)
    source = _last_name(str(whole["settings"].get("source", ""))).partition("?")[0]
    stem = file.stem if file is not None else slug(Path(source).stem) or "sweep"
    config = read_settings(SweepConfig, {"out": Path("sweeps") / stem, **whole})
    OBJECTIVES.find(config.objective)
    if "source" not in config.settings:
        raise SettingError("the images to learn from are missing: source, among the settings of the runs")
    if "out" in config.settings:
        raise SettingError("out is not a setting of the runs: each has a folder of its own inside the sweep's")
    space = read_space(config.search)
    if all(config.settings.get(name) is None and name not in space for name in LENGTHS):
        raise SettingError(
            "how long each run is must be given, so that all are compared alike and none takes hours: minutes, epochs "
            f"or steps, among the settings of the runs (--set minutes=2: {config.trials} trials would take "
            f"{about(120 * config.trials)} of one worker)"
        )
    check_space(space, config.settings)
    check_labels(config)
    return config


def _last_name(place: str) -> str:
    """``digits?size=8`` of ``data/digits/?size=8``."""
    path, mark, options = place.partition("?")
    return Path(path.rstrip("/\\")).name + mark + options


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
