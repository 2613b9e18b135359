"""The recipes: published experiments as settings, and two that run on a laptop in minutes.

Example:
  eigenview recipes list
"""

from __future__ import annotations

from eigenview.cli.options import AsJson, parse
from eigenview.cli.output import Output
from eigenview.settings import Strict


class Options(Strict):
    as_json: AsJson = False  # print the list as JSON


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="recipes list", about=__doc__)
    from eigenview.recipes import RECIPES

    output = Output(as_json=options.as_json)
    output.result(
        [
            {
                "name": one.name,
                "title": one.title,
                "source": one.source,
                "results": [{"what": r.what, "value": r.value, "evidence": r.evidence} for r in one.results],
            }
            for one in RECIPES.values()
        ]
    )
    if not options.as_json:
        width = max(map(len, RECIPES))
        for one in RECIPES.values():
            output.say(f"{one.name:<{width}}  {one.title}")
        output.say("more about one: eigenview recipes show NAME")
