"""Published experiments as settings: command, cost, expected result. One small file for each, or for each table."""

from importlib import import_module

from eigenview.names import Table
from eigenview.recipes.recipe import Recipe, Result

MODULES = (  # of this room, in the order they are listed
    "demos",
    "simclr",
    "kernel_infonce",
    "random_walk_cifar10",
    "spectral_cifar10",
    "align_uniform_stl10",
    "moco_v2_imagenet",
    "simsiam_cifar10",
    "swav_imagenet",
    "words",
)


def _read() -> tuple[dict[str, Recipe], dict[str, str]]:
    recipes: dict[str, Recipe] = {}
    about: dict[str, str] = {}
    for name in MODULES:
        module = import_module(f"{__name__}.{name}")
        for recipe in module.RECIPES:
            recipes[recipe.name], about[recipe.name] = recipe, module.__doc__ or ""
    return recipes, about


_recipes, ABOUT = _read()
RECIPES = Table("recipe", _recipes, listed_by="eigenview recipes list")

__all__ = ["ABOUT", "RECIPES", "Recipe", "Result"]
