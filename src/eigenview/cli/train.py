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

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from eigenview.cli.options import Group, Word, given_options, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import PASSES
from eigenview.devices import device_text, find_device
from eigenview.errors import SettingError
from eigenview.methods import DEFAULT_METHOD, METHODS, Method, find_method
from eigenview.names import is_code
from eigenview.nn import is_own_encoder
from eigenview.progress import about
from eigenview.runs import EMBEDDINGS, RunDirectory, TrainConfig, merge_settings, stored_settings
from eigenview.settings import Strict
from eigenview.training import Listener, Plan, shown_progress, train
from eigenview.training.launch import LOOKED_AT
from eigenview.training.processor import (
    LowerInstructionsNeeded,
    can_start_again,
    check_half_precision,
    start_again,
)
from eigenview.training.start import prepare

SHORT = {"encoder.name": "--encoder", "views.preset": "--views"}
MEASURED = 5.0  # seconds of training by which the rest is judged
LONG = 3600.0  # seconds from which a way to shorten the run is named


class StartOptions(Strict):
    """What the verbs that train have beside the settings."""

    resume: bool = False  # go on from the last checkpoint in --out; its settings are known
    begin: Annotated[str | None, Word("last|previous|best", name="from")] = None  # with --resume: the checkpoint to go
    # on from; last unless given, or the one before where that is damaged
    look: bool = True  # at the end, diagnose the run and keep a sample for the report
    kernel: Annotated[str | None, Word("KERNEL")] = None  # gaussian, laplacian, exponential, simple-sum, concat-sum, or
    # any kernel as text, such as 'Gaussian(0.2) + Laplacian(0.5)'; for kernel-infonce, which it implies; as text
    # also for moco and random-walk
    config: Annotated[Path | None, Word("FILE")] = None  # settings as JSON; options win


Started = TypeVar("Started", bound=StartOptions)


def parse_train(
    kind: type[Started], arguments: Sequence[str], *, verb: str, about: str | None
) -> tuple[Started, dict[str, Any]]:
    """The verb's own options, and the settings that were given, as a config file would hold them."""
    settings = Group(
        TrainConfig,
        "Settings of the run",
        inside={"method_settings": _method_among(arguments).settings_type},
        without=("source",),
        may_lack=True,
        aliases=SHORT,
    )
    own, given = given_options([Group(kind), settings], arguments, verb=verb, about=about)
    options = kind(**own)
    return options, settings_among(given, config=options.config, kernel=options.kernel)


def settings_among(
    given: Mapping[str, Any], *, config: Path | None = None, kernel: str | None = None
) -> dict[str, Any]:
    """The settings that were given, over those in the file ``config``; ``kernel`` finds its place among them."""
    merged = merge_settings({} if config is None else _stored_settings(config), given)
    if kernel is None:
        return merged
    name = merged.get("method", "kernel-infonce")
    if "kernel" not in find_method(name).settings_type.model_fields:
        have = [known for known, method in METHODS.items() if "kernel" in method.settings_type.model_fields]
        raise SettingError(f"{name} has no kernel to choose: leave --kernel out, or use --method {' or '.join(have)}")
    return merge_settings(merged, {"method": name, "method_settings": {"kernel": kernel}})


def _method_among(arguments: Sequence[str]) -> type[Method]:
    """The method whose settings are options too: as given, as in ``--config``, or the one a kernel implies."""
    words = [piece for word in arguments for piece in (word.split("=", 1) if word.startswith("--") else [word])]
    after = dict(pairwise(words))
    stored = _stored_settings(Path(after["--config"])) if "--config" in after else {}
    implied = "kernel-infonce" if "--kernel" in after else DEFAULT_METHOD
    return find_method(after.get("--method", str(stored.get("method", implied))))


def _stored_settings(file: Path) -> dict[str, Any]:
    return {name: value for name, value in stored_settings(file).items() if value is not None}


class Options(StartOptions):
    source: Annotated[str | None, positional("SOURCE")] = None  # images: a folder, a table, shards, a list, arrays or a
    # named set; --resume knows its own


read = partial(parse_train, Options)


def run(parsed: tuple[Options, dict[str, Any]], output: Output) -> None:
    options, given = parsed
    start(given if options.source is None else {**given, "source": options.source}, options, output)


def start(given: Mapping[str, Any], options: StartOptions, output: Output) -> None:
    """Train as ``given`` says and as is best for the rest; say what was chosen and what can be done next."""
    if options.resume and "out" not in given:
        raise SettingError("--resume needs the run to go on with: --out RUN")
    if not options.resume and "source" not in given:
        raise SettingError("SOURCE is missing: a folder of images, say (eigenview train --help tells more)")
    if options.begin is not None and not options.resume:
        raise SettingError("--from says where to go on: give --resume too, or leave it out")
    prepared = prepare(given, resume=options.resume)
    config = prepared.config
    device = find_device(config.device)
    _check_precision(config.precision, device.type, output)
    info = prepared.source.describe()
    output.say(str(info))
    if info.labels_hint:
        output.say(f"{info.labels_hint}; learning needs none", style="dim")
    if prepared.choices:
        output.say("chosen for these images and this machine (any of it can be given as an option):")
        width = max(len(choice.name) for choice in prepared.choices)
        for choice in prepared.choices:
            output.say(f"  {choice.name:<{width}}  {choice.value}  ({choice.reason})")
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


def _check_precision(precision: str, device: str, output: Output) -> None:
    """A processor that dies of half precision is found out in time, and spared."""
    try:
        check_half_precision(precision, device)
    except LowerInstructionsNeeded as error:
        start_lower(error, output)


def start_lower(error: LowerInstructionsNeeded, output: Output) -> NoReturn:
    """This command once more, with the lower set of instructions; where it is not a command, what to do is said."""
    if not can_start_again():
        raise error
    output.say(f"{error}; starting again with it")
    start_again()


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


class Announcement(Listener):
    """``looks_back``: whether the result is looked at in the end, which takes time after the time for training."""

    def __init__(self, output: Output, *, looks_back: bool) -> None:
        self.output, self.looks_back = output, looks_back
        self.plan: Plan | None = None
        self.first: tuple[int, float] | None = None  # step and seconds at the end of the first step, which is slow
        self.latest, self.is_said, self.views_per_second = (0, 0.0), False, 0.0

    def started(self, plan: Plan) -> None:
        self.plan = plan

    def stepped(self, step: int, seconds: float) -> None:
        self.latest = step, seconds
        self.first = self.first or self.latest
        steps, took = step - self.first[0], seconds - self.first[1]
        total = None if self.plan is None else self.plan.total_steps
        if self.is_said or total is None or not steps or took < MEASURED:
            return
        self.is_said = True
        left = took / steps * (total - step)
        bound = "; --minutes N bounds it" if left > LONG else ""
        if left >= MEASURED:
            self.output.say(f"{total - step:,} steps to go: {about(left)}{bound}")

    def measured(self, line: Mapping[str, Any]) -> None:
        self.views_per_second = float(line.get("views_per_second", self.views_per_second))

    def ended(self) -> None:
        plan, (step, seconds) = self.plan, self.latest
        if plan is None or plan.items is None or not self.looks_back or self.views_per_second <= 0:
            return
        is_whole = step == plan.total_steps or (plan.minutes is not None and seconds >= 60 * plan.minutes)
        images = min(LOOKED_AT, plan.items)
        wait = PASSES * images / self.views_per_second  # at the speed of training, which has gradients too
        if is_whole and wait >= MEASURED:
            self.output.say(f"now the result is looked at, on {images:,} images: {about(wait)} (--no-look: not at all)")
