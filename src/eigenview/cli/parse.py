"""Options of a verb, read by tyro from a dataclass or a TypedDict. What does not fit is said in one line."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import is_dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_type_hints, is_typeddict

import tyro

from eigenview.errors import SettingError

Kind = TypeVar("Kind")
POSITIONAL: Any = tyro.conf.Positional  # a mark on an option: it has no flag
HELP = {"-h", "--help"}
PLAIN_FLAGS = (tyro.conf.FlagCreatePairsOff,)  # --json, and no --no-json
RULES = [  # tyro's words, and ours for them
    (r"Missing from .*?: (\S+) (.*?)(?: \(required\).*)?", r"\1 is missing: \2"),
    (r"Unrecognized options: (.*)", r"too much was given: \1"),
    (r"invalid choice '(.*?)' for argument '(.*?)'\. Expected one of \((.*?),?\)\.?", r"\2 is one of \3; got '\1'"),
    (r"Missing value for argument '(.*?)'\. Expected .*", r"\1 needs a value"),
    (r"Error parsing (\S+?): no type matching .*? from \['?(.*?)'?\]\..*", r"\1 does not take '\2'"),
    (r"Error parsing (\S+?): invalid literal for int\(\) with base 10: (.*)", r"\1 is a whole number; got \2"),
    (r"Error parsing (\S+?): could not convert string to float: (.*)", r"\1 is a number; got \2"),
]


def parse(
    kind: type[Kind],
    arguments: Sequence[str],
    *,
    verb: str,
    about: str | None,
    config: Sequence[Any] = PLAIN_FLAGS,
) -> Kind:
    """The options among ``arguments``; ``about`` heads the help. A mistake is a SettingError that ends with advice."""
    if not HELP & set(arguments):
        _check_flags(arguments, known_flags(kind), verb)
    if os.environ.get("NO_COLOR"):
        tyro._experimental_options["ansi_codes"] = False
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(kind, args=list(arguments), prog=f"eigenview {verb}", description=about, config=config)
    except SystemExit as stop:
        if not stop.code:  # the help was asked for, and printed
            sys.stdout.flush()
            raise
        raise SettingError(f"{in_one_line(said.getvalue())} (eigenview {verb} --help tells more)") from None


def known_flags(kind: object, prefix: str = "") -> list[str]:
    """The flags of a dataclass or TypedDict and of those inside it, in their order."""
    return list(_flags(kind, prefix))


def _flags(kind: object, prefix: str) -> Iterator[str]:
    for field, hint in get_type_hints(kind, include_extras=True).items():
        inner, *notes = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        if POSITIONAL in notes:
            continue
        names: list[str] = []
        for note in notes:
            names += [note.name] if getattr(note, "name", None) else []
            yield from getattr(note, "aliases", None) or ()
        name = f"{prefix}{names[0] if names else field.replace('_', '-')}"
        if is_typeddict(inner) or is_dataclass(inner):
            yield from _flags(inner, f"{name}.")
        else:
            yield f"--{name}"
            if inner is bool:
                last = name.rsplit(".", 1)
                yield f"--{'.'.join([*last[:-1], f'no-{last[-1]}'])}"


def _check_flags(arguments: Sequence[str], known: Sequence[str], verb: str) -> None:
    for word in arguments:
        flag = word.partition("=")[0].replace("_", "-")
        is_flag = flag.startswith("--") or (flag.startswith("-") and flag[1:2].isalpha())
        if flag == "--":
            return
        if is_flag and flag not in known:
            close = get_close_matches(flag, known, n=1)
            short = [name for name in known if name.endswith(f".{flag[2:]}")]
            meant = f"; did you mean {(short or close)[0]}?" if short or close else ""
            raise SettingError(f"{verb} has no option {flag}{meant} (eigenview {verb} --help tells more)")


def in_one_line(box: str) -> str:
    """What tyro's box says down to its first rule. Where the output is not UTF-8 a title and a rule stand above."""
    lines = [line.strip().strip("│").strip() for line in box.splitlines()]
    parts: list[list[str]] = [[]]
    for line in lines:
        if line and set(line) <= {"─", "-"}:
            parts.append([])
        elif line and not line.startswith(("╭", "╰")):
            parts[-1].append(line)
    said = " ".join(parts[1] if "╭" not in box and len(parts) > 1 else parts[0])
    for pattern, ours in RULES:
        matched = re.fullmatch(pattern, said)
        if matched:
            said = matched.expand(ours)
            break
    return said + _close_choice(said)


def _close_choice(said: str) -> str:
    found = re.fullmatch(r"\S+ is one of (.*); got '(.*)'", said)
    choices: list[Any] = re.findall(r"'(.*?)'", found[1]) if found else []
    close = get_close_matches(found[2], choices, n=1) if found else []
    return f"; did you mean {close[0]}?" if close else ""
