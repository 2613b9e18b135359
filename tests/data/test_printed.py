"""What a foreign file calls things reaches a terminal as plain text."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenview.data import Source, open_source
from eigenview.data.columns import as_captions
from eigenview.data.source import Share
from eigenview.errors import DataError
from tests.data.pictures import encoded, gradient
from tests.data.test_shards import write_tar

ESCAPE = "\x1b]0;owned\x07\x1b[2Jcat\n\u202e\ud83d"
BYTES = ESCAPE[:-1]  # without half a character, which UTF-8 cannot hold


@pytest.fixture
def hostile(tmp_path) -> list[str]:
    picture = encoded(gradient())
    (tmp_path / f"{BYTES[:9]}.png").write_bytes(picture)
    columns = {"image": [picture, b"broken"], "label": [BYTES, "dog"], "caption": [BYTES, None], BYTES: [1, 2]}
    pq.write_table(pa.table(columns), tmp_path / "words.parquet")
    numbers = pa.table({"image": [picture], "label": [0]}).replace_schema_metadata({"classes": json.dumps([ESCAPE])})
    pq.write_table(numbers, tmp_path / "metadata.parquet")
    row = {"path": "a.png", "label": ESCAPE, "captions": [ESCAPE]}
    (tmp_path / "list.jsonl").write_text(json.dumps(row))
    (tmp_path / "list.csv").write_text(f'path,label,caption\n"{BYTES}.png","{BYTES}","{BYTES}"\n')
    members = {f"{BYTES[:9]}.png": picture, f"{BYTES[:9]}.txt": BYTES.encode(), "b.png": b"broken"}
    write_tar(tmp_path / "shard.tar", members)
    names = ["words.parquet", "metadata.parquet", "list.jsonl", "list.csv", "shard.tar"]
    return [str(tmp_path), *[str(tmp_path / name) for name in names]]


def test_every_name_and_caption_is_plain_text(hostile):
    for text in hostile:
        source = open_source(text)
        words = [str(source.describe()), *(source.classes or ())]
        if isinstance(source, Source):
            words += [source.name(index) for index in range(len(source))]
            words += [caption for index in range(len(source)) for caption in source.captions(index)]
        else:
            items = list(source.items(Share(0, 0), shuffle=False))
            words += [str(item) if isinstance(item, Exception) else item.image.name for item in items]
            words += [caption for item in items if not isinstance(item, Exception) for caption in item.captions]
        assert len(words) > 1
        assert [word for word in words if not word.isprintable()] == []


def test_messages_about_columns_are_plain_text(hostile):
    for text in hostile[1:3]:
        with pytest.raises(DataError) as caught:
            open_source(text, image="picture")
        assert str(caught.value).isprintable()


def test_the_command_sends_no_escape_code(hostile):
    command = [sys.executable, "-m", "eigenview", "data", "check", hostile[1]]
    answer = subprocess.run(command, capture_output=True, timeout=200, check=True)
    assert b"1 class" in answer.stdout + answer.stderr
    assert b"\x1b" not in answer.stdout + answer.stderr


def test_captions_keep_their_language():
    assert as_captions("  می‌خواهم \n\t 👩‍🚀 soft­hyphen\x07") == ("می‌خواهم 👩‍🚀 softhyphen",)
    assert as_captions(["a  b", None, " \n", "ü\u202e"]) == ("a b", "ü")
