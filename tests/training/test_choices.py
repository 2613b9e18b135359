"""What is chosen for images and a machine where the user says nothing, and what is left alone where they do."""

from __future__ import annotations

import pytest

from eigenview.data import open_images
from eigenview.training.choices import choose

SMALL, GREY = "shapes?count=96&size=32", "digits"


def chosen(source: str = SMALL, **given):
    made = choose(open_images(source), {"source": source, "out": "x", "steps": 1, **given}, device="cpu")
    return made.config, {choice.name: choice.reason for choice in made.choices}


def test_what_learnt_most_in_equal_time_is_chosen_with_reasons():
    config, reasons = chosen()
    assert (config.method, config.encoder.name, config.views.early_size) == ("align-uniform", "small-deep", 24)
    optimizer = config.optimizer
    assert (optimizer.name, optimizer.learning_rate, optimizer.momentum) == ("muon", 0.05, 0.9)
    assert {"optimizer.name", "optimizer.learning_rate", "views.early_size"} <= set(reasons)


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ({"optimizer": {"learning_rate": 0.3}}, 0.3),
        ({"optimizer": {"name": "adamw"}}, 0.002),
        ({"method": "moco"}, 0.002),
        ({"encoder": {"name": "resnet18"}}, 0.002),
    ],
)
def test_muon_is_for_what_it_was_measured_with(given, rate):
    config, _ = chosen(**given)
    assert (config.optimizer.name, config.optimizer.learning_rate) == ("adamw", rate)


def test_muon_has_its_own_rate_wherever_it_is_named():
    config, reasons = chosen(method="simclr", encoder={"name": "resnet18"}, optimizer={"name": "muon"})
    assert config.optimizer.learning_rate == 0.05
    assert reasons["optimizer.learning_rate"] == "Muon's, with warm-up and a cosine"
    config, _ = chosen(optimizer={"name": "muon", "learning_rate": 0.01})
    assert config.optimizer.learning_rate == 0.01


@pytest.mark.parametrize(
    "given",
    [
        {"views": {"preset": "spectral-cifar"}},
        {"views": {"crops": [{"size": 32}]}},
        {"encoder": {"name": "vit-tiny"}},
        {"source": GREY},
    ],
)
def test_views_are_not_shrunk_where_others_are_named_or_they_are_tiny(given):
    config, _ = chosen(**given)
    assert config.views.early_size is None


def test_a_size_to_begin_with_that_is_given_stays():
    config, reasons = chosen(views={"early_size": 20})
    assert config.views.early_size == 20
    assert "views.early_size" not in reasons
