"""Damage to a file: of any kind of bytes, and of JSON in ways that still parse."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.data.damage import damaged

PAGE = 4096
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**30, 1e300, "", "x" * 100_000, "\x1b[2J", "\ud800", [], {}, [[]], {"": None}),
    *([None] * 1000, "../../etc/passwd", "\0", float("nan"), float("inf")),
)
DEEP = "[" * 200_000


def spoilt(data: bytes, name: str, chance: random.Random, others: list[bytes]) -> bytes | None:
    """``data`` of the file ``name``, damaged in one of many ways; pieces of ``others`` may turn up in it.

    None for a file that is gone.
    """
    if chance.random() < 0.04:
        return chance.choice((None, b"", chance.choice(others)))
    ways = [damaged, _zeroed, lambda data, chance: _spliced(data, chance, others)]
    if name.endswith((".json", ".jsonl")) and chance.random() < 0.6:
        ways = [_retyped, _nested, _renamed]
    return chance.choice(ways)(data, chance) if data else chance.randbytes(7)


def _zeroed(data: bytes, chance: random.Random) -> bytes:
    """A page that never reached the disk."""
    size = chance.choice((64, 512, PAGE))
    start = chance.randrange(0, max(1, len(data)), size)
    return data[:start] + bytes(min(size, len(data) - start)) + data[start + size :]


def _spliced(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """A page of another file in the place of one of its own."""
    other = chance.choice(others)
    size = chance.choice((16, 512, PAGE))
    start, place = chance.randrange(len(data)), chance.randrange(max(1, len(other)))
    return data[:start] + other[place : place + size] + data[start + size :]


def _retyped(data: bytes, chance: random.Random) -> bytes:
    """One value of the JSON, anywhere in it, is of another type or size."""
    return _changed(data, chance, lambda place, key: place.__setitem__(key, chance.choice(VALUES)))


def _renamed(data: bytes, chance: random.Random) -> bytes:
    """One value of the JSON is missing, or goes by another name."""

    def change(place: Any, key: Any) -> None:
        value = place.pop(key)
        if chance.random() < 0.5:
            place.update({f"{key}x": value}) if isinstance(place, dict) else place.extend([value, value])

    return _changed(data, chance, change)


def _nested(data: bytes, chance: random.Random) -> bytes:
    """Brackets without end in the place of a value."""
    text = data.decode()
    start = chance.randrange(len(text))
    return (text[:start] + chance.choice((DEEP, DEEP.replace("[", '{"a":'))) + text[start:]).encode()


def _changed(data: bytes, chance: random.Random, change: Any) -> bytes:
    lines = data.decode().splitlines() if data.count(b"\n{") else [data.decode()]
    row = chance.randrange(len(lines))
    whole = [json.loads(lines[row])]
    places = list(_places(whole))
    change(*chance.choice(places[1:] if len(places) > 1 and chance.random() < 0.9 else places))
    lines[row] = json.dumps(whole[0] if whole else None)
    return ("\n".join(lines) + "\n").encode()


def _places(content: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value within."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [pair for key, value in inner for pair in [(content, key), *_places(value)]]
