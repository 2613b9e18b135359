"""Damaged files of every kind: each is read, or refused in one line; nothing else is ever raised."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenview.data import open_source
from eigenview.errors import DataError
from tests.data.damage import damaged, read_everything, texts_with, write_good_files
from tests.data.pictures import encoded, gradient
from tests.data.test_shards import write_tar

FILES = 400


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> tuple[list[str], Path]:
    root = tmp_path_factory.mktemp("good")
    return write_good_files(root), root


def test_files_in_order_are_read_without_a_word(good):
    texts, _ = good
    assert {text: list(read_everything(text)) for text in texts} == {text: [] for text in texts}


def test_damaged_files_are_read_or_refused_in_one_line(good, tmp_path):
    texts, root = good
    chance = random.Random(0)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    refusals = 0
    for number in range(FILES):
        file = files[number % len(files)]
        whole = file.read_bytes()
        try:
            file.write_bytes(damaged(whole, chance))
            for text in texts_with(file, texts, tmp_path):
                refusals += bool(list(read_everything(text)))  # raises if anything but a refusal comes
        finally:
            file.write_bytes(whole)
    assert refusals > FILES / 4  # the damage is not only in places that nobody reads


FLIPPED = """
import sys
from pathlib import Path
from tests.data.damage import read_everything
file = Path(sys.argv[1])
whole = file.read_bytes()
length = int.from_bytes(whole[-8:-4], "little") + 8
refusals = 0
for place in range(len(whole) - length, len(whole)):
    content = bytearray(whole)
    content[place] ^= 1 << place % 4
    file.write_bytes(bytes(content))
    refusals += bool(list(read_everything(str(file))))
print(refusals / length)
"""


def test_no_bit_of_a_tables_footer_ends_the_process(tmp_path):
    images = [{"bytes": encoded(gradient(), "PNG"), "path": "a"}] * 2
    pq.write_table(pa.table({"image": images}), tmp_path / "t.parquet", store_schema=False)
    done = subprocess.run(
        [sys.executable, "-c", FLIPPED, str(tmp_path / "t.parquet")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0.1 < float(done.stdout) < 1


def test_a_shard_with_brackets_without_end_names_its_sample(tmp_path):
    picture = encoded(gradient(), "PNG")
    write_tar(tmp_path / "s.tar", {"a.png": picture, "a.json": b"[" * 200_000, "b.png": picture})
    assert [text.split(": ", 1)[1][:35] for text in read_everything(str(tmp_path / "s.tar"))] == [
        "its label or caption is damaged: ma"
    ]


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.jsonl", "x.parquet", "x.tar", "x.tar.gz"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[" * 100_000])
def test_files_that_hold_nothing_or_nonsense_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    refusals = list(read_everything(str(tmp_path / name)))
    assert len(refusals) == 1
    assert name in refusals[0]


def test_labels_without_labels_are_not_passed_over(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 4, 4, 3), dtype=np.uint8))
    np.savez(tmp_path / "y.npz", other=np.arange(2))
    with pytest.raises(DataError, match=r"y\.npz has no labels: no array named labels or label or y; it has other"):
        open_source(tmp_path / "x.npy", labels=tmp_path / "y.npz")
