"""Many runs with other settings each, to find those that get furthest: a worker, of as many as you start.

What is searched stands in a small TOML or JSON file, or in options; every trial is a run in OUT/runs, judged by labels
of training images that were held out (linear, knn) or without labels (effective-rank, agreement). Start the same
command again, here or on another machine that shares the folder and the database, for another worker; a worker that
dies is stood in for, and its run goes on where it was. Stopped, the same command goes on.

Examples:
  eigenview sweep photos.toml
  eigenview sweep --set source=digits --set epochs=3 --search optimizer.learning_rate=log:1e-4..1e-1 --trials 12
  eigenview sweep photos.toml --search batch_size=64,128,256 --objective knn
  eigenview sweep photos.toml --storage postgresql://user@server/sweeps --pruner asha
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.files import to_json
from eigenview.sweeps.config import SweepOptions

SHOWN = 10  # of the best trials


class Options(SweepOptions):
    file: Annotated[Path | None, positional("FILE")] = None  # what to search, as TOML or JSON; options win
    out: Annotated[Path | None, Word("DIR", "-o")] = None  # its folder; sweeps/FILE or sweeps/SOURCE unless given
    search: Annotated[tuple[str, ...], Word("NAME=LOW..HIGH|NAME=A,B,C", holds_commas=True)] = ()  # a setting of the
    # runs and its range, log:LOW..HIGH for one by factors, or its choices
    fixed: Annotated[tuple[str, ...], Word("NAME=VALUE", name="set", holds_commas=True)] = ()  # a setting of every run,
    # such as source=photos/ and minutes=5
    as_json: AsJson = False  # print the results as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.cli.train import start_lower
    from eigenview.report import write_report
    from eigenview.sweeps import Worker, gathered, read_fixed, read_words
    from eigenview.sweeps.results import FILE, TABLE
    from eigenview.training import shown_progress
    from eigenview.training.processor import LowerInstructionsNeeded

    words = options.model_dump(exclude={"file", "fixed", "search", "as_json"}, exclude_unset=True)
    config = gathered(options.file, words, search=read_words(options.search), settings=read_fixed(options.fixed))
    try:
        results = Worker(config, told=output.say, listeners=(shown_progress(),)).run()
    except LowerInstructionsNeeded as error:  # its trial was given back
        start_lower(error, output)
    ranked, names = results.ranked, results.names
    rows = [[trial.run, *map(_cell, (trial.value, *map(trial.values.get, names)))] for trial in ranked[:SHOWN]]
    output.table(["run", config.objective, *names], rows)
    for name, share in results.importance.items():
        output.say(f"{name} explains {share:.0%} of the differences")
    output.say(", ".join(f"{count} {state}" for state, count in results.counts().items()))
    output.result(json.loads(to_json(results)))
    page = write_report([config.out])
    kept = [name for name in (FILE, TABLE) if (config.out / name).exists()]
    output.say(f"{config.out}: {', '.join(kept)}, runs/; to look at: {page}")


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
