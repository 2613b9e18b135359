"""What is searched: ranges and choices by the names of settings, from a file or words; mistakes said before a run."""

from __future__ import annotations

import json
import random

import pytest

from eigenview.errors import DataError, EigenviewError, SettingError
from eigenview.runs import merge_settings, read_config
from eigenview.sweeps import gathered, read_fixed, read_words
from eigenview.sweeps.config import combinations, nested, read_space, suggested

FIXED = {"source": "digits", "epochs": 1}


class Drawn:
    """An Optuna trial as far as a space asks: values by chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def suggest_int(self, name, low, high, *, log):
        return self.random.randint(low, high)

    def suggest_float(self, name, low, high, *, log):
        return self.random.uniform(low, high)

    def suggest_categorical(self, name, choices):
        return self.random.choice(choices)


def test_words_say_what_a_file_says(tmp_path):
    words = read_words(["optimizer.learning-rate=log:1e-4..0.1", "batch_size=64,128", "encoder.width=0.5..2.0"])
    file = tmp_path / "sweep.toml"
    file.write_text(
        '[search]\nbatch_size = [64, 128]\n"encoder.width" = { low = 0.5, high = 2.0, log = false }\n'
        '"optimizer.learning_rate" = { low = 1e-4, high = 0.1, log = true }\n'
    )
    whole = gathered(file, {}, search={}, settings=FIXED)
    assert whole.search == words
    assert whole.out.as_posix() == "sweeps/sweep"
    other = tmp_path / "sweep.json"
    other.write_text(json.dumps({"search": words, "trials": 3, "settings": {"epochs": 7}}))
    told = gathered(other, {"trials": 4}, search={}, settings=FIXED)
    assert (told.trials, told.settings["epochs"]) == (4, 1)


def test_combinations_are_all_that_can_be_drawn():
    choices = {"method": ["simclr", "kernel-infonce"], "method_settings.kernel": ["Gaussian(0.2)", "Laplacian(0.5)"]}
    space = read_space({**choices, "batch_size": {"low": 16, "high": 18}})
    drawn = {json.dumps(suggested(Drawn(seed), space, FIXED), sort_keys=True) for seed in range(200)}
    assert combinations(space, FIXED) == len(drawn) == 3 + 2 * 3
    assert combinations(read_space({"encoder.width": {"low": 0.5, "high": 2.0}}), FIXED) == float("inf")


def test_every_drawn_value_makes_a_run():
    space = read_space(
        {
            "method": ["simclr", "kernel-infonce"],
            "method_settings.temperature": {"low": 0.05, "high": 0.5},
            "method_settings.kernel": ["Gaussian(0.2)", "Laplacian(0.5)"],
            "optimizer.learning_rate": {"low": 1e-4, "high": 0.1, "log": True},
            "batch_size": {"low": 16, "high": 64},
        }
    )
    seen = set()
    for seed in range(30):
        values = suggested(Drawn(seed), space, FIXED)
        config = read_config({**merge_settings(FIXED, nested(values)), "out": "run"})
        assert 16 <= config.batch_size <= 64
        assert isinstance(config.batch_size, int)
        assert ("method_settings.kernel" in values) == (config.method == "kernel-infonce")
        seen.add(config.method)
    assert seen == {"simclr", "kernel-infonce"}


def test_lists_and_tables_are_choices_too():
    crops = [[{"size": 32, "count": 2}], [{"size": 32, "count": 2}, {"size": 16, "count": 2}]]
    words = read_words(["optimizer.betas=[0.9,0.99],[0.9,0.999]", f"views.crops={json.dumps(crops)[1:-1]}"])
    assert words == {"optimizer.betas": [[0.9, 0.99], [0.9, 0.999]], "views.crops": crops}
    whole = gathered(None, {}, search=words, settings=FIXED)
    space = read_space(whole.search)
    assert combinations(space, FIXED) == 4
    drawn = [suggested(Drawn(seed), space, FIXED) for seed in range(20)]
    assert {len(values["views.crops"]) for values in drawn} == {1, 2}
    config = read_config({**merge_settings(FIXED, nested(drawn[0])), "out": "run"})
    assert [crop.size for crop in config.views.crops] == [crop["size"] for crop in drawn[0]["views.crops"]]


def test_two_dots_make_a_range_of_numbers_only():
    assert read_words(["encoder.weights=../a.pt,b.pt"]) == {"encoder.weights": ["../a.pt", "b.pt"]}
    assert read_words(["batch_size=16..64"]) == {"batch_size": {"low": 16, "high": 64, "log": False}}


def test_without_a_file_a_sweep_is_named_after_its_images():
    given = {"search": {"batch_size": [64, 128]}}
    assert gathered(None, {}, settings={**FIXED, "source": "a/b c/?x=1"}, **given).out.as_posix() == "sweeps/b-c"


def test_a_precision_may_be_a_number():
    whole = gathered(None, {}, search={"batch_size": [64, 128]}, settings={**FIXED, **read_fixed(["precision=32"])})
    assert read_config({**whole.settings, "out": "run"}).precision == "32"


@pytest.mark.parametrize("method", ["supcon", "supervised"])
def test_no_method_is_judged_by_labels_that_it_has_learned(method):
    search, settings = {"method": ["simclr", method]}, FIXED
    with pytest.raises(SettingError, match=f"{method} learns from the labels of all its images"):
        gathered(None, {"objective": "knn"}, search=search, settings=settings)
    with pytest.raises(SettingError, match="those held out for linear among them"):
        gathered(None, {}, search={"batch_size": [64, 128]}, settings={**FIXED, "method": method})
    for others in ({"labelled": "other/"}, {"objective": "effective-rank"}):
        assert gathered(None, others, search=search, settings=settings).trials == 20


def test_the_length_of_a_run_may_be_searched():
    whole = gathered(None, {}, search={"epochs": [1, 2]}, settings={"source": "digits"})
    assert whole.search == {"epochs": [1, 2]}


def test_fixed_settings_are_nested():
    assert read_fixed(["source=photos/", "encoder.width=0.5", "minutes=2"]) == {
        "source": "photos/",
        "encoder": {"width": 0.5},
        "minutes": 2,
    }


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (
            {"optimizer.learning_rat": [0.1, 0.2]},
            "no setting is called optimizer.learning_rat; did you mean learning_rate",
        ),
        ({"batchsize": [64, 128]}, "no setting is called batchsize; did you mean batch_size"),
        ({"method_settings.temprature": [0.1, 0.2]}, "is called method_settings.temprature; did you mean temperature"),
        ({"batch_size": [1, 64]}, "batch_size: .* greater than or equal to 2; got 1"),
        ({"batch_size": {"low": 8, "high": 4}}, "batch_size: a range needs low < high; got 8 to 4"),
        ({"batch_size": {"low": 0, "high": 4, "log": True}}, "a range needs 0 < low < high"),
        (
            {"batch_size": {"low": 4, "high": 8, "logg": True}},
            "no setting is called logg; did you mean log",
        ),
        ({"batch_size": [64]}, "at least two different values"),
        ({"method": ["simclr", "simsam"]}, "did you mean simsiam"),
        ({"source": ["digits", "shapes"]}, "source is the same for every run of a sweep"),
        ({}, "a sweep needs something to search"),
    ],
)
def test_a_mistake_is_said_before_anything_runs(search, message):
    with pytest.raises(SettingError, match=message):
        gathered(None, {}, search=search, settings=FIXED)


@pytest.mark.parametrize(
    ("given", "settings", "message"),
    [
        ({"objective": "knnn"}, FIXED, "knnn. is no objective; did you mean knn"),
        ({"trils": 3}, FIXED, "no setting is called trils; did you mean trials"),
        ({}, {"epochs": 1}, "the images to learn from are missing"),
        ({}, {**FIXED, "out": "x"}, "each has a folder of its own"),
        ({}, {"source": "digits"}, r"how long each run is must be given.*20 trials would take about 40 minutes"),
    ],
)
def test_a_sweep_with_a_mistake_is_refused(given, settings, message):
    with pytest.raises(SettingError, match=message):
        gathered(None, given, search={"batch_size": [64, 128]}, settings=settings)


def test_a_file_that_is_no_sweep_is_refused_in_words(tmp_path):
    for name, text in (("sweep.toml", "a ="), ("sweep.json", "{"), ("sweep.yaml", "a: 1")):
        (tmp_path / name).write_text(text)
        with pytest.raises((DataError, SettingError), match=r"sweep\."):
            gathered(tmp_path / name, {}, search={}, settings=FIXED)
    with pytest.raises(EigenviewError, match=r"a setting is written NAME=LOW\.\.HIGH"):
        read_words(["batch_size"])
