"""A worker: takes trials until there are as many as wanted, over all workers; one that died is stood in for."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from eigenview.data import open_images
from eigenview.devices import find_device
from eigenview.errors import DataError, EigenviewError, MissingLibraryError, NotFiniteError, WriteError
from eigenview.evaluation import open_labelled
from eigenview.names import reason_of
from eigenview.progress import about
from eigenview.runs import RunDirectory, TrainConfig, is_run, merge_settings, open_run
from eigenview.runs.lock import RunIsWritten
from eigenview.sweeps.config import SweepConfig, combinations, nested, read_space, suggested
from eigenview.sweeps.objectives import OBJECTIVES
from eigenview.sweeps.results import CHOSEN, ERROR, RUN, Results, Study
from eigenview.training import Listener, train
from eigenview.training.processor import LowerInstructionsNeeded
from eigenview.training.start import prepare

DONE = ("complete", "pruned", "failed")
TENTHS = 10
TAKEN = ("Cannot tell a", "Should not reach")  # Optuna's words where another worker has ended the trial
UNBOUND = "updated_state"  # Optuna's own fault, where its database is silent as a trial ends
FAULTS = (EigenviewError, RuntimeError, MemoryError)  # of a trial: too high a rate, no memory for so large a batch
UNDER_WAY = ("running", "waiting")
ALIKE = 3  # trials in a row that fail by the same fault of the data: then it is hardly their settings
PATIENCE = 5 * 60.0  # seconds that the database may not answer

Answer = TypeVar("Answer")
Answered = Callable[[Callable[[], Any]], Any]  # what the database says, which may be silent for a while


class _Silent(DataError):
    """The database did not answer for long."""


OF_THE_MACHINE = (KeyboardInterrupt, WriteError, MissingLibraryError, LowerInstructionsNeeded, _Silent)


class _Stopped(Exception):
    """A fault of this machine, which the worker keeps: not one that Optuna counts as the trial's."""


class _Discarded(EigenviewError):
    """A trial that is left: another worker took the last one at the same time, or the same values were tried."""


