from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenview.data import Loader, Source, UnreadableImage, rowgroups
from eigenview.data.columns import by_set
from eigenview.data.tables import TableSource
from eigenview.errors import DataError, SettingError
from tests.data.pictures import encoded, gradient


def write_table(
    path: Path, count: int = 6, *, metadata: dict[str, str] | None = None, start: int = 0, **columns: list
) -> Path:
    """Image number i has 37 × i in its blue channel."""
    numbers = range(start, start + count)
    images = [{"bytes": encoded(gradient(seed=number)), "path": f"{number}.png"} for number in numbers]
    table = pa.table({"image": images, **columns})
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=2)
    return path


def blues(source: TableSource) -> list[int]:
    return [int(source.image(index).pixels()[0, 0, 2]) for index in range(len(source))]


def test_the_hugging_face_layout_is_read(tmp_path):
    depth = [{"bytes": encoded(np.full((3, 4), 51 * (i % 5), dtype=np.uint8)), "path": None} for i in range(6)]
    captions = [[f"a picture of {i}", " and more "] for i in range(6)]
    path = write_table(tmp_path / "t.parquet", label=[0, 1, 2, 0, 1, 2], captions=captions, depth=depth)
    source = TableSource(path, depth_scale=25.5)
    assert isinstance(source, Source)
    assert blues(source) == [37 * i for i in range(6)]
    assert source.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert source.captions(3) == ("a picture of 3", "and more")
    measured = source.depth(2)
    assert measured is not None
    np.testing.assert_allclose(measured, 4.0)
    assert str(source.describe()) == f"table {path}: 6 images, labels, captions, depth"
    assert source.image(5).name == "t.parquet[5]"


def test_a_loader_gives_labels_captions_and_depth(tmp_path):
    depth = [{"bytes": encoded(np.full((24, 32), i, dtype=np.uint8)), "path": None} for i in range(6)]
    path = write_table(
        tmp_path / "t.parquet", label=list(range(6)), text=[f"number {i}" for i in range(6)], depth=depth
    )
    for workers in (0, 2):
        for batch in Loader(TableSource(path), batch_size=3, seed=0, workers=workers):
            assert batch.label.tolist() == batch.index.tolist()
            assert batch.captions == tuple((f"number {i}",) for i in batch.index.tolist())
            assert batch.depth.shape == (3, 1, 24, 32)
            assert batch.depth[:, 0, 5, 5].tolist() == batch.index.tolist()


def test_captions_of_any_number_of_columns_are_taken_the_rewrites_last(tmp_path):
    """A column of numbers that only has the name is none; a blank one keeps its place."""
    path = write_table(
        tmp_path / "t.parquet",
        rewrites=[[f"so {i}", None, f"or so {i}"] for i in range(6)],
        caption_0=[f"number {i}" for i in range(6)],
        caption_id=list(range(6)),
        caption_1=["" if i % 2 else f"again {i}" for i in range(6)],
        text=["something else"] * 6,
    )
    source = TableSource(path)
    assert source.captions(2) == ("number 2", "again 2", "so 2", "or so 2")
    assert source.captions(3) == ("number 3", "so 3", "or so 3")
    assert by_set(source.captions(3)) == ("number 3", "", "so 3", "", "or so 3")
    assert TableSource(path, captions="text,caption_1").captions(2) == ("something else", "again 2")
    with pytest.raises(DataError, match=r"column 'caption_id' of .* must hold text or lists of it; it is int64"):
        TableSource(path, captions="text,caption_id")
    for workers in (0, 2):  # what a worker sends over keeps its places
        for batch in Loader(source, batch_size=3, seed=0, workers=workers):
            assert [by_set(captions)[1] for captions in batch.captions] == [
                "" if i % 2 else f"again {i}" for i in batch.index.tolist()
            ]


