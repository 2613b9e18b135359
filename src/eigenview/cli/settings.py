"""The config models as options of a command line and as documentation: names, types, limits, defaults, comments.

A setting's explanation is the comment at the end of its line in the model's source: written once, shown everywhere.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import textwrap
import tokenize
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import tyro
from pydantic import BaseModel
from pydantic.fields import FieldInfo

AS_JSON: tyro.constructors.PrimitiveConstructorSpec[Any] = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="JSON",
    instance_from_str=lambda words: json.loads(words[0]),
    is_instance=lambda value: True,
    str_from_instance=lambda value: [json.dumps(value)],
)
NONE = " or none"
BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


@dataclass(frozen=True)
class Described:
    """One setting of a model: ``path`` as written in a config file, ``optimizer.learning_rate``."""

    path: str
    kind: str
    default: str
    comment: str


def described(model: type[BaseModel], prefix: str = "") -> Iterator[Described]:
    """Every setting of a model, those of models inside it after its own."""
    inside = []
    for name, info in model.model_fields.items():
        inner = without_none(info.annotation)
        if is_model(inner):
            inside.append((name, inner))
        else:
            comment = comments(model).get(name, "")
            yield Described(f"{prefix}{name}", kind_text(info), default_text(info), comment)
    for name, inner in inside:
        yield from described(inner, f"{prefix}{name}.")


def options_of(model: type[BaseModel], name: str, *, inside: Mapping[str, type[BaseModel]] | None = None) -> type:
    """A TypedDict without defaults: parsed by tyro it holds what was given, and nothing else.

    ``inside`` replaces models that are found only when the program runs. Lists of models and dicts are given as JSON.
    """
    fields: dict[str, Any] = {}
    for field, info in model.model_fields.items():
        inner = (inside or {}).get(field, without_none(info.annotation))
        if is_model(inner):
            fields[field] = options_of(inner, f"{name}_{field}")
            continue
        hint = f"(default: {default_text(info)})" if default_text(info) else ""
        shown = tyro.conf.arg(
            help=comments(model).get(field, "").replace("%", "%%"),
            help_behavior_hint=hint,
        )
        fields[field] = Annotated[str, AS_JSON, shown] if needs_json(inner) else Annotated[inner, shown]
    return typed_dict(name, fields)


def typed_dict(name: str, fields: dict[str, Any]) -> type:
    found: type = typing.TypedDict(name, fields, total=False)  # type: ignore[misc]
    return found


@cache
def comments(model: type[BaseModel]) -> Mapping[str, str]:
    """The comment at the end of each setting's line; a model's own before those of the models it extends."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind is not BaseModel:
            found |= _comments_in(textwrap.dedent(inspect.getsource(kind)))
    return found


def _comments_in(source: str) -> dict[str, str]:
    by_line = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith("# type:")
    }
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node in body.body:
        comment = by_line.get(node.end_lineno or 0)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and comment:
            found[node.target.id] = comment
    return found


def without_none(hint: Any) -> Any:
    """``X | None`` → ``X``: on a command line, not to be given is to be None."""
    if typing.get_origin(hint) is Annotated:
        return without_none(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        rest = tuple(part for part in typing.get_args(hint) if part is not types.NoneType)
        return rest[0] if len(rest) == 1 else typing.Union[rest]  # noqa: UP007
    return hint


def is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def needs_json(hint: Any) -> bool:
    """A list of models or a dict: too much for words on a command line."""
    return typing.get_origin(hint) is dict or is_model(hint) or any(map(needs_json, typing.get_args(hint)))


def kind_text(info: FieldInfo) -> str:
    """The type in a few words, with its limits: ``number > 0``, ``sgd, adam``."""
    limits = [
        f"{sign} {getattr(note, name):g}"
        for note in info.metadata
        for name, sign in BOUNDS.items()
        if getattr(note, name, None) is not None
    ]
    words = _kind(info.annotation)
    may_be_none = words.endswith(NONE)
    said = " ".join([words.removesuffix(NONE), ", ".join(limits)]).strip()
    return said + NONE if may_be_none else said


def _kind(hint: Any) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ", ".join(str(part) for part in parts)
    if origin in (types.UnionType, typing.Union):
        return " or ".join("none" if part is types.NoneType else _kind(part) for part in parts)
    if origin is tuple and parts[-1] is Ellipsis:
        return f"list of {_kind(parts[0])}"
    if origin is tuple:
        return " and ".join(_kind(part) for part in parts)
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
