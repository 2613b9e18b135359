"""Settings: strict, JSON both ways, and clear about what was meant."""

from __future__ import annotations

import json

import pytest

from eigenview.errors import DataError, SettingError
from eigenview.methods import METHODS
from eigenview.runs import merge_settings, read_config
from eigenview.runs.config import load_config, save_config

BASE = {"source": "digits", "out": "runs/x", "epochs": 1}


@pytest.mark.parametrize("name", METHODS)
def test_every_methods_settings_survive_json(name, tmp_path):
    config = read_config({**BASE, "method": name})
    assert type(config.method_settings) is METHODS[name].settings_type
    save_config(tmp_path / "config.json", config)
    assert load_config(tmp_path / "config.json") == config


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epoch": 3}, "no setting is called epoch; did you mean epochs?"),
        (
            {"optimizer": {"learning_rat": 1}},
            "no setting is called optimizer.learning_rat; did you mean learning_rate?",
        ),
        ({"method_settings": {"temprature": 0.1}}, "no setting is called temprature; did you mean temperature?"),
        ({"method_settings": {"temperature": -1}}, "temperature: Input should be greater than 0; got -1"),
        ({"method": "simlcr"}, "did you mean simclr?"),
        ({"batch_size": "many"}, "batch_size: .*got 'many'"),
        ({"batch_size": 1}, "batch_size: .*greater than or equal to 2; got 1"),
        ({"steps": 3}, "one of epochs, steps, minutes; got epochs and steps"),
        ({"epochs": None}, "one of epochs, steps, minutes; got none"),
        ({"precision": "8"}, "precision: "),
        ({"optimizer": {"name": "muom"}}, "optimizer.name: Input should be .*; got 'muom'; did you mean muon\\?$"),
        ({"encoder": {"width": 1e30}}, "encoder.width: Input should be less than or equal to 16"),
        ({"source": None}, "source: "),
        ({"method": ["simclr"]}, "method: Input should be a valid string"),
        ({"method_settings": [1]}, "method_settings: "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given, message):
    with pytest.raises(SettingError, match=message) as caught:
        read_config({**BASE, **given})
    assert "\n" not in str(caught.value)


def test_a_missing_setting_is_named():
    with pytest.raises(SettingError, match=r"^source is missing$"):
        read_config({"out": "x", "epochs": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON: .*cut short"),
        ("[]", "must hold a JSON object; it holds list"),
        ('{"format": 3}', "has format 3; this version reads up to 2: update eigenview"),
        ('{"format": "new"}', "has format new"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(text, message, tmp_path):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises((SettingError, DataError), match=message):
        load_config(tmp_path / "c.json")


def test_a_file_of_the_first_format_is_read(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps({**BASE, "optimiser": {"learning_rate": 0.5}}))
    assert load_config(tmp_path / "c.json").optimizer.learning_rate == 0.5


def test_what_is_given_wins_setting_by_setting():
    base = {**BASE, "method": "moco", "method_settings": {"queue": 96}, "optimizer": {"name": "sgd", "momentum": 0.8}}
    merged = merge_settings(base, {"steps": 7, "optimizer": {"momentum": 0.5}})
    assert "epochs" not in merged
    assert merged["optimizer"] == {"name": "sgd", "momentum": 0.5}
    assert merged["method_settings"] == {"queue": 96}
    assert "method_settings" not in merge_settings(base, {"method": "simclr"})


def test_settings_of_code_that_nobody_named_are_kept_and_nothing_is_imported(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    config = read_config({**BASE, "method": "mine:Mine", "method_settings": {"warmth": 3}})
    assert config.model_dump()["method_settings"]["warmth"] == 3
