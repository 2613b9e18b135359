"""The experiments of the spectral laboratory: each puts a claim of the papers to the test.

Example:
  eigenview lab list
"""

from __future__ import annotations

from eigenview.cli.options import AsJson, parse
from eigenview.cli.output import Output
from eigenview.settings import Strict


class Options(Strict):
    as_json: AsJson = False  # print the list as JSON


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="lab list", about=__doc__)
    from eigenview.lab import EXPERIMENTS

    output = Output(as_json=options.as_json)
    output.result([{"name": one.name, "title": one.title, "claim": one.claim} for one in EXPERIMENTS.values()])
    if not options.as_json:
        width = max(map(len, EXPERIMENTS))
        for one in EXPERIMENTS.values():
            output.say(f"{one.name:<{width}}  {one.title}: {one.claim}")
        output.say("run one with: eigenview lab run NAME --quick")
