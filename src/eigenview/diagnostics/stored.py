"""Frozen dataclasses of plain values as JSON, and back by their own type hints: strict in both directions."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import TypeVar

from eigenview.errors import DataError

Kind = TypeVar("Kind")


def to_json(value: object) -> str:
    """Standard JSON: NaN and infinity are refused, since no other reader would take them."""
    assert dataclasses.is_dataclass(value)
    assert not isinstance(value, type)
    return json.dumps(dataclasses.asdict(value), allow_nan=False, indent=1, ensure_ascii=False)


def from_json(kind: type[Kind], text: str) -> Kind:
    """What :func:`to_json` wrote of a ``kind``. Missing, unknown and mistyped fields are refused by their path."""
    try:
        stored = json.loads(text)
    except ValueError as problem:
        raise DataError(f"a stored {kind.__name__} must be JSON: {problem}") from None
    restored = _restored(kind, stored, kind.__name__)
    assert isinstance(restored, kind)
    return restored


def _restored(kind: object, value: object, path: str) -> object:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _restored_dataclass(kind, value, path)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        rest = [each for each in inner if each is not types.NoneType]
        return None if value is None else _restored(rest[0], value, path)
    if origin is tuple and isinstance(value, list):
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
        if len(kinds) == len(value):
            return tuple(
                _restored(each, part, f"{path}[{i}]") for i, (each, part) in enumerate(zip(kinds, value, strict=True))
            )
    elif kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif isinstance(kind, type) and type(value) is kind:
        return value
    raise DataError(f"{path} must be {kind}; got {value!r:.80}")


def _restored_dataclass(kind: type, value: object, path: str) -> object:
    names = [field.name for field in dataclasses.fields(kind)]
    if not isinstance(value, dict) or set(value) != set(names):
        got = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)[:80]
        raise DataError(f"{path} must have exactly the fields {', '.join(names)}; got {got}")
    hints = typing.get_type_hints(kind)
    return kind(**{name: _restored(hints[name], value[name], f"{path}.{name}") for name in names})
