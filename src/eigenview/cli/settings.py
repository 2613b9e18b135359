"""What a settings model says of itself, for the command line and the documentation: types, limits, defaults, comments.

A setting's explanation is the comment at the end of its line in the model's source, and on the lines below it that hold
nothing else: written once, shown everywhere.
"""

import ast
import inspect
import io
import textwrap
import tokenize
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

NONE = " or none"
BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def fields_of(
    model: type[BaseModel], inside: Mapping[str, type[BaseModel]] | None = None, outer: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo, str]]:
    """(path, field, comment) of every setting: its own, those of the models it extends, those of the models in it.

    ``inside`` gives, by path, models that are known only when the program runs.
    """
    later, own = [], inspect.get_annotations(model)
    for name, info in sorted(model.model_fields.items(), key=lambda field: field[0] not in own):
        path = (*outer, name)
        inner = (inside or {}).get(".".join(path), without_none(info.annotation))
        if is_model(inner):
            later.append((inner, path))
        else:
            yield path, info, comments(model).get(name, "")
    for inner, path in later:
        yield from fields_of(inner, inside, path)


@cache
def comments(model: type[BaseModel]) -> Mapping[str, str]:
    """The comment at the end of each setting's line; a model's own before those of the models it extends."""
    said: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind is not BaseModel:
            with suppress(OSError):  # a model typed into a prompt has no source
                said |= _comments_in(textwrap.dedent(inspect.getsource(kind)))
    return said


def _comments_in(source: str) -> dict[str, str]:
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    by_line = {token.start[0]: token for token in tokens if token.type == tokenize.COMMENT}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    said = {}
    for node in body.body:
        line = node.end_lineno or 0
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)) or line not in by_line:
            continue
        words = [by_line[line].string.lstrip("# ")]
        while (below := by_line.get(line := line + 1)) is not None and below.line.lstrip().startswith("#"):
            words.append(below.string.lstrip("# "))
        if not words[0].startswith("type:"):
            said[node.target.id] = " ".join(words)
    return said


def without_none(hint: Any) -> Any:
    """``X | None`` → ``X``: on a command line, not to be given is to be None."""
    if typing.get_origin(hint) is Annotated:
        return without_none(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        rest = tuple(kind for kind in typing.get_args(hint) if kind is not types.NoneType)
        return rest[0] if len(rest) == 1 else typing.Union[rest]  # noqa: UP007
    return hint


def is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def needs_json(hint: Any) -> bool:
    """A list of models or a dict: too much for words on a command line."""
    return typing.get_origin(hint) is dict or is_model(hint) or any(map(needs_json, typing.get_args(hint)))


def kind_text(info: FieldInfo) -> str:
    """The type in a few words, with its limits: ``number > 0``, ``sgd, adam``."""
    words = _kind(info.annotation)
    may_be_none = words.endswith(NONE)
    said = f"{words.removesuffix(NONE)} {limits_text(info)}".strip()
    return said + NONE if may_be_none else said


def limits_text(info: FieldInfo) -> str:
    """``≥ 0, < 1``."""
    limits = [
        f"{sign} {getattr(note, name):g}"
        for note in info.metadata
        for name, sign in BOUNDS.items()
        if getattr(note, name, None) is not None
    ]
    return ", ".join(limits)


def metavar_text(hint: Any) -> str:
    """What stands for a value in the help: ``N``, ``sgd|adam``, ``X X``, ``TEXT ...``."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if needs_json(hint):
        return "JSON"
    if origin is Literal:
        return "|".join(map(str, parts))
    if origin in (types.UnionType, typing.Union):
        return "|".join(map(metavar_text, parts))
    if origin is tuple:
        return f"{metavar_text(parts[0])} ..." if Ellipsis in parts else " ".join(map(metavar_text, parts))
    names = {int: "N", float: "X", bool: "true|false", Path: "PATH"}
    return names.get(hint, "TEXT")


def _kind(hint: Any) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ", ".join(map(str, parts))
    if origin in (types.UnionType, typing.Union):
        return " or ".join("none" if kind is types.NoneType else _kind(kind) for kind in parts)
    if origin is tuple and parts[-1] is Ellipsis:
        return f"list of {_kind(parts[0])}"
    if origin is tuple:
        return " and ".join(map(_kind, parts))
    if origin is dict:
        return f"{{{_kind(parts[0])}: {_kind(parts[1])}}}"
    if is_model(hint):
        return "{" + ", ".join(hint.model_fields) + "}"
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    return names.get(hint, "path" if getattr(hint, "__name__", "") == "Path" else getattr(hint, "__name__", str(hint)))


def default_text(info: FieldInfo) -> str:
    """The default as a config file or a command line writes it; empty where there is none to show."""
    if info.is_required():
        return ""
    value = info.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or "empty"
    return str(value)
