"""The recipes: published experiments as settings, and two that run on a laptop in minutes.

Example:
  eigenview recipes list
"""

from eigenview.cli.options import AsJson
from eigenview.cli.output import Output
from eigenview.settings import Strict


class Options(Strict):
    as_json: AsJson = False  # print the list as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.recipes import RECIPES

    output.result(
        [
            {
                "name": recipe.name,
                "title": recipe.title,
                "source": recipe.source,
                "results": [{"what": r.what, "value": r.value, "evidence": r.evidence} for r in recipe.results],
            }
            for recipe in RECIPES.values()
        ]
    )
    if not options.as_json:
        width = max(map(len, RECIPES))
        for recipe in RECIPES.values():
            output.say(f"{recipe.name:<{width}}  {recipe.title}")
        output.say("more about one: eigenview recipes show NAME")
