"""JSON, and dataclasses as JSON: of other versions, and out of damaged files; whole writes have a file of tests."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from eigenview import files
from eigenview.errors import DataError
from eigenview.files import from_json, read_object, to_json, write_json


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
        ('{"leaf": {"size": 1}, "count": 1, "pairs": [[1]]}', "pairs.0.1 is missing"),
        ('{"leaf": {"size": 1}, "pairs": []}', "count is missing"),
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


def test_json_comes_back_the_same(tmp_path):
    content = {"text": "é 漢 😀", "half": "\udce9", "numbers": [1, 2.5, None, True], "nested": {"a": {}}}
    assert read_object(write_json(tmp_path / "a.json", content)) == content
    assert read_object(write_json(tmp_path / "b.json", {"a": [1, "two"]}, indent=2)) == {"a": [1, "two"]}
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert read_object(tmp_path / "a.json") == content


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not JSON"),
        (b'{"a": 1', "is not JSON: .*; it was cut short, or is something else"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
        ('{"a": "\u00e9"}'.encode("latin-1"), "is not UTF-8 text"),
        (b"[" * 200_000, "is nested too deeply"),
        (b'{"a":' * 200_000, "is nested too deeply"),
        (b'{"a": Infinity}', "Infinity is no number of JSON's"),
        (b"1" * 5000, "is not JSON"),
        (b"[1, 2]", "must hold a JSON object; it holds list"),
        (b"null", "must hold a JSON object; it holds NoneType"),
    ],
)
def test_a_damaged_file_is_one_line_that_names_it(tmp_path, content, problem):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DataError, match=problem) as caught:
        read_object(tmp_path / "config.json")
    assert str(tmp_path / "config.json") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_too_large_missing_or_no_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_JSON", 1 << 20)
    write_json(tmp_path / "large.json", {"a": "x" * (1 << 20)})
    with pytest.raises(DataError, match="is too large to be one of ours: over 1 MB"):
        read_object(tmp_path / "large.json")
    fits = {"a": "x" * ((1 << 20) - 10)}  # beside the text: braces, a name, quotes and the end of the line
    assert write_json(tmp_path / "fits.json", fits).stat().st_size == 1 << 20
    assert read_object(tmp_path / "fits.json") == fits
    with pytest.raises(DataError, match=r"cannot read .*none\.json: No such file"):
        read_object(tmp_path / "none.json")
    with pytest.raises(DataError, match=r"cannot read .*: Is a directory"):
        read_object(tmp_path)
