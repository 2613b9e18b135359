"""Put a claim of the papers to the test: figures as PNG, the numbers behind them as JSON, the findings in words.

Examples:
  eigenview lab run graph-coupling --quick
  eigenview lab run spectral-recovery -o lab --seed 1
  eigenview lab run alignment-plane --data data/
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from eigenview.cli.output import Output
from eigenview.cli.parse import POSITIONAL, parse


@dataclass(frozen=True)
class Options:
    name: Annotated[str, POSITIONAL, tyro.conf.arg(metavar="NAME")]
    """one of eigenview lab list"""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="DIR")] = Path("lab")
    """where the files go"""
    quick: bool = False
    """seconds instead of minutes: smaller, so noisier"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder of the named data sets, for the experiments on real images"""
    seed: int = 0
    json: bool = False
    """print what was found as JSON"""


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="lab run", about=__doc__)
    from eigenview.lab import EXPERIMENTS, LabSettings, run_experiment

    experiment = EXPERIMENTS.find(options.name)
    output = Output(as_json=options.json)
    output.say(f"{experiment.title}: {experiment.claim}")
    settings = LabSettings(seed=options.seed, is_quick=options.quick, data=options.data)
    files = run_experiment(options.name, options.out, settings=settings)
    found = json.loads(files[0].read_text(encoding="utf-8"))
    output.result({**found, "files": [str(file) for file in files]})
    if not options.json:
        output.say("\n".join(f"  {line}" for line in found["findings"]))
        output.say(f"written: {', '.join(map(str, files))}")
