"""One recipe: where its settings come from, what it costs, the published result, and the commands.

Example:
  eigenview recipes show simclr-cifar10
"""

import inspect
import json
from dataclasses import asdict
from typing import Annotated

from eigenview.cli.options import AsJson, positional
from eigenview.cli.output import Output
from eigenview.settings import Strict


class Options(Strict):
    name: Annotated[str, positional("NAME")]  # one of eigenview recipes list
    as_json: AsJson = False  # print it as JSON; "settings" can go into a file for train --config


def run(options: Options, output: Output) -> None:
    from eigenview.recipes import ABOUT, RECIPES

    recipe = RECIPES.find(options.name)
    output.result(json.loads(json.dumps(asdict(recipe))))
    if options.as_json:
        return
    output.say(recipe.title, style="bold")
    output.say(inspect.cleandoc(ABOUT[recipe.name]))
    output.say("")
    views = "" if recipe.views is None else f"{recipe.views:,} views through the encoder; "
    output.say(f"cost: {views}{recipe.cost}")
    output.table(["result", "%", "from"], [[r.what, r.value, f"{r.source} ({r.evidence})"] for r in recipe.results])
    for line in recipe.differs:
        output.say(f"note: {line}")
    output.say("settings: " + json.dumps(recipe.settings, indent=1))
    output.say("\n".join(recipe.commands()))
