"""Dataclasses as JSON, and back: of other versions, and out of damaged files."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from eigenview.errors import DataError
from eigenview.files import from_json, to_json


@dataclass(frozen=True)
class Leaf:
    size: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tree:
    leaf: Leaf
    count: int
    pairs: tuple[tuple[int, int], ...]
    note: str | None = None


TREE = Tree(Leaf(1.0, ("é", "b")), 3, ((1, 2),), None)


def test_a_dataclass_comes_back_the_same():
    assert from_json(Tree, to_json(TREE), "tree.json") == TREE
    assert from_json(Tree, to_json(TREE).encode(), "tree.json") == TREE
    whole = '{"leaf": {"size": 2}, "count": 1, "pairs": []}'  # a whole number where a float belongs
    assert from_json(Tree, whole, "tree.json") == Tree(Leaf(2.0), 1, ())


def test_unknown_fields_are_left_out_and_missing_ones_have_their_defaults():
    stored = json.loads(to_json(TREE))
    del stored["note"], stored["leaf"]["names"]
    stored |= {"new": [1, {"deep": None}]}
    assert from_json(Tree, json.dumps(stored), "tree.json") == Tree(Leaf(1.0), 3, ((1, 2),))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"),
        ('{"leaf": {"size": 1', "is not JSON"),
        ('{"leaf": {"size": NaN}, "count": 1, "pairs": []}', "NaN is no number of JSON's"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
        ("[" * 200_000, "is nested too deeply"),
        ("[]", "all of it: Input should be an object"),
        ('{"leaf": null, "count": 1, "pairs": []}', "leaf: Input should be an object"),
        ('{"leaf": {"size": "1"}, "count": 1, "pairs": []}', "leaf.size: Input should be a valid number"),
        ('{"leaf": {"size": 1}, "count": true, "pairs": []}', "count: Input should be a valid integer"),
        ('{"leaf": {"size": 1}, "count": 1, "pairs": [[1]]}', "pairs.0.1: Field required"),
        ('{"leaf": {"size": 1}, "pairs": []}', "count: Field required"),
    ],
)
def test_what_is_damaged_is_refused_in_one_line_by_its_path(text, problem):
    with pytest.raises(DataError) as caught:
        from_json(Tree, text, "folder/tree.json")
    assert str(caught.value).startswith("folder/tree.json ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_no_other_reader_would_take_is_not_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json(Tree(Leaf(float("nan")), 1, ()))
