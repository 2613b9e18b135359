"""The options of ``train``: every setting of its config, the method's own among them, and a few short ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

from eigenview.cli.options import Group, Word, given_options
from eigenview.errors import SettingError
from eigenview.methods import DEFAULT_METHOD, METHODS, Method, find_method
from eigenview.runs import TrainConfig, merge_settings, stored_settings
from eigenview.settings import Strict

SHORT = {"encoder.name": "--encoder", "views.preset": "--views"}


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
    return merged if kernel is None else _with_kernel(merged, kernel)


def _with_kernel(given: dict[str, Any], kernel: str) -> dict[str, Any]:
    name = given.get("method", "kernel-infonce")
    if "kernel" not in find_method(name).settings_type.model_fields:
        have = [known for known, method in METHODS.items() if "kernel" in method.settings_type.model_fields]
        raise SettingError(f"{name} has no kernel to choose: leave --kernel out, or use --method {' or '.join(have)}")
    return merge_settings(given, {"method": name, "method_settings": {"kernel": kernel}})


def _method_among(arguments: Sequence[str]) -> type[Method]:
    """The method whose settings are options too: as given, as in ``--config``, or the one a kernel implies."""
    words = [piece for word in arguments for piece in (word.split("=", 1) if word.startswith("--") else [word])]
    after = dict(pairwise(words))
    stored = _stored_settings(Path(after["--config"])) if "--config" in after else {}
    implied = "kernel-infonce" if "--kernel" in after else DEFAULT_METHOD
    return find_method(after.get("--method", str(stored.get("method", implied))))


def _stored_settings(file: Path) -> dict[str, Any]:
    return {name: value for name, value in stored_settings(file).items() if value is not None}
