"""A worker: takes trials until there are as many as wanted, over all workers; one that died is stood in for."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eigenview.data import open_images
from eigenview.devices import find_device
from eigenview.errors import EigenviewError
from eigenview.evaluation import open_labelled
from eigenview.names import reason_of
from eigenview.runs import RunDirectory, is_run, merge_settings, open_run
from eigenview.runs.lock import RunIsWritten
from eigenview.sweeps.config import SweepConfig, combinations, nested, read_space, suggested
from eigenview.sweeps.objectives import OBJECTIVES
from eigenview.sweeps.results import ERROR, RUN, Results, Study
from eigenview.training import Listener, train
from eigenview.training.start import prepare

DONE = ("complete", "pruned", "failed")
TENTHS = 10
TAKEN = ("Cannot tell a", "Should not reach")  # Optuna's words where another worker has ended the trial
FAULTS = (EigenviewError, RuntimeError, MemoryError)  # of a trial: too high a rate, no memory for so large a batch
UNDER_WAY = ("running", "waiting")


class _Discarded(EigenviewError):
    """A trial that is left: another worker took the last one at the same time, or the same values were tried."""


class _Reporter(Listener):
    """Tells the study at the end of epochs how a run goes, and ends it where the study says so.

    Runs are compared at the same epoch; those of so many ``minutes`` at the same tenth of them, as their rates are.
    """

    def __init__(self, trial: Any, watched: str, pruned: type[Exception], *, minutes: float | None) -> None:
        self.trial, self.watched, self.pruned, self.minutes = trial, watched, pruned, minutes
        self.at, self.value = 0, None

    def measured(self, line: Mapping[str, Any]) -> None:
        self.value = line.get(self.watched, self.value)  # some are looked at between
        if "epoch_loss" not in line or self.value is None:
            return
        at = int(line["epoch"] if self.minutes is None else TENTHS * line["seconds"] / (60 * self.minutes))
        if at <= self.at:
            return
        self.at = at
        self.trial.report(float(self.value), step=at)
        if self.trial.should_prune():
            where = f"epoch {at}" if self.minutes is None else f"{at} tenths of the time"
            raise self.pruned(f"behind the others at {where}")


class Worker:
    """One of as many as are started, on one machine or several that share the folder and the database."""

    def __init__(
        self, config: SweepConfig, *, told: Callable[[str], None], listeners: tuple[Listener, ...] = ()
    ) -> None:
        self.config, self.told, self.listeners = config, told, listeners
        self.objective, self.space = OBJECTIVES.find(config.objective), read_space(config.search)
        config.out.mkdir(parents=True, exist_ok=True)
        place = config.labelled or str(config.settings["source"])  # what the figure is measured on, opened before all
        self.judged = open_labelled(place) if self.objective.needs_labels else open_images(place, needs_index=True)
        self.study = Study(config)
        self.wanted = min(config.trials, combinations(self.space, config.settings))
        self.has_told = False  # what is chosen for a run, where nothing is given
        self.has_repeated = False  # then values are drawn by chance: tpe would draw the same again

    def run(self) -> Results:
        """Try until all trials are done, or all there is to try; the results are written after each."""
        study, wanted, is_waiting = self.study, self.wanted, False
        if wanted < self.config.trials:
            self.told(f"there are {wanted} combinations to try, so {wanted} trials instead of {self.config.trials}")
        while study.count(*DONE) < wanted:
            study.recover()
            if study.count(*DONE, "running") >= wanted and not study.count("waiting"):
                if not is_waiting:
                    self.told("all trials are taken; waiting for other workers, to stand in for one that dies")
                is_waiting = True
                time.sleep(min(5.0, self.config.heartbeat / 2))
                continue
            is_waiting = False
            with study.quietly():
                try:
                    study.study.optimize(self._try, n_trials=1, catch=FAULTS)
                except (ValueError, AssertionError) as error:
                    if not str(error).startswith(TAKEN):
                        raise
                    self.told("this worker was silent for so long that its trial was given to another one")
            study.results().save(self.config.out)
        results = study.results()
        results.save(self.config.out)
        return results

    def _try(self, trial: Any) -> float:
        run = trial.user_attrs.get(RUN)  # begun by another worker, or before
        if run is None and self.study.count(*DONE, *UNDER_WAY, before=trial.number) >= self.wanted:
            raise _Discarded("one trial too many")
        self.study.draw_for(trial.number, at_random=self.has_repeated)
        values = suggested(trial, self.space, self.config.settings)
        if run is None:
            if self.study.has_tried(trial.params, before=trial.number):
                self.has_repeated = True
                raise _Discarded("these values were tried")
            run = f"runs/trial-{trial.number:04d}"
            trial.set_user_attr(RUN, run)
        written = ", ".join(f"{name} {_short(value)}" for name, value in values.items())
        try:
            folder = self.config.out / run
            self._wait_for(folder)
            goes_on = is_run(folder)
            self.told(f"trial {trial.number}{' goes on with ' + run if goes_on else ''}: {written}")
            directory = self._trained(trial, folder, values, resume=goes_on)
            opened = open_run(directory, device=find_device(directory.config.device))
            value = self.objective.measure(opened, self.judged, self.config.seed)
        except self.study.optuna.TrialPruned as reason:
            self.told(f"trial {trial.number} ended early: {reason}")
            raise
        except self.study.optuna.exceptions.UpdateFinishedTrialError:  # another worker has it
            raise
        except FAULTS as error:
            fault = str(error) if isinstance(error, EigenviewError) else reason_of(error)
            trial.set_user_attr(ERROR, fault)
            self.told(f"trial {trial.number} failed: {fault}")
            raise
        except KeyboardInterrupt:
            self.study.study.enqueue_trial(trial.params, user_attrs={RUN: run})  # goes on with the same command
            raise
        self.told(f"trial {trial.number}: {self.config.objective} {value:.4f}")
        return value

    def _wait_for(self, folder: Path) -> None:
        """Until nobody writes there: a worker that was taken for dead may be alive, and ends what it is at."""
        is_told = False
        while True:
            try:
                return RunDirectory(folder).lock().check()
            except RunIsWritten as error:
                if not is_told:
                    self.told(f"waiting: {error}")
                is_told = True
                time.sleep(min(5.0, self.config.heartbeat / 2))

    def _trained(self, trial: Any, folder: Path, values: Mapping[str, Any], *, resume: bool) -> RunDirectory:
        given = {"out": str(folder), "source": self.config.settings["source"]}  # an address is fetched if it is given
        if not resume:
            given = {**merge_settings(self.config.settings, nested(values)), **given}
        prepared = prepare(given, resume=resume)
        if prepared.choices and not self.has_told:
            chosen = ", ".join(f"{choice.name} {_short(choice.value)}" for choice in prepared.choices)
            self.told(f"chosen where nothing is given, here for trial {trial.number}: {chosen}")
            self.has_told = True
        minutes, pruned = prepared.config.minutes, self.study.optuna.TrialPruned
        reporter = _Reporter(trial, self.objective.watched, pruned, minutes=minutes)
        return train(
            prepared.config,
            source=prepared.source,
            resume=resume,
            looks_back=False,
            listeners=[reporter, *self.listeners],
            started=prepared.started,
        )


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
