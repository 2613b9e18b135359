"""Published experiments as settings: command, cost, expected result. One small file for each, or for each table."""

from __future__ import annotations

from difflib import get_close_matches

from eigenview.errors import SettingError
from eigenview.recipes import (
    align_uniform_stl10,
    clustered_imagenet,
    cpu_cifar10_quick,
    digits_demo,
    kernel_infonce,
    moco_v2_imagenet,
    random_walk_cifar10,
    simclr_cifar10,
    simclr_imagenet,
    simsiam_cifar10,
    spectral_cifar10,
    swav_imagenet,
)
from eigenview.recipes.recipe import Recipe, Result

MODULES = (  # in the order they are listed
    digits_demo,
    cpu_cifar10_quick,
    simclr_cifar10,
    simclr_imagenet,
    kernel_infonce,
    random_walk_cifar10,
    spectral_cifar10,
    align_uniform_stl10,
    moco_v2_imagenet,
    simsiam_cifar10,
    swav_imagenet,
    clustered_imagenet,
)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for module in MODULES for recipe in module.RECIPES}
ABOUT: dict[str, str] = {recipe.name: module.__doc__ or "" for module in MODULES for recipe in module.RECIPES}


def find_recipe(name: str) -> Recipe:
    """The recipe called ``name``."""
    if name not in RECIPES:
        close = get_close_matches(name, RECIPES, n=1)
        meant = f"; did you mean {close[0]}?" if close else "; eigenview recipes list names them"
        raise SettingError(f"no recipe is called {name!r}{meant}")
    return RECIPES[name]


__all__ = ["ABOUT", "RECIPES", "Recipe", "Result", "find_recipe"]
