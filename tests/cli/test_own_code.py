"""A method, a loss, an encoder and a source of a user's own, from a file outside the package, through every verb."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import eigenview as ev
from eigenview.cli import main
from eigenview.errors import SettingError
from eigenview.runs import RunDirectory
from tests.cli.commands import eigenview, succeeded

CODE = """
import math
from pathlib import Path

import numpy as np
from pydantic import Field
from torch import nn

from eigenview.data import ArraySource
from eigenview.losses import info_nce
from eigenview.methods import MethodSettings
from eigenview.methods.pairwise import PairwiseMethod

Path("imported").touch()  # whoever imports it leaves a trace


class WarmSettings(MethodSettings):
    warmth: float = Field(0.5, gt=0)  # how warm it is


class Warm(PairwiseMethod):
    settings_type = WarmSettings

    def loss(self, views, batch):
        return info_nce(*views, temperature=self.settings.warmth, group=self.context.group)

    def chance_level(self, items):
        return math.log(self.view_count * items - 1)


def pull(*views, group=None):
    return info_nce(*views, temperature=0.3, group=group)


def tiny(channels, image_size):
    return nn.Sequential(nn.Conv2d(channels, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def squares(count="30"):
    random, labels = np.random.default_rng(0), np.arange(int(count)) % 2
    pixels = random.integers(0, 100, (len(labels), 16, 16, 3), dtype=np.uint8) + 100 * labels[:, None, None, None]
    return ArraySource(pixels.astype(np.uint8), labels=labels)
"""
OWN = ["--encoder", "warm_code:tiny"]
SQUARES = "warm_code:squares?count=40"


METHODS = {
    "a method": ["--method", "warm_code:Warm", "--method-settings.warmth", "0.3"],
    "a loss": ["--method", "warm_code:pull"],
}


@pytest.fixture(scope="module", params=METHODS)
def shop(request, tmp_path_factory) -> Path:
    """A folder with the code, and with the run ``own`` by the user's own method or loss, encoder and source."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "warm_code.py").write_text(CODE, encoding="utf-8")
    words = ["train", SQUARES, *METHODS[request.param], *OWN, "--steps", "3", "--out", "own", "--workers", "0"]
    said = succeeded(eigenview(*words, folder=folder))
    assert f"{METHODS[request.param][1]} with warm_code:tiny into own" in said
    assert f"eigenview neighbours own PICTURE --source '{SQUARES}' --encoder warm_code:tiny" in said
    return folder


def test_code_of_ones_own_goes_through_every_verb(shop: Path):
    run = RunDirectory(shop / "own")
    named = ["--method", run.config.method, *OWN]
    resume = ["train", "--resume", SQUARES, *named, "--out", "own", "--steps", "5", "--no-look", "--workers", "0"]
    succeeded(eigenview(*resume, folder=shop))
    assert run.checkpoints.load("last").state["progress"]["step"] == 5
    measured = succeeded(eigenview("evaluate", "own", SQUARES, "--protocol", "knn", *OWN, "--json", folder=shop))
    assert {score["subject"] for score in json.loads(measured)} >= {"own", "untrained", "raw pixels"}
    succeeded(eigenview("diagnose", "own", SQUARES, *OWN, folder=shop))
    succeeded(eigenview("embed", "own", SQUARES, "-o", "own.npy", *OWN, folder=shop))
    succeeded(eigenview("export", "own", "--to", "safetensors", *OWN, folder=shop))
    succeeded(eigenview("report", "own", folder=shop))
    assert "warm_code:" in (shop / "own" / "report.html").read_text(encoding="utf-8")


def test_settings_of_a_run_never_import_code_by_themselves(shop: Path):
    (shop / "imported").unlink()
    succeeded(eigenview("report", "own", folder=shop))
    photos, resume = "shapes?count=40&size=16", ["train", "--resume", "--out", "own", "--steps", "7"]
    verbs = [["evaluate", "own", photos], ["embed", "own", photos], ["diagnose", "own", photos]]
    for words in (*verbs, ["export", "own", "--to", "safetensors"]):
        answer = eigenview(*words, folder=shop)
        assert answer.returncode == 2, words
        assert "name it in this call (--encoder warm_code:tiny" in answer.stderr
    for words in (resume, ["diagnose", "own"]):
        answer = eigenview(*words, folder=shop)
        assert answer.returncode == 2
        assert "warm_code:" in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
    assert not (shop / "imported").exists()
    answer = eigenview(*resume, SQUARES, *OWN, folder=shop)  # its method is still not named
    assert answer.returncode == 2
    method = RunDirectory(shop / "own").config.method
    assert f"method {method} is code of a user's own, which runs only if this very call names it" in answer.stderr


def test_settings_that_were_read_from_a_file_run_no_code_in_python_either(shop: Path, monkeypatch):
    monkeypatch.chdir(shop)
    (shop / "imported").unlink(missing_ok=True)
    config = ev.open_run("own").config.model_copy(update={"out": shop / "again"})
    with pytest.raises(SettingError, match="runs only if this very call names it"):
        ev.train(config, listeners=[])
    assert not (shop / "imported").exists()


def test_the_help_knows_the_settings_of_a_method_of_ones_own(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warm_code.py").write_text(CODE, encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["train", "--method", "warm_code:Warm", "--help"])
    assert "how warm it is (> 0; default 0.5)" in capsys.readouterr().out
    assert main(["train", "x", "--method", "warm_code:Warm", "--method-settings.warmth", "0"]) == 2
    assert "--method-settings.warmth is a number > 0; got '0'" in capsys.readouterr().err


@pytest.fixture
def counted(tmp_path, monkeypatch) -> str:
    """A source of one's own that leaves a word in the file ``opened`` whenever it is opened."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    count = "\n    with Path('opened').open('a') as file:\n        file.write('once ')\n"
    head = 'def squares(count="30"):'
    (tmp_path / "counted_code.py").write_text(CODE.replace(head, head + count))
    yield "counted_code:squares?count=40"
    sys.modules.pop("counted_code")


def test_a_look_opens_its_source_once(counted, tmp_path):
    assert main(["look", counted, "--encoder", "small", "--keep-in", "by command"]) == 0
    assert (tmp_path / "opened").read_text() == "once "
    ev.look(counted, encoder="small", keep_in="by Python")
    assert (tmp_path / "opened").read_text() == "once once "


@pytest.mark.parametrize("verb", [["diagnose"], ["evaluate", "--protocol", "knn"], ["embed"], ["compare"]])
def test_an_encoder_by_name_opens_its_source_once(verb, counted, tmp_path):
    name, *options = verb
    images = ["--unlabelled", counted] if name == "compare" else [counted]
    assert main([name, "small", *images, *options]) == 0
    assert (tmp_path / "opened").read_text() == "once "


def test_training_opens_its_source_once(counted, tmp_path):
    given = ["--steps", "2", "--encoder.width", "0.25", "--workers", "0"]
    assert main(["train", counted, "--out", "by command", *given]) == 0
    assert (tmp_path / "opened").read_text() == "once "
    encoder = {"name": "small", "width": 0.25}
    ev.train(counted, out="by Python", steps=2, encoder=encoder, workers=0, listeners=[])
    assert (tmp_path / "opened").read_text() == "once once "


OF_PYTHON = {"method": {"method": "counted_code:Warm"}, "loss": {"method": "counted_code:pull"}}


@pytest.mark.parametrize("kind", OF_PYTHON)
def test_code_of_ones_own_goes_through_every_verb_of_python(kind, counted):
    named = {**OF_PYTHON[kind], "encoder": "counted_code:tiny"}
    run = ev.train(counted, out="own", steps=2, workers=0, listeners=[], **named)
    run = ev.train(counted, out="own", steps=3, resume=True, listeners=[], **named)
    assert run.metrics[-1]["step"] == 3
    for opened in (run, ev.open_run("own", encoder="counted_code:tiny")):
        subjects = {score.subject for score in opened.evaluate(counted, protocols=["knn"])}
        assert subjects >= {"own", "untrained", "raw pixels"}
        assert opened.diagnose(counted).figures.n == 40
        assert opened.embed(counted).array.shape == (40, 8)
        assert opened.report().is_file()
        assert opened.export().path.is_file()
        assert opened.export("onnx").path.is_file()


def test_what_stands_beside_a_whole_config_is_refused(tmp_path):
    config = ev.read_config({"source": "digits", "out": tmp_path / "run", "steps": 2, "encoder": {"width": 0.25}})
    for beside in ({"out": "other"}, {"views": "digits"}, {"encoder": "resnet18"}, {"method": "simclr"}, {"steps": 3}):
        (name,) = beside
        with pytest.raises(SettingError, match=f"^{name} is given beside a whole TrainConfig"):
            ev.train(config, listeners=[], **beside)


def test_a_source_of_ones_own_is_taken_by_every_verb_of_python(counted, monkeypatch):
    run = ev.open_encoder("small", counted)
    assert {score.subject for score in run.evaluate(counted, protocols=["knn"])} >= {"raw pixels"}
    assert run.diagnose(counted).figures.n == 40
    embeddings = run.embed(counted, "own.npy")
    assert embeddings.labels.tolist() == [0, 1] * 20
    assert embeddings.duplicates(source=counted).copies == 0
    assert embeddings.audit(source=counted).copies.copies == 0
    assert ev.compare(run, unlabelled=counted)[run.folder.name].rank_me > 1
    pages = []
    monkeypatch.setattr("eigenview.app.serving.serve_page", lambda page, **_: pages.append(page))
    embeddings.label(source=counted)
    assert len(pages[0].source) == 40
    assert {score.subject for score in embeddings.evaluate(counted, protocols=["knn"])} == {"own"}
    with pytest.raises(SettingError, match="runs only if this very call names it"):
        run.diagnose()  # its folder names the source; this call does not


def test_a_source_of_ones_own_is_swept_over_in_python(counted):
    settings = {"source": counted, "steps": 2, "encoder": {"width": 0.25}, "batch_size": 8, "workers": 0}
    results = ev.sweep(
        out="swept",
        search={"seed": [1, 2]},
        settings=settings,
        trials=1,
        objective="effective-rank",
        listeners=[],
    )
    assert [trial.state for trial in results.trials] == ["complete"]
