"""A text encoder and a target encoder of a user's own, from a file outside the package, in Python and by command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import eigenview as ev
from eigenview.cli import main
from eigenview.errors import DataError, SettingError
from eigenview.runs import RunDirectory, merge_settings
from eigenview.training import train
from tests.cli.commands import eigenview, succeeded
from tests.cli.test_captions import colour_of, picture, told_json, write_list

CODE = """
import torch
from torch import nn


class Bag(nn.Module):
    feature_width = 8

    def __init__(self, *, vocabulary, length):
        super().__init__()
        self.words = nn.Embedding(vocabulary, self.feature_width, padding_idx=0)

    def forward(self, tokens):
        return self.words(tokens).mean(dim=1)


def letters(texts):
    return torch.tensor([[1.0 + text.count(letter) for letter in "abcde"] for text in texts])
"""
BAG = "words_code:Bag"
OF_TEXT = {"text": {"name": BAG, "vocabulary": 300}, "soft_targets": True, "target_encoder": "words_code:letters"}
SMALL = {"batch_size": 8, "workers": 0, "encoder": {"name": "small", "width": 0.25}, "views": {"size": 24}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("own words")
    (folder / "words_code.py").write_text(CODE, encoding="utf-8")
    rows = []
    for number in range(16):
        (folder / f"{number}.jpg").write_bytes(picture(colour_of(number), number))
        rows.append({"path": f"{number}.jpg", "caption": f"a {colour_of(number)} thing, number {number}"})
    write_list(folder / "captions.csv", rows)
    return folder


def test_python_trains_it_and_uses_it(shop, monkeypatch):
    monkeypatch.chdir(shop)
    monkeypatch.syspath_prepend(str(shop))
    run = ev.train("captions.csv", out="python", method="clip", method_settings=OF_TEXT, steps=2, listeners=[], **SMALL)
    (answer,) = run.find("a red thing", k=3)
    again = ev.open_run("python", text_encoder=BAG)
    assert again.find("a red thing", k=3) == (answer,)
    assert again.evaluate("captions.csv", protocols=["captions"]) == run.evaluate(
        "captions.csv", protocols=["captions"]
    )
    assert again.diagnose().figures.modalities == run.diagnose().figures.modalities
    with pytest.raises(DataError, match=r"name it in this call \(--text-encoder words_code:Bag, or text_encoder=\)"):
        ev.open_run("python").find("a red thing")
    with pytest.raises(SettingError, match="runs only if this very call names it"):
        ev.train(run.config.model_copy(update={"out": shop / "from a file"}), listeners=[])
    goes_on = ev.train(run.config.model_copy(update={"steps": 3}), method_settings=OF_TEXT, resume=True, listeners=[])
    assert goes_on.directory.checkpoints.load("last").state["progress"]["step"] == 3


def test_what_the_command_prints_at_the_end_works(shop, monkeypatch):
    words = ["--method", "clip", "--method-settings.text.name", BAG, "--method-settings.text.vocabulary", "300"]
    words += ["--encoder", "small", "--encoder.width", "0.25", "--views.size", "24", "--workers", "0"]
    said = succeeded(
        eigenview("train", "captions.csv", *words, "--batch-size", "8", "--steps", "2", "--out", "command", folder=shop)
    )
    (line,) = (line for line in said.splitlines() if "--text" in line)
    assert line.endswith(f"--text-encoder {BAG}")
    succeeded(eigenview(*shlex.split(line)[1:], folder=shop))
    told = told_json(*shlex.split(line)[1:], "-k", "3", folder=shop)
    monkeypatch.chdir(shop)
    (answer,) = ev.open_run("command", text_encoder=BAG).find("WORDS", k=3)
    assert [near.cosine for near in answer.neighbours] == [near["cosine"] for near in told[0]["neighbours"]]
    for verb in (["diagnose", "command"], ["evaluate", "command", "captions.csv", "--protocol", "captions"]):
        succeeded(eigenview(*verb, "--text-encoder", BAG, folder=shop))
        answer = eigenview(*verb, folder=shop)
        assert answer.returncode == 2
        assert f"name it in this call (--text-encoder {BAG}, or text_encoder=)" in answer.stderr
    again = ["--resume", "--out", "command", "--method", "clip", "--method-settings.text.name", BAG, "--steps", "3"]
    succeeded(eigenview("train", *again, "--no-look", folder=shop))
    run = RunDirectory(shop / "command")
    assert run.checkpoints.load("last").state["progress"]["step"] == 3
    assert run.config.method_settings.model_dump()["text"]["vocabulary"] == 300


def test_what_goes_on_with_a_stopped_run_names_all_of_its_code(shop, monkeypatch, capsys):
    def stopped(*given: object, **options: object) -> None:
        train(*given, **options)
        raise KeyboardInterrupt

    monkeypatch.chdir(shop)
    own = ["--method-settings.text.name", BAG, "--method-settings.target-encoder", "words_code:letters"]
    words = ["--method-settings.soft-targets", "--encoder", "small", "--encoder.width", "0.25", "--workers", "0"]
    words += ["--steps", "1", "--out", "stopped", "--no-look"]
    with monkeypatch.context() as patched:
        patched.setattr("eigenview.cli.train.train", stopped)
        assert main(["train", "captions.csv", "--method", "clip", *own, *words]) == 130
    told = capsys.readouterr().err.partition("Go on with: eigenview ")[2]
    assert f"--resume --out stopped --method clip {shlex.join(own)}" in told
    assert main([*shlex.split(told), "--steps", "2", "--no-look"]) == 0
    assert RunDirectory("stopped").checkpoints.load("last").state["progress"]["step"] == 2


def test_one_setting_of_a_group_within_a_group_leaves_the_others():
    before = {"method": "clip", "method_settings": {"text": {"name": "transformer", "width": 64}, "head": "clip"}}
    merged = merge_settings(before, {"method_settings": {"text": {"name": BAG}}})
    assert merged["method_settings"] == {"text": {"name": BAG, "width": 64}, "head": "clip"}
