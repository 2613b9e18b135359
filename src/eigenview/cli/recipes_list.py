"""The recipes: published experiments as settings, and two that run on a laptop in minutes.

Example:
  eigenview recipes list
"""

from __future__ import annotations

from dataclasses import dataclass

from eigenview.cli.output import Output
from eigenview.cli.parse import parse


@dataclass(frozen=True)
class Options:
    json: bool = False
    """print the list as JSON"""


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="recipes list", about=__doc__)
    from eigenview.recipes import RECIPES

    output = Output(as_json=options.json)
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
    if not options.json:
        width = max(map(len, RECIPES))
        for one in RECIPES.values():
            output.say(f"{one.name:<{width}}  {one.title}")
        output.say("more about one: eigenview recipes show NAME")
