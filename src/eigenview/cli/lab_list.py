"""The experiments of the spectral laboratory: each puts a claim of the papers to the test.

Example:
  eigenview lab list
"""

from eigenview.cli.options import AsJson
from eigenview.cli.output import Output
from eigenview.settings import Strict


class Options(Strict):
    as_json: AsJson = False  # print the list as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.lab import EXPERIMENTS

    listed = list(EXPERIMENTS.values())
    output.result([{"name": each.name, "title": each.title, "claim": each.claim} for each in listed])
    if not options.as_json:
        width = max(map(len, EXPERIMENTS))
        for each in listed:
            output.say(f"{each.name:<{width}}  {each.title}: {each.claim}")
        output.say("run one with: eigenview lab run NAME --quick")
