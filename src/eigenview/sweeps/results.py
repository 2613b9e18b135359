"""What a sweep found: every trial with its settings and its figure, which settings mattered; as JSON and Parquet.

It comes from the study in its database: who shares it, what counts as done, what a dead worker left.
"""

import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from eigenview.errors import SettingError
from eigenview.extras import extra_module
from eigenview.files import JSON, read_as, to_json, write_text
from eigenview.labels.label_files import Column, write_table
from eigenview.names import printable, reason_of
from eigenview.sweeps.config import SweepConfig

FILE, TABLE = "sweep.json", "trials.parquet"
FINISHED = "complete"
RUN, ERROR, CHOSEN = "run", "error", "chosen"  # what a trial says of itself
ATTEMPTS = 4  # to open the database
RETRIES = 5  # times that a trial is tried again whose worker died; then it has failed
UNBEGUN = 60  # seconds, and two heartbeats, after which a trial without a run was left by a worker that died
BEGUN = "begun"  # what the study says of itself
IMPORTANCE_FROM = 4  # finished trials


@dataclass(frozen=True)
class Trial:
    """``state``: complete, pruned (ended early), failed (``note`` says why), running or waiting."""

    number: int
    run: str  # the folder of its run, inside the sweep's
    state: str
    value: float | None  # of a complete one
    values: dict[str, JSON]  # what was tried, by the name of a setting
    seconds: float | None = None
    note: str = ""
    chosen: dict[str, JSON] = field(default_factory=dict)  # what its run was given beside them, some by what was timed


@dataclass(frozen=True)
class Results:
    name: str
    objective: str
    trials: tuple[Trial, ...]
    importance: dict[str, float]  # share of the figure's variance that a setting explains; empty while there are few

    @property
    def ranked(self) -> list[Trial]:
        """Finished trials, the best first."""
        done = [trial for trial in self.trials if trial.state == FINISHED and trial.value is not None]
        return sorted(done, key=lambda trial: (-(trial.value or 0.0), trial.number))

    @property
    def best(self) -> Trial:
        if not self.ranked:
            raise SettingError(f"no trial of {self.name} has finished")
        return self.ranked[0]

    @property
    def names(self) -> list[str]:
        """The settings that were searched."""
        return sorted({name for trial in self.trials for name in trial.values})

    def counts(self) -> Mapping[str, int]:
        states = [trial.state for trial in self.trials]
        return {state: states.count(state) for state in sorted(set(states))}

    def save(self, folder: Path) -> None:
        """``sweep.json``, and ``trials.parquet`` where pyarrow is installed."""
        write_text(folder / FILE, to_json(self))
        with suppress(SettingError):  # the library is missing: the JSON file holds the same
            self.write_parquet(folder / TABLE)

    def write_parquet(self, file: Path) -> None:
        """One row a trial: what it has of its own (what was chosen as JSON), and a column for each setting searched."""
        columns: dict[str, Column] = {
            name: [getattr(trial, name) for trial in self.trials]
            for name in ("number", "run", "state", "value", "seconds", "note")
        }
        columns[CHOSEN] = [json.dumps(trial.chosen) for trial in self.trials]
        for name in self.names:
            column = [trial.values.get(name) for trial in self.trials]
            is_mixed = len({type(value) for value in column if value is not None} - {int, float}) > 1
            columns[name] = [None if v is None else str(v) for v in column] if is_mixed else column
        write_table(file, columns, overwrite=True)


def is_sweep(folder: str | Path) -> bool:
    return (Path(folder) / FILE).is_file()


def read_results(folder: str | Path) -> Results:
    return read_as(Results, Path(folder) / FILE)


