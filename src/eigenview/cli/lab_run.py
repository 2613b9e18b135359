"""Put a claim of the papers to the test: figures as PNG, the numbers behind them as JSON, the findings in words.

Examples:
  eigenview lab run graph-coupling --quick
  eigenview lab run spectral-recovery -o lab --seed 1
  eigenview lab run alignment-plane --data data/
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.files import read_object
from eigenview.settings import Strict


class Options(Strict):
    name: Annotated[str, positional("NAME")]  # one of eigenview lab list
    out: Annotated[Path, Word("DIR", "-o")] = Path("lab")  # where the files go
    quick: bool = False  # seconds instead of minutes: smaller, so noisier
    data: Annotated[Path | None, Word("DIR")] = None  # of the named data sets, for the experiments on real images
    seed: int = Field(0, ge=0)  # of all that is drawn
    as_json: AsJson = False  # print what was found as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.lab import EXPERIMENTS, LabSettings, run_experiment

    experiment = EXPERIMENTS.find(options.name)
    output.say(f"{experiment.title}: {experiment.claim}")
    if not options.quick:
        output.say("in full this takes minutes; --quick takes seconds", style="dim")
    settings = LabSettings(seed=options.seed, is_quick=options.quick, data=options.data)
    files = run_experiment(options.name, options.out, settings=settings)
    content: dict[str, Any] = read_object(files[0])
    output.result({**content, "files": [str(file) for file in files]})
    if not options.as_json:
        output.say("\n".join(f"  {line}" for line in content["findings"]))
        output.say(f"written: {', '.join(map(str, files))}")
