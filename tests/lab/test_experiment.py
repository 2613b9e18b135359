"""From an experiment to its files."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from eigenview.errors import DataError, SettingError
from eigenview.lab import EXPERIMENTS, Experiment, LabSettings, Outcome, experiment, run_experiment
from eigenview.lab.figures import COLOURS, panels
from eigenview.names import Table

EXAMPLE = Path(__file__).parents[2] / "examples" / "laboratory.py"


def drawn(settings: LabSettings) -> Outcome:
    figure, (axis,) = panels()
    axis.plot([0, 1], [settings.seed, 1])
    return Outcome({"seed": settings.seed}, {"": figure, "again": figure}, ["a line"])


@pytest.fixture
def small(monkeypatch):
    entry = Experiment("small", "Small", "It is small.", drawn)
    monkeypatch.setattr(experiment, "EXPERIMENTS", Table("experiment", {"small": entry}))


@pytest.mark.usefixtures("small")
def test_an_experiment_becomes_one_json_and_its_figures(tmp_path):
    files = run_experiment("small", tmp_path / "new" / "folder", settings=LabSettings(seed=3))
    assert [file.name for file in files] == ["small.json", "small.png", "small-again.png"]
    page = json.loads(files[0].read_text(encoding="utf-8"))
    assert page["claim"] == "It is small."
    assert page["findings"] == ["a line"]
    assert page["data"] == {"seed": 3}
    assert page["settings"] == {"seed": 3, "is_quick": False, "data": None}
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files[1:])
    assert sorted(file.name for file in files[0].parent.iterdir()) == ["small-again.png", "small.json", "small.png"]


@pytest.mark.usefixtures("small")
def test_the_same_settings_write_the_same_bytes(tmp_path):
    first, second = (run_experiment("small", tmp_path / name) for name in "ab")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_listing_the_experiments_imports_none_of_them():
    script = (
        "import sys; from eigenview.lab import EXPERIMENTS; print(len(EXPERIMENTS)); "
        "print([name for name in sys.modules if 'matplotlib' in name or name.startswith('eigenview.lab.')])"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [str(len(EXPERIMENTS)), "['eigenview.lab.experiment']"]


def test_names_are_keys_and_claims_are_sentences():
    for name, entry in EXPERIMENTS.items():
        assert entry.name == name
        assert entry.claim.endswith(".")
        assert not entry.title.endswith(".")


def test_the_example_lists_and_runs(tmp_path):
    listed = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in listed.stdout.splitlines()[::2]] == list(EXPERIMENTS)
    command = [sys.executable, "-W", "error", str(EXAMPLE), "laplacian-form", "--quick", "--out", str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["laplacian-form.json", "laplacian-form.png"]


def test_colours_differ():
    assert len(set(COLOURS)) == len(COLOURS)


def test_an_unknown_experiment_is_refused_with_the_names_there_are(tmp_path):
    with pytest.raises(SettingError, match=r"experiment must be one of graph-coupling, .*; got 'magic'"):
        run_experiment("magic", tmp_path)


def test_a_missing_module_is_named(monkeypatch, tmp_path):
    entry = Experiment("lost", "Lost", "It is lost.", partial(experiment.run_module, "lost"))
    monkeypatch.setattr(experiment, "EXPERIMENTS", Table("experiment", {"lost": entry}))
    with pytest.raises(SettingError, match=r"no module eigenview\.lab\.lost"):
        run_experiment("lost", tmp_path)


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_a_seed_that_is_no_number_from_zero_is_refused(seed):
    with pytest.raises(SettingError, match="whole number from 0"):
        LabSettings(seed=seed)


@pytest.mark.usefixtures("small")
def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot write .*small\.json: a file is in the place of its folder"):
        run_experiment("small", tmp_path / "file")