def test_two_columns_of_one_name_are_refused(tmp_path):
    columns = [pa.array([b"x"]), pa.array(["one"]), pa.array(["two"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["image", "caption", "caption"]), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet has several columns called caption; each needs a name of its own"):
        TableSource(tmp_path / "t.parquet")


def test_class_names_come_from_the_schema(tmp_path):
    names = ["cat", "dog", "eel"]
    hub = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    for number, metadata in enumerate(({"classes": json.dumps(names)}, {"huggingface": json.dumps(hub)})):
        path = write_table(tmp_path / f"{number}.parquet", metadata=metadata, label=[0, 1, 2, 0, 1, 2])
        assert TableSource(path).classes == ("cat", "dog", "eel")
    broken = write_table(tmp_path / "b.parquet", metadata={"classes": "no json"}, label=[0] * 6)
    assert TableSource(broken).classes is None


def test_labels_may_be_words_or_missing(tmp_path):
    words = TableSource(write_table(tmp_path / "w.parquet", label=["dog", "cat", None, "dog", "cat", "ape"]))
    assert words.classes == ("ape", "cat", "dog")
    assert [words.label(i) for i in range(6)] == [2, 1, None, 2, 1, 0]
    numbers = TableSource(write_table(tmp_path / "n.parquet", label=[3, None, 1, 0, 0, 0]))
    assert [numbers.label(i) for i in range(3)] == [3, None, 1]


def test_several_files_are_one_source(tmp_path):
    paths = [write_table(tmp_path / "a.parquet", 3), write_table(tmp_path / "b.parquet", 3, start=3)]
    source = TableSource(paths)
    assert blues(source) == [37 * i for i in range(6)]
    assert source.image(4).name == "b.parquet[1]"


def test_bytes_and_paths_are_images_too(tmp_path):
    (tmp_path / "x.png").write_bytes(encoded(gradient(seed=1)))
    pq.write_table(pa.table({"jpg": [encoded(gradient(seed=2))]}), tmp_path / "bytes.parquet")
    pq.write_table(pa.table({"file": ["x.png", "gone.png", None]}), tmp_path / "paths.parquet")
    pq.write_table(pa.table({"image": [{"bytes": None, "path": "x.png"}]}), tmp_path / "struct.parquet")
    assert blues(TableSource(tmp_path / "bytes.parquet")) == [74]
    assert blues(TableSource(tmp_path / "struct.parquet")) == [37]
    source = TableSource(tmp_path / "paths.parquet")
    assert source.image(0).pixels()[0, 0, 2] == 37
    with pytest.raises(UnreadableImage, match=r"paths\.parquet\[1\] gone\.png: No such file"):
        source.image(1)
    with pytest.raises(UnreadableImage, match="the row has no image"):
        source.image(2)


def test_large_tables_are_read_by_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(rowgroups, "HELD_WHOLE", 0)
    monkeypatch.setattr(rowgroups, "ROW_GROUPS_HELD", 1)
    source = TableSource(write_table(tmp_path / "t.parquet"))
    assert blues(source) == [37 * i for i in range(6)]
    assert [int(source.image(i).pixels()[0, 0, 2]) for i in (5, 0, 3)] == [185, 0, 111]
    batches = list(Loader(source, batch_size=2, seed=0, workers=2))
    assert sorted(int(blue) for batch in batches for blue in batch.views[0][:, 2, 0, 0]) == [37 * i for i in range(6)]


def test_an_unreadable_depth_map_counts_as_an_unreadable_item(tmp_path):
    depth = [{"bytes": encoded(np.zeros((24, 32), dtype=np.uint8)), "path": None} for _ in range(6)]
    depth[2] = {"bytes": b"damaged", "path": None}
    source = TableSource(write_table(tmp_path / "t.parquet", depth=depth))
    loader = Loader(source, batch_size=6, seed=0, workers=0, unreadable="skip")
    (batch,) = loader
    assert sorted(batch.index.tolist()) == [0, 1, 3, 4, 5]
    assert list(loader.unreadable) == ["t.parquet[2] (depth)"]


def test_tables_travel_to_spawned_workers(tmp_path):
    source = pickle.loads(pickle.dumps(TableSource(write_table(tmp_path / "t.parquet"))))
    assert blues(source) == [37 * i for i in range(6)]


def test_mistakes_are_told_in_one_line(tmp_path, monkeypatch):
    path = write_table(tmp_path / "t.parquet", label=[0, 1, 2, 3, 4, 5])
    with pytest.raises(DataError, match=r"t\.parquet has no column 'klass' for the label; it has image, label"):
        TableSource(path, label="klass")
    with pytest.raises(DataError, match=r"has no column 'picture' for the image"):
        TableSource(path, image="picture")
    pq.write_table(pa.table({"number": [1]}), tmp_path / "none.parquet")
    with pytest.raises(DataError, match=r"no image column \(looked for .*\); it has number: name the right one"):
        TableSource(tmp_path / "none.parquet")
    pq.write_table(pa.table({"image": [1]}), tmp_path / "odd.parquet")
    with pytest.raises(DataError, match=r"must hold images .*; it is int64"):
        TableSource(tmp_path / "odd.parquet")
    named = write_table(tmp_path / "few.parquet", metadata={"classes": '["cat"]'}, label=[0, 1, 0, 0, 0, 0])
    with pytest.raises(DataError, match="label 1 has no name: there are 1 class names"):
        TableSource(named)
    with pytest.raises(DataError, match="one for each image"):
        TableSource(write_table(tmp_path / "many.parquet", label=[[0, 1]] * 6))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        TableSource(tmp_path / "bad.parquet")
    with pytest.raises(DataError, match="no such file"):
        TableSource(tmp_path / "missing.parquet")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"image": [{"bytes": b"", "path": ""}]}), other)
    with pytest.raises(DataError, match=r"other\.parquet has no column 'label'"):
        TableSource([path, other])
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(SettingError, match=r"needs pyarrow, .*pip install 'eigenview\[tables\]'"):
        TableSource(path)