class _Reporter(Listener):
    """Tells the study at the end of epochs how a run goes, and ends it where the study says so.

    Runs are compared at the same epoch; those of so many ``minutes`` at the same tenth of them, as their rates are. One
    that is through is not ended: all its time is spent, and it has a figure to give.
    """

    def __init__(
        self, trial: Any, watched: str, pruned: type[Exception], config: TrainConfig, *, answered: Answered
    ) -> None:
        self.trial, self.watched, self.pruned, self.config, self.answered = trial, watched, pruned, config, answered
        self.at, self.value, self.is_blind = 0, None, False  # blind: an epoch has ended, and nothing was measured

    def measured(self, line: Mapping[str, Any]) -> None:
        self.value = line.get(self.watched, self.value)  # some are looked at between
        if "epoch_loss" not in line or self.value is None:
            self.is_blind = self.value is None and (self.is_blind or "epoch_loss" in line)
            return
        minutes = self.config.minutes
        at = int(line["epoch"] if minutes is None else TENTHS * line["seconds"] / (60 * minutes))
        if at <= self.at:
            return
        self.at, value, self.is_blind = at, float(self.value), False
        self.answered(lambda: self.trial.report(value, step=at))
        if not self._is_through(line) and self.answered(self.trial.should_prune):
            where = f"epoch {at}" if minutes is None else f"{at} tenths of the time"
            raise self.pruned(f"behind the others at {where}")

    def _is_through(self, line: Mapping[str, Any]) -> bool:
        config, reached = self.config, ("epoch", "step")
        ends = (config.epochs, config.steps)
        is_over = any(end is not None and line[name] >= end for name, end in zip(reached, ends, strict=True))
        return is_over or (config.minutes is not None and self.at >= TENTHS)


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
        self.fault: BaseException | None = None  # what ends this worker
        self.is_waiting = False
        self.told_chosen = ""  # for a run, where nothing is given
        self.has_told_blind = False  # that nothing is measured by which runs could be ended early
        self.failures: list[str] = []  # of the last trials in a row
        self.has_repeated = False  # then values are drawn by chance: tpe would draw the same again

    def run(self) -> Results:
        """Try until all trials are done, or all there is to try; the results are written after each."""
        if self.wanted < self.config.trials:
            self.told(
                f"there are {self.wanted} combinations to try, so {self.wanted} trials instead of {self.config.trials}"
            )
        self.began, self.done_before = time.monotonic(), self._answered(lambda: self.study.count(*DONE))
        while self._answered(lambda: self.study.count(*DONE)) < self.wanted:
            self._answered(self.study.recover)
            if self._answered(self._is_all_taken):
                if not self.is_waiting:
                    self.told("all trials are taken; waiting for other workers, to stand in for one that dies")
                self.is_waiting = True
                time.sleep(min(5.0, self.config.heartbeat / 2))
                continue
            self.is_waiting = False
            self._try_one()
            self._answered(self._keep)
        return self._answered(self._keep)

    def _is_all_taken(self) -> bool:
        return self.study.count(*DONE, "running") >= self.wanted and not self.study.count("waiting")

    def _keep(self) -> Results:
        """The results, written; the time left is told, and where it is no use to go on."""
        results, done = self.study.results(), self.study.count(*DONE)
        results.save(self.config.out)
        if len(self.failures) == ALIKE and len(set(self.failures)) == 1 and done < self.wanted:
            raise DataError(f"{ALIKE} trials in a row failed alike, so this worker stops: {self.failures[0]}")
        if self.done_before < done < self.wanted:
            left = (self.wanted - done) * (time.monotonic() - self.began) / (done - self.done_before)
            self.told(f"{done} of {self.wanted} trials done, {about(left)} left")
        return results

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        """What the database says, which may be silent for a while."""
        since = None
        while True:
            try:
                return ask()
            except self.study.silences() as error:
                since = since or time.monotonic()
                if time.monotonic() - since > PATIENCE:
                    raise _Silent(f"the database does not answer: {reason_of(error)}") from error
                self.told(f"the database does not answer ({reason_of(error)}); trying again")
                time.sleep(min(5.0, self.config.heartbeat / 2))

    def _try_one(self) -> None:
        self.fault = None
        silent: tuple[type[Exception], ...] = (UnboundLocalError, *self.study.silences())
        with self.study.quietly():
            try:
                self.study.study.optimize(self._try, n_trials=1, catch=FAULTS)
            except _Stopped:
                pass
            except KeyboardInterrupt as error:
                self.fault = error
            except silent as error:
                if isinstance(error, UnboundLocalError) and UNBOUND not in str(error):
                    raise
                if self.fault is None:
                    self.told(f"the database did not answer as a trial began or ended ({reason_of(error)})")
            except (ValueError, AssertionError) as error:
                if not str(error).startswith(TAKEN):
                    raise
                if self.fault is None:
                    self.told("this worker was silent for so long that its trial was given to another one")
        if self.fault is not None:
            raise self.fault

    def _try(self, trial: Any) -> float:
        answered = self._answered
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
            answered(lambda: self.study.count(*DONE))  # it is there to be told
        except self.study.optuna.TrialPruned as reason:
            self.told(f"trial {trial.number} ended early: {reason}")
            self.failures = []
            raise
        except self.study.optuna.exceptions.UpdateFinishedTrialError:  # another worker has it
            raise
        except (KeyboardInterrupt, *FAULTS) as error:
            if self._is_of_the_machine(error, values):
                self.fault = error
                with suppress(*self.study.silences()):  # then it is stood in for, as for a worker that died
                    self._give_back(trial, run)
                raise _Stopped from error
            fault = str(error) if isinstance(error, EigenviewError) else reason_of(error)
            answered(lambda: trial.set_user_attr(ERROR, fault))
            self.told(f"trial {trial.number} failed: {fault}")
            is_of_data = isinstance(error, DataError) and not isinstance(error, NotFiniteError)
            self.failures = [*self.failures, fault][-ALIKE:] if is_of_data else []
            raise
        self.failures = []
        self.told(f"trial {trial.number}: {self.config.objective} {value:.4f}")
        return value

    def _is_of_the_machine(self, error: BaseException, values: Mapping[str, Any]) -> bool:
        """Whether the same trial may do elsewhere, or later. A library is the trial's own matter if it names it."""
        if isinstance(error, MissingLibraryError) and any(name.endswith(".name") for name in values):
            return False
        return isinstance(error, OF_THE_MACHINE)

    def _give_back(self, trial: Any, run: str) -> None:
        """The next worker, such as the same command later, goes on with it, unless another one has it already."""
        if self.study.is_running(trial.number):
            self.study.study.enqueue_trial(trial.params, user_attrs={**trial.user_attrs, RUN: run})

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
        if prepared.choices:
            self._tell_chosen(trial, {choice.name: choice.value for choice in prepared.choices})
        config = prepared.config
        reporter = _Reporter(
            trial, self.objective.watched, self.study.optuna.TrialPruned, config, answered=self._answered
        )
        directory = train(
            config,
            source=prepared.source,
            resume=resume,
            looks_back=False,
            listeners=[reporter, *self.listeners],
            started=prepared.started,
        )
        if reporter.is_blind and self.config.pruner != "none" and not self.has_told_blind:
            reason = "there is no online 20-NN to see who falls behind by: it needs labels in the images learned from"
            if self.objective.watched != "knn_accuracy":
                reason = "they are too short to see who falls behind"
            self.told(f"no run is ended early: {reason}")
            self.has_told_blind = True
        return directory

    def _tell_chosen(self, trial: Any, chosen: Mapping[str, Any]) -> None:
        """Kept with the trial; told where it is not what was told last, as a machine's speed may choose otherwise."""
        self._answered(lambda: trial.set_user_attr(CHOSEN, dict(chosen)))
        listed = ", ".join(f"{name} {_short(value)}" for name, value in chosen.items())
        if listed != self.told_chosen:
            self.told(f"chosen where nothing is given, here for trial {trial.number}: {listed}")
        self.told_chosen = listed


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
