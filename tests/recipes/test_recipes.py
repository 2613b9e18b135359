"""Every recipe is settings that training accepts, presets and protocols that exist, and figures with a source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eigenview.errors import SettingError
from eigenview.evaluation import PROTOCOLS, WORD_PROTOCOLS
from eigenview.graph.kernels import Kernel
from eigenview.methods import METHODS
from eigenview.methods.pairwise import chosen_kernel
from eigenview.nn import ENCODERS
from eigenview.recipes import ABOUT, RECIPES
from eigenview.views import PRESETS

ROOT = Path(__file__).parents[2]
PAPERS = ("simclr", "kernel-infonce", "random-walk", "spectral", "align-uniform", "moco", "swav", "simsiam")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_run_that_could_start(name: str):
    recipe = RECIPES[name]
    config = recipe.config()
    assert config.encoder.name in ENCODERS
    assert config.views.preset in PRESETS
    assert all(protocol in PROTOCOLS or protocol in WORD_PROTOCOLS for protocol in recipe.protocol.split())
    assert config.method_settings.model_fields_set >= set(recipe.settings["method_settings"])
    assert config.batch_size <= recipe.images
    json.dumps(recipe.settings)  # can be a file for --config


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_was_published_and_how_to_run_it(name: str):
    recipe = RECIPES[name]
    assert recipe.results
    assert all(result.value and result.source for result in recipe.results)
    assert f"eigenview recipes run {name} " in recipe.commands()[0]
    assert "eigenview recipes run " in ABOUT[name]
    assert name in (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")


def test_a_recipe_of_captions_is_measured_by_words():
    _, measure = RECIPES.find("lit-flickr8k").commands()
    assert measure == "eigenview evaluate runs/lit-flickr8k 'flickr8k/test.parquet' --protocol captions"
    assert RECIPES.find("lit-flickr8k").config().encoder.locked
    assert RECIPES.find("clip-cc12m").config().method_settings.caption_weights == (1, 0)


def test_every_method_of_a_paper_has_a_recipe():
    methods = {recipe.settings["method"] for recipe in RECIPES.values()}
    assert {*PAPERS, "deepcluster-v2", "sela-v2", "clip", "siglip"} <= methods <= set(METHODS)


def test_the_kernels_of_the_table_are_kernels_and_the_figures_its_cells():
    cells = {name: recipe for name, recipe in RECIPES.items() if name.startswith("kernel-infonce-")}
    assert len(cells) == 15
    for recipe in cells.values():
        assert isinstance(chosen_kernel(recipe.config().method_settings), Kernel)
    simple = RECIPES.find("kernel-infonce-simple-sum-cifar100")
    assert [result.value for result in simple.results] == ["66.73", "68.62"]
    assert RECIPES.find("kernel-infonce-concat-sum-cifar10").config().method_settings.head_output == 256


def test_views_count_every_crop_of_every_epoch():
    assert RECIPES.find("simclr-cifar10").views == 1000 * 50_000 * 2
    assert RECIPES.find("swav-imagenet").views == 100 * 1_281_167 * 8


def test_an_unknown_recipe_is_refused_with_what_was_meant():
    with pytest.raises(SettingError, match="did you mean swav-imagenet"):
        RECIPES.find("swav-imagnet")
