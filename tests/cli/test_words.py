"""What is typed wrongly is answered in one line with what was meant, and exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenview.cli import main
from eigenview.cli.entry import VERBS
from eigenview.cli.train import settings_among
from eigenview.errors import SettingError
from eigenview.runs import merge_settings

MISTAKES = {
    "trian photos": "did you mean train?",
    "data chek photos": "did you mean check?",
    "evaluate": "is missing",
    "data check no/such/place": "no such folder or file: no/such/place",
    "data check digits --jsn": "did you mean --json?",
    "data check digits more": "too much was given: more",
    "data check digits --workers few": "--workers",
    "train digits --epoch 3": "did you mean --epochs?",
    "train digits --views.crops [{}]": "--views.crops is JSON, list of {size, count, scale}; 0.size is missing",
    "train digits --learning_rate 1": "did you mean --optimizer.learning-rate?",
    "train digits --temperature 1": "did you mean --method-settings.temperature?",
    "train digits --epochs few": "--epochs is a whole number ≥ 1; got 'few'",
    "train digits --optimizer.name sgdm": "did you mean sgd?",
    "train digits --method simlcr": "did you mean simclr?",
    "train digits --method simclr --kernel laplacian": "simclr has no kernel to choose",
    "train digits --epochs 1 --steps 1": "a run's length is one of epochs, steps, minutes; got epochs and steps",
    "train digits --epochs 0": "--epochs is a whole number ≥ 1; got '0'",
    "train --epochs 1": "SOURCE is missing",
    "train shapez": "no such folder or file: shapez; did you mean shapes? (sets: digits, shapes, cifar10",
    "data check cifra10:/data/cifar": "did you mean cifar10? (sets: digits",
    "data check foldr:/photos": "did you mean folder?",
    "train --resume": "--resume needs the run",
    "train digits --from best": "--from says where to go on: give --resume too",
    "train digits --encoder smal --out new": "did you mean small?",
    "train digits --views simclr-cifr --out new": "did you mean simclr-cifar?",
    "train digits --steps 1 --device cuda:0": "--device is one of auto, cpu, cuda, mps",
    "evaluate nowhere digits --protocol spectral": "spectral-clustering",
    "evaluate nowhere digits --protocol zeroshot": "'zeroshot' is no protocol; did you mean zero-shot?",
    "evaluate nowhere digits --protocol xyz": ", captions, zero-shot; got 'xyz'",
    "evaluate nowhere digits --protocol captions xyz": "got 'xyz'",
    "diagnose nowhere --device gpu": "--device is one of auto, cpu, cuda, mps; got 'gpu'",
    "train --resume --out nowhere": "no run to go on with in nowhere",
    "train digits --config missing.json": "missing.json",
    "evaluate nowhere digits": "nowhere is no run directory",
    "evaluate --protocol knn nowhere digits": "RUN|ENCODER|FILE is missing: a run directory, an encoder by name, or",
    "evaluate nowhere digits --protocol": "is no run directory",
    "compare nowhere": "nowhere is no run directory",
    "compare": "RUN|FILE|ENCODER is missing: runs and files of vectors",
    "report nowhere": "nowhere",
    "diagnose nowhere": "nowhere is no run directory, no file and no encoder; is the path right?",
    "diagnose efficientnet-lit0": "no file and no encoder; did you mean efficientnet-lite0?\n",
    "diagnose nan.npy": "nan.npy must be",
    "diagnose one.npy": "one.npy must have at least 2 rows here; got 1",
    "diagnose three.npy --second two.npy": "got three.npy (3, 2), two.npy (2, 2)",
    "evaluate missing.npy digits": "no such file: missing.npy; is the path right?",
    "compare missing.npy": "no such file: missing.npy; is the path right?",
    "evaluate two.npy digits --protocol knn finetune": "two.npy holds vectors, and finetune runs an encoder",
    "diagnose small digits --weights note.txt": "note.txt cannot be read by torch; is it cut short, or no file",
    "embed efficientnet-lite0 digits --size 5": "efficientnet-lite0 needs images of at least 16 pixels",
    "embed nowhere digits": "nowhere",
    "neighbours nowhere.npy 3": "nowhere.npy",
    "neighbours nowhere.npy": "name a picture (QUERY), or give words (--text)",
    "neighbours nowhere.npy 3 -out alike.png": "has no option -out; did you mean --out?",
    "neighbours nowhere.npy 3 --out --json": "--out needs a value",
    "neighbours nowhere.npy 3 --json=yes": "--json takes no value",
    "neighbours nowhere.npy 3 -k 0": "--k is a whole number ≥ 1; got '0'",
    "export nowhere": "--to is missing",
    "export nowhere --to tensorflow": "--to is one of",
    "recipes show simclr-cifar": "did you mean simclr-cifar10?",
    "recipes run digits-demp": "did you mean digits-demo?",
    "lab run graph-couplin --quick": "did you mean graph-coupling?",
    "views show digits --count 0": "--count is a whole number ≥ 1; got '0'",
    "views show digits --preset simclr": "did you mean simclr-cifar?",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line_with_what_was_meant(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    for name, rows in (("nan", [[1.0, 2.0], [np.nan, 1.0]]), ("one", [[1.0, 2.0]]), ("two", np.eye(2))):
        np.save(f"{name}.npy", np.asarray(rows))
    np.save("three.npy", np.ones((3, 2)))
    Path("note.txt").write_text("remember the milk")
    assert main(words.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("eigenview: ")
    assert said.err.count("\n") == 1
    assert MISTAKES[words] in said.err


def test_help_names_every_verb_and_teaches_by_example(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert all(f"  {name} " in overview for name in VERBS)
    for name in VERBS:
        with pytest.raises(SystemExit) as stopped:
            main([*name.split(), "--help"])
        assert not stopped.value.code
        assert f"eigenview {name}" in capsys.readouterr().out


def test_train_offers_the_settings_of_the_method_that_was_named(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["train", "--method", "swav", "--help"])
    said = capsys.readouterr().out
    assert "--method-settings.prototypes" in said
    assert "one of nn.HEADS" in said  # the model's own comments are the help


def test_a_bug_keeps_its_traceback(monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("eigenview.cli.lab_list.run", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["lab", "list"])


def test_options_win_over_a_config_file_and_a_length_replaces_a_length(tmp_path: Path):
    file = tmp_path / "settings.json"
    stored = {"epochs": 5, "optimizer": {"learning_rate": 0.5, "momentum": 0.8}, "seed": None}
    file.write_text(json.dumps(stored))
    given = settings_among({"minutes": 2.0, "optimizer": {"learning_rate": 0.1}}, config=file)
    assert given == {"minutes": 2.0, "optimizer": {"learning_rate": 0.1, "momentum": 0.8}}


def test_another_method_forgets_the_settings_of_the_one_before():
    base = {"method": "swav", "method_settings": {"prototypes": 3}, "seed": 1}
    assert merge_settings(base, {"method": "simclr"}) == {"method": "simclr", "seed": 1}
    assert merge_settings(base, {"method": "swav", "seed": 2}) == {**base, "seed": 2}


def test_a_kernel_implies_its_method():
    given = settings_among({"encoder": {"width": 0.5}}, kernel="laplacian")
    assert given["method"] == "kernel-infonce"
    assert given["method_settings"] == {"kernel": "laplacian"}
    assert given["encoder"] == {"width": 0.5}
    assert settings_among({"method": "moco"}, kernel="Laplacian(0.2)")["method"] == "moco"
    with pytest.raises(SettingError, match="use --method kernel-infonce or random-walk or moco"):
        settings_among({"method": "swav"}, kernel="laplacian")


def test_the_page_of_settings_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "make_settings.py"
    answer = subprocess.run([sys.executable, str(page), "--check"], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
