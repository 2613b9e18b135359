"""Train as a recipe says. Any of its settings can be overruled, as with train.

Examples:
  eigenview recipes run digits-demo --out runs/digits
  eigenview recipes run cpu-cifar10-quick --source cifar10/train.parquet --out runs/quick
  eigenview recipes run kernel-infonce-laplacian-cifar10 --source cifar10:data/cifar --epochs 400
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import tyro

from eigenview.cli.parse import POSITIONAL
from eigenview.errors import SettingError

OWN = ("name", "data", "resume", "look")


def run(arguments: list[str]) -> None:
    from eigenview.cli.output import Output
    from eigenview.cli.train import start
    from eigenview.cli.train_options import flag_hint, parse_train, settings_among
    from eigenview.recipes import RECIPES
    from eigenview.runs import merge_settings

    arg = tyro.conf.arg
    first = {
        "name": Annotated[str, POSITIONAL, arg(metavar="NAME", help="one of eigenview recipes list")],
        "data": Annotated[
            str, arg(name="source", metavar="SOURCE", help="images to train on; the recipe's own set unless given")
        ],
        "resume": flag_hint("go on from the last checkpoint in --out"),
        "look": flag_hint("at the end, diagnose the run and keep a sample for the report; --no-look leaves it out"),
    }
    options = parse_train(_with_method(arguments), verb="recipes run", about=__doc__, first=first)
    if "name" not in options:
        raise SettingError("NAME is missing: one of eigenview recipes list")
    recipe = RECIPES.find(options["name"])
    given = settings_among(options, OWN)
    if given.get("method") == recipe.settings["method"]:
        given.pop("method")
    base = {"source": recipe.source, "out": f"runs/{recipe.name}", **recipe.settings}
    settings = merge_settings(base, {**given, **({"source": options["data"]} if "data" in options else {})})
    Output().say(f"{recipe.title}: {recipe.cost}")
    start(settings, resume=options.get("resume", False), looks=options.get("look", True))


def _with_method(arguments: Sequence[str]) -> list[str]:
    """The recipe's method put among the arguments, so that its settings are options."""
    from eigenview.recipes import RECIPES

    named = [word for word in arguments if word in RECIPES]
    if not named or any(word.startswith("--method") and word.split("=")[0] == "--method" for word in arguments):
        return list(arguments)
    return [*arguments, "--method", str(RECIPES[named[0]].settings["method"])]