class Study:
    """An Optuna study; its trials are counted over all workers."""

    def __init__(self, config: SweepConfig) -> None:
        self.config = config
        self.optuna = extra_module("optuna", extra="sweep", purpose="a sweep")
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)  # a failed trial is told by its worker
        with self.quietly():
            self.study = self._opened()
        self._check_same()

    def _check_same(self) -> None:
        """Refuse a study that was begun with other settings: its figures would not be comparable."""
        mine, begun = self.config.identity, self.study.user_attrs.get(BEGUN)
        if begun is None:
            self.study.set_user_attr(BEGUN, mine)
            return
        for name in mine:
            if mine[name] != begun.get(name):
                was = f"the sweep {self.config.name} was begun with another {name}: {printable(str(begun.get(name)))}"
                raise SettingError(f"{was}; go on with that, or choose another place (--out, in a database --study)")

    def _storage(self) -> Any:
        """The database. Two workers that make its tables at the same time get in each other's way once."""
        failures = (ImportError, extra_module("sqlalchemy.exc", extra="sweep", purpose="a sweep").SQLAlchemyError)
        address, reason = self.config.address, ""
        is_sqlite = address.startswith("sqlite")
        for attempt in range(ATTEMPTS):
            try:
                return self.optuna.storages.RDBStorage(
                    address,
                    engine_kwargs={"connect_args": {"timeout": 60}} if is_sqlite else {"pool_pre_ping": True},
                    heartbeat_interval=self.config.heartbeat,
                    grace_period=2 * self.config.heartbeat,
                    heartbeat_stale_trial_callback=self.optuna.storages.RetryHeartbeatStaleTrialCallback(RETRIES),
                )
            except failures as error:
                reason = reason_of(getattr(error, "orig", None) or error)
                time.sleep(0.5 * attempt)
        scheme, mark, rest = address.partition("://")
        account, at, host = rest.rpartition("@")
        shown = f"{scheme}{mark}{account.split(':')[0]}{at}{host}"  # without the password
        raise SettingError(f"the database {shown} cannot be opened: {reason}")

    def _opened(self) -> Any:
        optuna, config, storage = self.optuna, self.config, self._storage()
        pruners = {
            "median": optuna.pruners.MedianPruner,
            "asha": optuna.pruners.SuccessiveHalvingPruner,
            "none": optuna.pruners.NopPruner,
        }
        return optuna.create_study(
            study_name=config.name,
            storage=storage,
            pruner=pruners[config.pruner](),
            direction="maximize",
            load_if_exists=True,
        )

    def draw_for(self, number: int, *, at_random: bool = False) -> None:
        """What trial ``number`` tries is drawn by a seed of its own: with one for all, workers would try the same."""
        kinds = {"tpe": self.optuna.samplers.TPESampler, "random": self.optuna.samplers.RandomSampler}
        kind = kinds["random" if at_random else self.config.sampler]
        with self.quietly():
            self.study.sampler = kind(seed=self.config.seed + 7919 * number)

    def silences(self) -> tuple[type[Exception], ...]:
        """What is raised where the database does not answer."""
        from_driver: type[Exception] = extra_module("sqlalchemy.exc", extra="sweep", purpose="a sweep").SQLAlchemyError
        from_optuna: type[Exception] = self.optuna.exceptions.StorageInternalError
        return from_driver, from_optuna

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """What Optuna calls experimental is what a sweep is built on."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
            yield

    def recover(self) -> None:
        """What a silent worker was at waits to be tried again."""
        with self.quietly():
            self.optuna.storages.fail_stale_trials(self.study)
        patience = timedelta(seconds=UNBEGUN + 2 * self.config.heartbeat)
        for trial in self.trials():  # Optuna waits for ever for one whose worker gave no sign of life at all
            is_old = trial.datetime_start is not None and datetime.now() - trial.datetime_start > patience
            if _state(trial) == "running" and RUN not in trial.user_attrs and is_old:
                with suppress(ValueError):  # another worker was quicker
                    self.study.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)

    def trials(self) -> list[Any]:
        listed: list[Any] = self.study.get_trials(deepcopy=False)
        return listed

    def count(self, *states: str, before: int | None = None) -> int:
        """Trials in these states; one that failed by its own fault is as done as one that finished."""
        trials = [trial for trial in self.trials() if before is None or trial.number < before]
        return sum(_state(trial) in states for trial in trials)

    def is_running(self, number: int) -> bool:
        """Whether this trial still counts as a worker's, and was not given to another one."""
        return any(trial.number == number and _state(trial) == "running" for trial in self.trials())

    def has_tried(self, values: Mapping[str, Any], *, before: int) -> bool:
        """Whether a trial before that one has, or had, the same values."""
        earlier = (trial for trial in self.trials() if trial.number < before and _state(trial) != "gone")
        return any(trial.params == values for trial in earlier)

    def results(self) -> Results:
        return Results(
            name=self.config.name,
            objective=self.config.objective,
            trials=tuple(_told(trial) for trial in self.trials() if _state(trial) != "gone"),
            importance=self._importance(),
        )

    def _importance(self) -> dict[str, float]:
        if self.count("complete") < IMPORTANCE_FROM:
            return {}
        try:
            with self.quietly():
                evaluator = self.optuna.importance.FanovaImportanceEvaluator(seed=self.config.seed)
                shares = self.optuna.importance.get_param_importances(self.study, evaluator=evaluator)
        except (ValueError, RuntimeError):  # nothing varies that every trial has
            return {}
        return {name: float(share) for name, share in shares.items()}


def _state(trial: Any) -> str:
    name = str(trial.state.name).lower()
    if name == "fail":
        return "failed" if _failure(trial) else "gone"  # to be tried again, or one too many
    return name


def _failure(trial: Any) -> str:
    """Why a trial is not tried again; empty: it is, or it was one too many."""
    deaths = 1 + len(trial.system_attrs.get("retry_history", ()))
    return str(trial.user_attrs.get(ERROR, "")) or (f"{deaths} workers died of it" if deaths > RETRIES else "")


def _told(trial: Any) -> Trial:
    state, seconds = _state(trial), trial.duration
    return Trial(
        number=trial.number,
        run=str(trial.user_attrs.get(RUN, "")),
        state=state,
        value=trial.value if state == FINISHED else None,
        values=dict(trial.params),
        seconds=None if seconds is None else seconds.total_seconds(),
        note=_failure(trial) if state == "failed" else "",
        chosen=dict(trial.user_attrs.get(CHOSEN, {})),
    )
