from __future__ import annotations

import json
from pathlib import Path

import pytest

from eigenview.data import Source
from eigenview.data.columns import by_set
from eigenview.data.listing import ListSource
from eigenview.errors import DataError
from tests.data.pictures import write_folder


def written(path: Path, text: str) -> Path:
    write_folder(path.parent / "pictures", 3)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_with_any_number_of_captions(tmp_path):
    path = written(
        tmp_path / "list.csv",
        "path,caption,caption_2,label\n"
        'pictures/good_0001.png,"a dog, running",a brown dog,dog\n'
        "pictures/good_0000.png,a cat,,cat\n",
    )
    source = ListSource(path)
    assert isinstance(source, Source)
    assert [source.image(i).pixels()[0, 0, 2] for i in range(2)] == [37, 0]
    assert [source.captions(i) for i in range(2)] == [("a dog, running", "a brown dog"), ("a cat",)]
    assert source.classes == ("cat", "dog")
    assert [source.label(i) for i in range(2)] == [1, 0]
    assert str(source.describe()) == f"list {path}: 2 images, 2 classes, captions"


def test_blank_captions_of_a_list_keep_their_places(tmp_path):
    rows = ["path,rewrite_1,caption,caption_2", "a.png,so,,one", "a.png,,two,", "b.png,,only,"]
    source = ListSource(written(tmp_path / "list.csv", "\n".join(rows)))
    assert [source.captions(i) for i in range(2)] == [("one", "so", "two"), ("only",)]
    assert by_set(source.captions(0)) == ("", "one", "so", "two")


def test_a_path_that_comes_again_adds_captions(tmp_path):
    lines = [
        "file_name\ttext",
        "pictures/good_0000.png\tone",
        "pictures/good_0002.png\tthree",
        "pictures/good_0000.png\ttwo",
    ]
    source = ListSource(written(tmp_path / "list.tsv", "\n".join(lines)))
    assert [source.captions(i) for i in range(len(source))] == [("one", "two"), ("three",)]


def test_json_lines_hold_lists_of_captions(tmp_path):
    rows = [
        {"path": "good_0000.png", "captions": ["one", "two"], "label": 4},
        {"path": "good_0001.png", "captions": [], "label": None},
        {"path": "good_0002.png", "caption": "three"},
    ]
    path = written(tmp_path / "list.jsonl", "\n\n".join(map(json.dumps, rows)))
    source = ListSource(path, root=tmp_path / "pictures")
    assert [source.captions(i) for i in range(3)] == [("one", "two"), (), ("three",)]
    assert [source.label(i) for i in range(3)] == [4, None, None]
    assert source.image(2).size == (32, 24)


def test_named_columns_win_over_common_names(tmp_path):
    path = written(tmp_path / "list.csv", "path,where,label,kind\nnowhere.png,pictures/good_0002.png,0,7\n")
    source = ListSource(path, image="where", label="kind")
    assert (source.image(0).name, source.label(0)) == ("pictures/good_0002.png", 7)


def test_mistakes_are_told_in_one_line(tmp_path):
    cases = {
        "a.csv": ("number\n1\n", r"no image column"),
        "b.csv": ("path,label\nx.png,1\nx.png,2\n", r"b\.csv, line 3: x\.png has label '1' above and '2' here"),
        "c.csv": ("path\nx.png,more\n", r"line 2: more fields than the header names"),
        "d.csv": ("path\n", "names no images"),
        "e.csv": ("path,label\n,2\n", "line 2: the path of the image is missing"),
        "f.csv": ("path,label\nx.png,-5\n", "at least 0"),
        "g.jsonl": ('{"path": "x.png"}\n{"path": \n', "line 2: not JSON"),
        "h.jsonl": ("[1, 2]\n", "line 1: each line must be a JSON object"),
        "i.jsonl": ('{"path": "x.png", "label": [1]}\n', r"whole number or a name; got \[1\]"),
    }
    for name, (text, message) in cases.items():
        with pytest.raises(DataError, match=message):
            ListSource(written(tmp_path / name, text))
    with pytest.raises(DataError, match="no column 'words' for the captions; it has path"):
        ListSource(written(tmp_path / "j.csv", "path\nx.png\n"), captions="words")
    (tmp_path / "k.csv").write_bytes(b"path\n\xff\xfe.png\n")
    with pytest.raises(DataError, match="not UTF-8"):
        ListSource(tmp_path / "k.csv")
    with pytest.raises(DataError, match="no such file"):
        ListSource(tmp_path / "missing.csv")
