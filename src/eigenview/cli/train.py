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

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from eigenview.cli.announcement import Announcement
from eigenview.cli.options import positional
from eigenview.cli.output import Output
from eigenview.cli.train_options import StartOptions, parse_train
from eigenview.devices import device_text, find_device
from eigenview.errors import SettingError
from eigenview.names import is_code
from eigenview.nn import is_own_encoder
from eigenview.runs import EMBEDDINGS, RunDirectory, TrainConfig
from eigenview.training import Choice, shown_progress, train
from eigenview.training.processor import (
    LowerInstructionsNeeded,
    can_start_again,
    check_half_precision,
    start_again,
)
from eigenview.training.start import prepare


class Options(StartOptions):
    source: Annotated[str | None, positional("SOURCE")] = None  # images: a folder, a table, shards, a list, arrays or a
    # named set; --resume knows its own


read = partial(parse_train, Options)


def run(parsed: tuple[Options, dict[str, Any]], output: Output) -> None:
    options, given = parsed
    start(given if options.source is None else {**given, "source": options.source}, options, output)


def start(given: Mapping[str, Any], options: StartOptions, output: Output) -> None:
    """Train as ``given`` says and as is best for the rest; say what was chosen and what can be done next."""
    _check(given, options)
    prepared = prepare(given, resume=options.resume)
    config = prepared.config
    device = find_device(config.device)
    _check_precision(config.precision, device.type, output)
    info = prepared.source.describe()
    output.say(str(info))
    if info.labels_hint:
        output.say(f"{info.labels_hint}; learning needs none", style="dim")
    _say_choices(prepared.choices, output)
    output.say(f"{config.method} with {config.encoder.name} into {config.out}, on {device_text(device)}", style="bold")
    try:
        directory = train(
            config,
            source=prepared.source,
            resume=options.resume,
            start=options.begin,
            looks_back=options.look,
            listeners=[shown_progress(), Announcement(output, looks_back=options.look)],
            started=prepared.started,
        )
    except KeyboardInterrupt:
        if not RunDirectory(config.out).checkpoints.names():
            raise KeyboardInterrupt("stopped before the first step: nothing was trained") from None
        far = f" {quoted(config.source)}" if ":" in config.source else ""  # not used unless the call names it
        own = f"{own_method(config)}{own_encoder(config)}"
        again = f"eigenview train{far} --resume --out {quoted(config.out)}{own}"
        raise KeyboardInterrupt(f"stopped; {config.out} keeps a checkpoint. Go on with: {again}") from None
    diagnosis = directory.diagnosis() if options.look else None
    if diagnosis is not None:
        style = "bold green" if diagnosis.verdict == "healthy" else "bold yellow"
        output.say(f"diagnosis: {diagnosis.verdict}", style=style)
        for finding in diagnosis.findings:
            output.say(f"  {finding.name}: {finding.advice.replace('--out RUN', f'--out {quoted(config.out)}')}")
    next_steps(config, output)


def _check(given: Mapping[str, Any], options: StartOptions) -> None:
    if options.resume and "out" not in given:
        raise SettingError("--resume needs the run to go on with: --out RUN")
    if not options.resume and "source" not in given:
        raise SettingError("SOURCE is missing: a folder of images, say (eigenview train --help tells more)")
    if options.begin is not None and not options.resume:
        raise SettingError("--from says where to go on: give --resume too, or leave it out")


def _check_precision(precision: str, device: str, output: Output) -> None:
    """A processor that dies of half precision is found out in time, and spared."""
    try:
        check_half_precision(precision, device)
    except LowerInstructionsNeeded as error:
        if not can_start_again():
            raise
        output.say(f"{error}; starting again with it")
        start_again()


def _say_choices(choices: Sequence[Choice], output: Output) -> None:
    if choices:
        output.say("chosen for these images and this machine (any of it can be given as an option):")
        width = max(len(choice.name) for choice in choices)
        for choice in choices:
            output.say(f"  {choice.name:<{width}}  {choice.value}  ({choice.reason})")


def next_steps(config: TrainConfig, output: Output) -> None:
    run, source, own = quoted(config.out), quoted(config.source), own_encoder(config)
    output.say(f"done: {config.out}. Next:")
    output.say(f"  eigenview report {run}")
    output.say(f"  eigenview embed {run} {source} -o {quoted(Path(config.out) / EMBEDDINGS[0])}{own}")
    output.say(f"  eigenview neighbours {run} PICTURE --source {source}{own}")
    if (text := RunDirectory(config.out).method_parts.text) is not None:
        own += f" --text-encoder {text.name}" if is_own_encoder(text.name) else ""
        output.say(f"  eigenview neighbours {run} --text 'WORDS' --source {source}{own}")


def own_encoder(config: TrainConfig) -> str:
    """What a command about the run must name, lest the user's own code is not run."""
    return f" --encoder {config.encoder.name}" if is_own_encoder(config.encoder.name) else ""


def own_method(config: TrainConfig) -> str:
    """Likewise for what goes on with the run: its method, and what the method's settings name."""
    inner = "".join(_own_settings(config.method_settings.model_dump(), "--method-settings"))
    return f" --method {config.method}{inner}" if inner or is_code(config.method) else ""


def _own_settings(settings: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in settings.items():
        flag = f"{path}.{name.replace('_', '-')}"
        if isinstance(value, Mapping):
            yield from _own_settings(value, flag)
        elif isinstance(value, str) and is_own_encoder(value):
            yield f" {flag} {value}"


def quoted(word: object) -> str:
    return shlex.quote(str(word))
