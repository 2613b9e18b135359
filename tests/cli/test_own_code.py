"""A method, an encoder and a source of a user's own, from a file outside the package, through every verb."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eigenview.cli import main

CODE = """
import math

import numpy as np
from pydantic import Field
from torch import nn

from eigenview.data import ArraySource
from eigenview.losses import info_nce
from eigenview.methods import MethodSettings
from eigenview.methods.pairwise import PairwiseMethod


class WarmSettings(MethodSettings):
    warmth: float = Field(0.5, gt=0)  # how warm it is


class Warm(PairwiseMethod):
    settings_type = WarmSettings

    def loss(self, views, batch):
        return info_nce(*views, temperature=self.settings.warmth, group=self.context.group)

    def chance_level(self, items):
        return math.log(self.view_count * items - 1)


def tiny(channels, image_size):
    return nn.Sequential(nn.Conv2d(channels, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def squares():
    random, labels = np.random.default_rng(0), np.arange(40) % 2
    pixels = random.integers(0, 100, (40, 16, 16, 3), dtype=np.uint8) + 100 * labels[:, None, None, None]
    return ArraySource(pixels.astype(np.uint8), labels=labels)
"""
OWN = ["--encoder", "warm_code:tiny"]
SQUARES = "warm_code:squares"


@pytest.fixture
def run(tmp_path: Path, monkeypatch, capsys) -> str:
    """A run with the user's own method, encoder and source."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warm_code.py").write_text(CODE, encoding="utf-8")
    own = ["--method", "warm_code:Warm", "--method-settings.warmth", "0.3", *OWN]
    assert main(["train", SQUARES, *own, "--steps", "3", "--out", "own", "--workers", "0"]) == 0
    said = capsys.readouterr().out
    assert "warm_code:Warm with warm_code:tiny into own" in said
    assert "eigenview neighbours own PICTURE --source warm_code:squares --encoder warm_code:tiny" in said
    settings = json.loads((tmp_path / "own" / "config.json").read_text(encoding="utf-8"))
    assert settings["method_settings"]["warmth"] == 0.3
    return "own"


def test_code_of_ones_own_goes_through_every_verb(run: str, capsys):
    again = ["train", "--resume", "--out", run, "--steps", "5", "--no-look", "--workers", "0"]
    assert main([*again, "--method", "warm_code:Warm", *OWN, SQUARES]) == 0
    capsys.readouterr()
    assert main(["evaluate", run, SQUARES, "--protocol", "knn", *OWN, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {score["subject"] for score in scores} >= {"own", "untrained", "raw pixels"}
    assert main(["diagnose", run, SQUARES, *OWN]) == 0
    assert main(["embed", run, SQUARES, "-o", "own.npy", *OWN]) == 0
    assert main(["neighbours", "own.npy", "0", "-k", "1", "-o", "alike.png"]) == 0
    assert main(["export", run, "--to", "safetensors", *OWN]) == 0
    assert main(["report", run]) == 0


def test_code_that_the_command_does_not_name_is_not_run(run: str, capsys):
    for words in (["evaluate", run, SQUARES], ["embed", run, SQUARES], ["export", run, "--to", "safetensors"]):
        assert main(words) == 2
        assert "name it in this call (--encoder warm_code:tiny" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", run, "--steps", "5"]) == 2
    assert "warm_code" in capsys.readouterr().err


def test_the_help_knows_the_settings_of_a_method_of_ones_own(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warm_code.py").write_text(CODE, encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["train", "--method", "warm_code:Warm", "--help"])
    assert "how warm it is (> 0; default 0.5)" in capsys.readouterr().out
    assert main(["train", "x", "--method", "warm_code:Warm", "--method-settings.warmth", "0"]) == 2
    assert "--method-settings.warmth is a number > 0; got '0'" in capsys.readouterr().err
