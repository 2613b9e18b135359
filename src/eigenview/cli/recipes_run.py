"""Train as a recipe says. Any of its settings can be overruled, as with train.

Examples:
  eigenview recipes run digits-demo --out runs/digits
  eigenview recipes run cpu-cifar10-quick --source cifar10/train.parquet --out runs/quick
  eigenview recipes run kernel-infonce-laplacian-cifar10 --source cifar10:data/cifar --epochs 400
"""

from collections.abc import Sequence
from typing import Annotated, Any

from eigenview.cli.options import Word, positional
from eigenview.cli.output import Output
from eigenview.cli.train import StartOptions, parse_train, start
from eigenview.recipes import RECIPES
from eigenview.runs import merge_settings


class Options(StartOptions):
    name: Annotated[str, positional("NAME")]  # one of eigenview recipes list
    source: Annotated[str | None, Word("SOURCE")] = None  # images to train on; the recipe's own set unless given


def read(arguments: Sequence[str], *, verb: str, about: str | None) -> tuple[Options, dict[str, Any]]:
    named = [word for word in arguments if word in RECIPES]
    if named and not any(word.split("=")[0] == "--method" for word in arguments):
        # the recipe's method put among the arguments, so that its settings are options
        arguments = [*arguments, "--method", str(RECIPES[named[0]].settings["method"])]
    return parse_train(Options, arguments, verb=verb, about=about)


def run(parsed: tuple[Options, dict[str, Any]], output: Output) -> None:
    options, given = parsed
    recipe = RECIPES.find(options.name)
    if given.get("method") == recipe.settings["method"]:
        given.pop("method")
    base = {"source": recipe.source, "out": f"runs/{recipe.name}", **recipe.settings}
    settings = merge_settings(base, given | ({} if options.source is None else {"source": options.source}))
    output.say(f"{recipe.title}: {recipe.cost}")
    start(settings, options, output)
