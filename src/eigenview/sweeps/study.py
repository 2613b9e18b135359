"""The study in its database: who shares it, what counts as done, what a dead worker left, what came out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eigenview.errors import SettingError
from eigenview.extras import extra_module
from eigenview.names import reason_of
from eigenview.sweeps.config import SweepConfig
from eigenview.sweeps.results import Results, Trial

RUN, ERROR, SURPLUS = "run", "error", "surplus"  # what a trial says of itself
ATTEMPTS = 4  # to open the database
RETRIES = 5  # a trial that five workers died of is left
IMPORTANCE_FROM = 4  # finished trials


class Study:
    """An Optuna study; its trials are counted over all workers."""

    def __init__(self, config: SweepConfig) -> None:
        self.config = config
        self.optuna = extra_module("optuna", extra="sweep", purpose="a sweep")
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)  # a failed trial is told by its worker
        with self.quietly():
            self.study = self._opened()

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
        raise SettingError(f"the database {_without_password(address)} cannot be opened: {reason}")

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

    def draw_for(self, number: int) -> None:
        """What trial ``number`` tries is drawn by a seed of its own: with one for all, workers would try the same."""
        kinds = {"tpe": self.optuna.samplers.TPESampler, "random": self.optuna.samplers.RandomSampler}
        with self.quietly():
            self.study.sampler = kinds[self.config.sampler](seed=self.config.seed + 7919 * number)

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

    def trials(self) -> list[Any]:
        listed: list[Any] = self.study.get_trials(deepcopy=False)
        return listed

    def count(self, *states: str, before: int | None = None) -> int:
        """Trials in these states; one that failed by its own fault is as done as one that finished."""
        trials = [trial for trial in self.trials() if before is None or trial.number < before]
        return sum(_state(trial) in states for trial in trials)

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
                shares = self.optuna.importance.get_param_importances(self.study)
        except (ValueError, RuntimeError):  # nothing varies that every trial has
            return {}
        return {name: float(share) for name, share in shares.items()}


def _state(trial: Any) -> str:
    name = str(trial.state.name).lower()
    if name == "fail":
        return "failed" if ERROR in trial.user_attrs else "gone"  # to be tried again, or one too many
    return name


def _told(trial: Any) -> Trial:
    state, seconds = _state(trial), trial.duration
    value = trial.value if state == "complete" else None
    if state == "pruned" and trial.intermediate_values:
        value = trial.intermediate_values[max(trial.intermediate_values)]
    return Trial(
        number=trial.number,
        run=str(trial.user_attrs.get(RUN, "")),
        state=state,
        value=value,
        values=dict(trial.params),
        seconds=None if seconds is None else seconds.total_seconds(),
        note=str(trial.user_attrs.get(ERROR, "")),
    )


def _without_password(address: str) -> str:
    scheme, mark, rest = address.partition("://")
    account, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{account.split(':')[0]}{at}{host}"
