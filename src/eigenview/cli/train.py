"""Learn a representation from images, no labels needed; then look at it, so that report and diagnose work at once.

What you do not choose is chosen from the images and the machine, and printed with its reason. Any setting of the
config is an option; the method's own are under --method-settings (give --method first, then ask for --help again).

Examples:
  eigenview train photos/ --minutes 10 --out runs/photos
  eigenview train photos/ --method swav --epochs 100 --encoder resnet18 --method-settings.prototypes 300
  eigenview train digits --kernel 'Gaussian(0.2) + Laplacian(0.5)' --optimizer.learning-rate 0.002 --epochs 20
  eigenview train photos/ --config settings.json
  eigenview train --resume --out runs/photos --epochs 200
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenview.cli.output import Output
from eigenview.errors import EigenviewError, SettingError

if TYPE_CHECKING:
    from eigenview.training import TrainConfig

OWN = ("resume", "look")
LOOKED_AT = 2000  # images that are diagnosed and kept as a sample: seconds, not minutes


def run(arguments: list[str]) -> None:
    from eigenview.cli.train_options import flag_hint, parse_train, settings_among, source_hint

    first = {
        "source": source_hint("images: a folder, a table, shards, a list, arrays or a named set"),
        "resume": flag_hint("go on from the last checkpoint in --out; its settings are known, SOURCE may be left out"),
        "look": flag_hint("at the end, diagnose the run and keep a sample for the report; --no-look leaves it out"),
    }
    options = parse_train(arguments, verb="train", about=__doc__, first=first)
    given = settings_among(options, OWN)
    start(given, resume=options.get("resume", False), looks=options.get("look", True))


def start(given: Mapping[str, Any], *, resume: bool = False, looks: bool = True) -> None:
    """Train as ``given`` says and as is best for the rest; say what was chosen and what can be done next."""
    output = Output()
    config = _stored(given) if resume else None
    if config is None:
        config = _chosen(given, output)
    _train(config, output, resume=resume)
    if looks:
        look(config, output)
    next_steps(config, output)


def _stored(given: Mapping[str, Any]) -> TrainConfig | None:
    """The settings of the run to go on with, and what is new; None where there is no such run yet."""
    from eigenview.cli.train_options import merge
    from eigenview.training import load_config, read_config

    if "out" not in given:
        raise SettingError("--resume needs the run to go on with: --out RUN")
    file = Path(given["out"]) / "config.json"
    if not file.exists():
        if "source" not in given:
            raise SettingError(f"no run to go on with in {given['out']}; is the path right?")
        return None
    before = load_config(file).model_dump(mode="json")
    before = {name: value for name, value in before.items() if value is not None}
    return read_config(merge(before, given))


def _chosen(given: Mapping[str, Any], output: Output) -> TrainConfig:
    from eigenview.training import choose
    from eigenview.training.feed import open_for_training

    if "source" not in given:
        raise SettingError("SOURCE is missing: a folder of images, say (eigenview train --help tells more)")
    out = given.get("out") or new_run(str(given["source"]), str(given.get("method", "simclr")))
    chosen = choose(open_for_training(str(given["source"])), {**given, "out": str(out)})
    if chosen.choices:
        output.say("chosen for these images and this machine (any of it can be given as an option):")
        width = max(len(one.setting) for one in chosen.choices)
        for one in chosen.choices:
            output.say(f"  {one.setting:<{width}}  {one.value}  ({one.reason})")
    return chosen.config


def new_run(source: str, method: str) -> Path:
    """``runs/SOURCE-METHOD``, numbered where that is taken."""
    place = source.partition("?")[0].rstrip("/\\")
    stem = re.sub(r"[^\w.-]+", "-", Path(place).stem or "run").strip("-") or "run"
    folder, number = Path("runs") / f"{stem}-{method}", 2
    while folder.exists():
        folder, number = Path("runs") / f"{stem}-{method}-{number}", number + 1
    return folder


def _train(config: TrainConfig, output: Output, *, resume: bool) -> None:
    import logging
    import warnings

    from eigenview.training import progress, train

    warnings.filterwarnings("ignore", module="lightning_fabric")  # advice about its own use, which is not the user's
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    output.say(f"{config.method} with {config.encoder.name} into {config.out}", style="bold")
    try:
        train(config, resume=resume, listeners=[progress()])
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; {config.out} keeps a checkpoint. Go on with: eigenview train --resume --out {quoted(config.out)}"
        ) from None


def look(config: TrainConfig, output: Output) -> None:
    """The run's diagnosis and its sample, for report; what cannot be had is said, and ends nothing."""
    from eigenview.cli.sources import open_indexed
    from eigenview.evaluation.run_diagnosis import diagnose_run, save_diagnosis
    from eigenview.evaluation.sample import write_sample

    if output.console.quiet:  # not the first process
        return
    try:
        source = open_indexed(config.source)
        found = diagnose_run(config.out, source, items=LOOKED_AT, seed=config.seed)
        save_diagnosis(found, config.out)
        write_sample(config.out, source, items=LOOKED_AT, seed=config.seed)
    except EigenviewError as error:
        output.say(f"could not look at the result: {error}", style="yellow")
        return
    output.say(f"diagnosis: {found.verdict}", style="bold green" if found.verdict == "healthy" else "bold yellow")
    for finding in found.findings:
        output.say(f"  {finding.name}: {finding.advice}")


def next_steps(config: TrainConfig, output: Output) -> None:
    run, source = quoted(config.out), quoted(config.source)
    output.say(f"done: {config.out}. Next:")
    output.say(f"  eigenview report {run}")
    output.say(f"  eigenview embed {run} {source} -o {quoted(Path(config.out) / 'embeddings.parquet')}")
    output.say(f"  eigenview neighbours {run} PICTURE --source {source}")


def quoted(word: object) -> str:
    import shlex

    return shlex.quote(str(word))
