"""The options of ``train``: every setting of its config, the method's own among them, and a few short ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro

from eigenview.cli.parse import POSITIONAL, parse
from eigenview.cli.settings import options_of, typed_dict
from eigenview.errors import SettingError
from eigenview.methods import METHODS, find_method
from eigenview.runs import TrainConfig, merge_settings

SHORT = {"encoder_name": ("encoder", "name"), "views_preset": ("views", "preset")}  # and where they belong
arg = tyro.conf.arg


def parse_train(arguments: Sequence[str], *, verb: str, about: str | None, first: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, as tyro finds it; ``first`` are the verb's own options, before those of the config."""
    settings = options_of(TrainConfig, "Train", inside={"method_settings": _method_among(arguments).settings_type})
    hints = dict(settings.__annotations__)
    del hints["source"]
    short = {
        "encoder_name": Annotated[str, arg(name="encoder", help="short for --encoder.name", help_behavior_hint="")],
        "views_preset": Annotated[str, arg(name="views", help="short for --views.preset", help_behavior_hint="")],
        "kernel": Annotated[
            str,
            arg(
                help="gaussian, laplacian, exponential, simple-sum, concat-sum, or any kernel as text, such as "
                "'Gaussian(0.2) + Laplacian(0.5)'; for kernel-infonce (which it implies) and, as text, moco",
                help_behavior_hint="",
            ),
        ],
        "config": Annotated[Path, arg(metavar="FILE", help="settings as JSON; options win", help_behavior_hint="")],
    }
    kind = typed_dict("Options", {**first, **short, **hints})
    return dict(parse(kind, arguments, verb=verb, about=about, config=()))


def source_hint(help: str) -> Any:
    return Annotated[str, POSITIONAL, arg(metavar="SOURCE", help=help, help_behavior_hint="")]


def flag_hint(help: str) -> Any:
    return Annotated[bool, arg(help=help, help_behavior_hint="")]


def settings_among(options: Mapping[str, Any], verbs_own: Sequence[str]) -> dict[str, Any]:
    """The settings among the options, as a config file would hold them, over those of ``--config``."""
    given = {name: value for name, value in options.items() if name not in {*verbs_own, "config", "kernel", *SHORT}}
    given = {name: value for name, value in given.items() if value != {}}
    for name, (part, setting) in SHORT.items():
        if name in options:
            given[part] = {setting: options[name], **given.get(part, {})}
    base = _stored_settings(options["config"]) if "config" in options else {}
    merged = merge_settings(base, given)
    return _with_kernel(merged, options["kernel"]) if "kernel" in options else merged


def _with_kernel(given: dict[str, Any], kernel: str) -> dict[str, Any]:
    name = given.get("method", "kernel-infonce")
    if "kernel" not in find_method(name).settings_type.model_fields:
        have = [one for one, method in METHODS.items() if "kernel" in method.settings_type.model_fields]
        raise SettingError(f"{name} has no kernel to choose: leave --kernel out, or use --method {' or '.join(have)}")
    return merge_settings(given, {"method": name, "method_settings": {"kernel": kernel}})


def _method_among(arguments: Sequence[str]) -> Any:
    """The method whose settings are options too: as given, as in ``--config``, or the one a kernel implies."""
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    after = dict(pairwise(words))
    stored = _stored_settings(after["--config"]) if "--config" in after else {}
    implied = "kernel-infonce" if "--kernel" in after else "simclr"
    return find_method(after.get("--method", str(stored.get("method", implied))))


def _stored_settings(file: str | Path) -> dict[str, Any]:
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"cannot read the settings in {file}: {error.strerror}") from None
    except ValueError as error:
        raise SettingError(f"{file} must be JSON: {error}") from None
    if not isinstance(found, dict):
        raise SettingError(f"settings are a JSON object; {file} holds {type(found).__name__}")
    return {name: value for name, value in found.items() if value is not None}
