"""What workers share: a study that stays what it was begun as, and ends whatever its workers do."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import eigenview as ev
from eigenview.errors import DataError, MissingLibraryError, SettingError, WriteError
from eigenview.runs import RunDirectory
from eigenview.sweeps import Worker, gathered, worker
from eigenview.sweeps.results import RETRIES, RUN, Study, read_results

optuna = pytest.importorskip("optuna")
pytestmark = [  # trials are asked for one by one here
    pytest.mark.filterwarnings("ignore:Heartbeat of storage"),
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]

SETTINGS = {"source": "shapes?count=60&size=16", "encoder": {"width": 0.25}, "workers": 0, "steps": 1}
CHOICES = {"batch_size": [20, 30]}


def config(folder, **more):
    (folder / "sweep").mkdir(exist_ok=True)
    given = {"out": folder / "sweep", "objective": "effective-rank", "pruner": "none", "heartbeat": 1, **more}
    search, settings = given.pop("search", CHOICES), given.pop("settings", SETTINGS)
    return gathered(None, given, search=search, settings=settings)


def swept(folder, **more):
    told = []
    return Worker(config(folder, **more), told=told.append).run(), told


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"objective": "agreement"}, "objective"),
        ({"seed": 1}, "seed"),
        ({"search": {"batch_size": [20, 30, 40]}}, "search"),
        ({"settings": {**SETTINGS, "steps": 2}}, "settings"),
        ({"settings": {**SETTINGS, "source": "shapes?count=60&size=24"}}, "settings"),
    ],
)
def test_a_study_goes_on_only_as_what_it_was_begun_as(tmp_path, more, name):
    Study(config(tmp_path))
    Study(config(tmp_path, trials=50, pruner="asha", sampler="random"))  # neither changes what a figure means
    elsewhere = {**SETTINGS, "source": f"mounted/{SETTINGS['source']}", "workers": 2, "device": "cpu"}
    Study(config(tmp_path, settings=elsewhere))  # on another machine
    with pytest.raises(SettingError, match=f"begun with another {name}: .*choose another place"):
        Study(config(tmp_path, **more))


def test_importance_is_the_share_of_the_variance(tmp_path):
    study = Study(config(tmp_path, search={"batch_size": {"low": 20, "high": 50}, "seed": {"low": 0, "high": 9}}))
    whole = optuna.distributions.IntDistribution
    for number in range(40):
        size, seed = 20 + (7 * number) % 31, (3 * number) % 10
        study.study.add_trial(
            optuna.create_trial(
                params={"batch_size": size, "seed": seed},
                distributions={"batch_size": whole(20, 50), "seed": whole(0, 9)},
                value=size / 10,  # the seed changes nothing
            )
        )
    importance = study.results().importance
    assert importance["batch_size"] > 0.9
    assert sum(importance.values()) == pytest.approx(1.0)


def test_a_trial_that_workers_die_of_has_failed_and_is_not_drawn_again(tmp_path):
    study = Study(config(tmp_path))
    trial = study.study.ask({"batch_size": optuna.distributions.CategoricalDistribution((20, 30))})
    params = trial.params
    study.study.tell(trial, state=optuna.trial.TrialState.FAIL)
    retry = optuna.storages.RetryHeartbeatStaleTrialCallback(RETRIES)
    for death in range(RETRIES):
        assert study.count("failed") == 0
        retry(study.study, study.trials()[-1])
        again = study.study.ask()
        assert again.number == death + 1
        study.study.tell(again, state=optuna.trial.TrialState.FAIL)
    retry(study.study, study.trials()[-1])
    assert len(study.trials()) == 1 + RETRIES  # no more
    results, _ = swept(tmp_path)
    assert sorted((trial.state, trial.note) for trial in results.trials) == [
        ("complete", ""),
        ("failed", "6 workers died of it"),
    ]
    assert next(trial for trial in results.trials if trial.state == "failed").values == params


def test_a_trial_whose_worker_never_gave_a_sign_of_life_is_drawn_anew(tmp_path, monkeypatch):
    study = Study(config(tmp_path))
    study.study.ask()
    study.recover()
    assert study.count("running") == 1  # it may be about to begin

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(seconds=70)

    monkeypatch.setattr("eigenview.sweeps.results.datetime", Later)
    study.recover()
    assert study.count("running") == 0
    results, _ = swept(tmp_path)
    assert [trial.state for trial in results.trials] == ["complete", "complete"]


def test_a_trial_without_memory_has_failed_and_the_others_go_on(tmp_path, monkeypatch):
    train = worker.train

    def trained(config, **more):
        if config.batch_size == 30:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory\nand more")
        return train(config, **more)

    monkeypatch.setattr(worker, "train", trained)
    results, told = swept(tmp_path)
    assert sum(line.startswith("chosen where nothing is given") and "optimizer.name muon" in line for line in told) == 1
    by_size = {trial.values["batch_size"]: trial for trial in results.trials}
    assert by_size[20].state == "complete"
    assert (by_size[30].state, by_size[30].value) == ("failed", None)
    assert by_size[30].note == "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"
    assert any("failed: [enforce" in line for line in told)


def test_a_worker_taken_for_dead_goes_on_and_its_trial_is_anothers(tmp_path, monkeypatch):
    train = worker.train

    def silent(config, **more):  # and meanwhile another worker declares the trial dead
        monkeypatch.setattr(worker, "train", train)
        study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{tmp_path}/sweep/study.db")
        (trial,) = [trial for trial in study.trials if trial.state.name == "RUNNING"]
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        optuna.storages.RetryHeartbeatStaleTrialCallback(RETRIES)(study, study.trials[trial.number])
        return train(config, **more)

    monkeypatch.setattr(worker, "train", silent)
    results, told = swept(tmp_path)
    assert [trial.state for trial in results.trials] == ["complete", "complete"]
    assert any("its trial was given to another one" in line for line in told)
    assert sorted(trial.run for trial in results.trials)[0] == "runs/trial-0000"  # the one begun, finished by the next


def test_a_run_that_is_still_written_is_waited_for(tmp_path, monkeypatch):
    given = config(tmp_path)
    one, told = Worker(given, told=(said := []).append), said
    one.study.study.enqueue_trial({"batch_size": 20}, user_attrs={RUN: "runs/trial-0007"})
    folder = RunDirectory(given.out / "runs/trial-0007")
    ev.train(SETTINGS["source"], out=folder.folder, batch_size=20, **{k: SETTINGS[k] for k in ("workers", "steps")})
    lock = folder.lock()
    lock.__enter__()
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            lock.__exit__()

    monkeypatch.setattr(worker.time, "sleep", sleep)
    results = one.run()
    assert len(waits) >= 3
    assert sum(line.startswith("waiting:") for line in told) == 1
    assert {trial.state for trial in results.trials} == {"complete"}
    assert "runs/trial-0007" in {trial.run for trial in results.trials}


class Reported:
    def __init__(self):
        self.seen = []

    def report(self, value, *, step):
        self.seen.append((step, value))

    def should_prune(self):
        return self.seen[-1][1] < 1


def test_runs_are_compared_at_the_end_of_epochs_and_by_tenths_of_their_minutes():
    def lines(seconds):
        yield {"step": 10, "epoch": 0, "effective_rank": 9.0, "seconds": 1.0}  # a first look, in the warm-up
        for epoch, (end, rank) in enumerate(zip(seconds, (5.0, 4.0, 3.0, 0.5), strict=True)):
            yield {"step": 20, "epoch": epoch, "effective_rank": rank, "seconds": end - 1}
            yield {"step": 20, "epoch": epoch + 1, "epoch_loss": 1.0, "seconds": end}

    for minutes, seconds, seen in (
        (None, (6.0, 12.0, 24.0, 60.0), [(1, 5.0), (2, 4.0), (3, 3.0), (4, 0.5)]),
        (2, (6.0, 12.0, 14.0, 60.0), [(1, 4.0), (5, 0.5)]),  # the second tenth had no end of its own
    ):
        trial = Reported()
        config = SimpleNamespace(minutes=minutes, epochs=None, steps=None)
        reporter = worker._Reporter(trial, "effective_rank", RuntimeError, config, answered=lambda ask: ask())
        with pytest.raises(RuntimeError, match="behind the others at"):
            list(map(reporter.measured, lines(seconds)))
        assert trial.seen == seen


@pytest.mark.parametrize("length", [{"epochs": 3}, {"steps": 60}, {"minutes": 1}])
def test_a_run_that_is_through_gives_its_figure(length):
    trial = Reported()
    config = SimpleNamespace(**{"minutes": None, "epochs": None, "steps": None, **length})
    reporter = worker._Reporter(trial, "effective_rank", RuntimeError, config, answered=lambda ask: ask())
    reporter.measured({"step": 40, "epoch": 2, "epoch_loss": 1.0, "effective_rank": 2.0, "seconds": 40.0})
    reporter.measured({"step": 60, "epoch": 3, "epoch_loss": 1.0, "effective_rank": 0.5, "seconds": 60.0})
    assert trial.seen[-1][1] == 0.5  # told, and not ended
    other = worker._Reporter(Reported(), "effective_rank", RuntimeError, config, answered=lambda ask: ask())
    with pytest.raises(RuntimeError, match="behind the others"):
        other.measured({"step": 40, "epoch": 2, "epoch_loss": 1.0, "effective_rank": 0.5, "seconds": 40.0})


def failing(monkeypatch, error, times):
    train, left = worker.train, [error] * times

    def trained(config, **more):
        if left:
            raise left.pop()
        return train(config, **more)

    monkeypatch.setattr(worker, "train", trained)


def test_a_fault_of_the_machine_takes_no_trial(tmp_path, monkeypatch):
    failing(monkeypatch, WriteError("no space left on the disk"), 1)
    with pytest.raises(WriteError, match="no space left"):
        swept(tmp_path)
    results, told = swept(tmp_path)
    assert [trial.state for trial in results.trials] == ["complete", "complete"]
    assert len({trial.values["batch_size"] for trial in results.trials}) == 2
    assert all(trial.chosen["optimizer.name"] == "muon" for trial in results.trials)
    assert not any("failed" in line for line in told)


def test_a_library_that_is_missing_fails_only_trials_that_name_it(tmp_path, monkeypatch):
    failing(monkeypatch, MissingLibraryError("timm is not installed"), 1)
    results, _ = swept(tmp_path, search={"encoder.name": ["small", "small-deep"]})
    assert sorted(trial.state for trial in results.trials) == ["complete", "failed"]


def test_a_worker_that_is_stopped_gives_back_what_is_still_its_own(tmp_path, monkeypatch):
    train = worker.train

    def stopped(config, **more):  # by Ctrl-C, after another worker took this one for dead
        monkeypatch.setattr(worker, "train", train)
        study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{tmp_path}/sweep/study.db")
        (trial,) = [trial for trial in study.trials if trial.state.name == "RUNNING"]
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        optuna.storages.RetryHeartbeatStaleTrialCallback(RETRIES)(study, study.trials[trial.number])
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "train", stopped)
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path)
    results, _ = swept(tmp_path)
    assert [trial.state for trial in results.trials] == ["complete", "complete"]  # none of them twice


def test_a_fault_in_every_trial_does_not_take_all_of_them(tmp_path, monkeypatch):
    failing(monkeypatch, DataError("photos/ is gone"), 3)
    more = {"search": {"seed": {"low": 0, "high": 99}}, "trials": 5}
    with pytest.raises(DataError, match="3 trials in a row failed alike, so this worker stops: photos/ is gone"):
        swept(tmp_path, **more)
    kept = read_results(tmp_path / "sweep")
    assert [trial.note for trial in kept.trials] == ["photos/ is gone"] * 3
    results, _ = swept(tmp_path, **more)
    assert [trial.state for trial in results.trials].count("complete") == 2


@pytest.mark.parametrize("where", ["recover", "results", "report", "set_user_attr"])
def test_a_database_that_is_silent_for_a_while_is_asked_again(tmp_path, monkeypatch, where):
    """Before a trial, after it, while its run is trained, as it says what was chosen."""
    owner = optuna.trial.Trial if where in ("report", "set_user_attr") else Study
    real, left, asked = getattr(owner, where), [optuna.exceptions.StorageInternalError("gone away")] * 2, []

    def silent(self, *arguments, **more):
        asked.append(where)
        if left and (where != "set_user_attr" or arguments[0] == "chosen"):
            raise left.pop()
        return real(self, *arguments, **more)

    monkeypatch.setattr(owner, where, silent)
    monkeypatch.setattr(worker, "PATIENCE", 2.0)  # a trial may take longer than that
    results, told = swept(tmp_path, settings={**SETTINGS, "steps": 30, "log_every": 1})
    assert sum("does not answer (gone away); trying again" in line for line in told) == 2
    assert [trial.state for trial in results.trials] == ["complete", "complete"]
    assert len(asked) > 2


def test_a_database_that_stays_silent_ends_the_worker_in_words(tmp_path, monkeypatch):
    def silent(*_, **__):
        raise optuna.exceptions.StorageInternalError("gone away")

    monkeypatch.setattr(worker, "PATIENCE", 0.0)
    with monkeypatch.context() as gone:
        gone.setattr(optuna.trial.Trial, "report", silent)
        with pytest.raises(DataError, match="the database does not answer: gone away"):
            swept(tmp_path, settings={**SETTINGS, "steps": 30, "log_every": 1})
    results, _ = swept(tmp_path, settings={**SETTINGS, "steps": 30, "log_every": 1})
    assert [trial.state for trial in results.trials] == ["complete", "complete"]


def test_what_was_chosen_is_kept_with_each_trial(tmp_path):
    results, told = swept(tmp_path)
    assert {trial.chosen["optimizer.name"] for trial in results.trials} == {"muon"}
    rows = pq.read_table(tmp_path / "sweep/trials.parquet").to_pylist()
    assert all('"optimizer.name": "muon"' in row["chosen"] for row in rows)
    assert any(line.startswith("1 of 2 trials done, about") for line in told)


def test_a_sweep_says_that_it_can_end_no_run_early(tmp_path):
    for objective, pruner, is_said in (("knn", "median", 1), ("knn", "none", 0)):
        more = {"objective": objective, "pruner": pruner, "out": tmp_path / pruner}
        _, told = swept(tmp_path, settings={**SETTINGS, "knn_every": 0}, **more)
        assert sum(line.startswith("no run is ended early") for line in told) == is_said
