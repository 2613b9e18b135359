"""Settings: strict, JSON both ways, and clear about what was meant."""

from __future__ import annotations

import pytest

from eigenview.errors import SettingError
from eigenview.methods import METHODS
from eigenview.training import load_config, read_config

BASE = {"source": "digits", "out": "runs/x", "epochs": 1}


@pytest.mark.parametrize("name", METHODS)
def test_every_methods_settings_survive_json(name, tmp_path):
    config = read_config({**BASE, "method": name})
    assert type(config.method_settings) is METHODS[name].settings_type
    (tmp_path / "config.json").write_text(config.model_dump_json())
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
        ({"source": None}, "source: "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given, message):
    with pytest.raises(SettingError, match=message) as caught:
        read_config({**BASE, **given})
    assert "\n" not in str(caught.value)


def test_a_missing_setting_is_named():
    with pytest.raises(SettingError, match="the setting source is missing"):
        read_config({"out": "x", "epochs": 1})


@pytest.mark.parametrize(("text", "message"), [("{", "cannot read the settings"), ("[]", "are a JSON object")])
def test_a_file_that_is_no_configuration_is_refused(text, message, tmp_path):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(SettingError, match=message):
        load_config(tmp_path / "c.json")
