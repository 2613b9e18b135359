"""Files made to hurt: each source answers with one line that says what is wrong, never with another exception."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from eigenview.data import EncodedImage, FolderSource, open_source
from eigenview.data.decode import UnreadableImage
from eigenview.data.source import Share
from eigenview.errors import DataError
from eigenview.names import printable


def picture(kind="PNG"):
    buffer = io.BytesIO()
    Image.fromarray(np.full((4, 5, 3), 77, dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def refused(path, message):
    with pytest.raises(DataError, match=message) as caught:
        open_source(str(path))
    assert "\n" not in str(caught.value)


def test_arrays_with_lying_headers_and_endless_labels_are_refused(tmp_path):
    np.save(tmp_path / "good.npy", np.zeros((2, 4, 4, 3), dtype=np.uint8))
    header = (tmp_path / "good.npy").read_bytes()
    (tmp_path / "lie.npy").write_bytes(header.replace(b"(2, 4, 4, 3)", b"(9999999999,"))
    refused(tmp_path / "lie.npy", "not a readable .npy")
    for label in (np.inf, 2.0**40, 0.5):
        np.savez(tmp_path / "x.npz", images=np.zeros((2, 4, 4, 3), dtype=np.uint8), labels=np.array([label, 1]))
        refused(tmp_path / "x.npz", "labels must be (whole numbers; got float64|below 2³¹)")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, "line 1: not JSON: maximum recursion depth"),
        ('{"path": "a.png", "label": ' + "9" * 5000 + "}", "line 1: not JSON: Exceeds the limit"),
        ('{"path": "a.png", "label": 99999999999999999999}', "below 2³¹; .* has 99999999999999999999"),
        ('{"path": "a.png", "label": Infinity}', "whole numbers or names; .* has inf"),
        ('{"path": "a.png", "label": 1.5}', "whole numbers or names; .* has 1.5"),
        ('{"path": "\\ud800.png"}', r"line 1: '\\ud800.png' cannot be a path"),
        ('{"path": "a\\u0000.png"}', r"line 1: 'a\\x00.png' cannot be a path"),
    ],
)
def test_json_lines_that_no_one_writes_by_accident_are_refused(tmp_path, line, message):
    (tmp_path / "list.jsonl").write_text(line + "\n")
    refused(tmp_path / "list.jsonl", message)


def test_a_label_that_is_not_a_number_is_no_label(tmp_path):
    lines = ['{"path": "a.png", "label": NaN}', '{"path": "b.png", "label": 3}']
    (tmp_path / "list.jsonl").write_text("\n".join(lines))
    assert open_source(str(tmp_path / "list.jsonl")).labels.tolist() == [-1, 3]


@pytest.mark.parametrize("label", [2**63, b"x", "date"])
def test_tables_with_labels_that_are_none_are_refused(tmp_path, label):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    kind = {int: pyarrow.uint64(), bytes: pyarrow.binary(), str: pyarrow.date32()}[type(label)]
    column = pyarrow.array([0 if label == "date" else label], kind)
    parquet.write_table(pyarrow.table({"image": [picture()], "label": column}), tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", "labels must be")


def test_a_shard_with_an_absurd_label_names_its_sample(tmp_path):
    pytest.importorskip("webdataset")
    with tarfile.open(tmp_path / "s.tar", "w") as shard:
        for name, data in (("a.png", picture()), ("a.cls", b"9" * 30), ("b.png", picture()), ("b.cls", b"7")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            shard.addfile(member, io.BytesIO(data))
    first, second = open_source(str(tmp_path / "s.tar")).items(Share(0, 0), shuffle=False)
    assert isinstance(first, UnreadableImage)
    assert "is not a whole number from 0" in first.reason
    assert second.label == 7


def test_what_is_no_image_is_said_so_and_rarer_formats_are_read():
    with pytest.raises(UnreadableImage, match="not an image in a known format"):
        EncodedImage(b"root:x:0:0", name="x")
    np.testing.assert_array_equal(EncodedImage(picture("JPEG2000"), name="x").pixels(), np.full((4, 5, 3), 77))


def test_a_name_with_a_line_break_stays_on_one_line(tmp_path):
    (tmp_path / "two\nlines\x1b[2J.png").write_bytes(b"xx")
    (tmp_path / "größe und 写真.png").write_bytes(picture())
    source = FolderSource(tmp_path)
    readable, broken = source.image(0), "two\\nlines\\x1b[2J.png"
    assert readable.name == "größe und 写真.png"
    with pytest.raises(UnreadableImage) as caught:
        source.image(1)
    assert caught.value.name == broken == printable("two\nlines\x1b[2J.png")
