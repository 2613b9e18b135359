from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenview.data import ArraySource, FolderSource, open_source
from eigenview.data.listing import ListSource
from eigenview.data.shards import ShardSource
from eigenview.data.tables import TableSource
from eigenview.errors import DataError, SettingError
from eigenview.names import named_code
from tests.data.pictures import encoded, gradient, write_folder
from tests.data.test_shards import write_shards


@pytest.fixture
def places(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "photos" / "cats", 2)
    np.savez("xy.npz", images=np.zeros((2, 8, 8), dtype=np.uint8), labels=np.arange(2))
    np.save("x.npy", np.zeros((2, 8, 8), dtype=np.uint8))
    np.save("y.npy", np.arange(2))
    for number in range(2):
        pq.write_table(pa.table({"image": [encoded(gradient())], "kind": [3]}), f"t{number}.parquet")
    Path("list.csv").write_text("path\ncats/good_0000.png\n")
    write_shards(tmp_path, 2, 1)
    return tmp_path


def test_the_place_tells_the_kind(places):
    cases = {"photos": FolderSource, "photos/": FolderSource, "xy.npz": ArraySource, "t0.parquet": TableSource,
             "list.csv": ListSource, "shard-{000..001}.tar": ShardSource, "shard-*.tar": ShardSource,
             "folder:photos": FolderSource, "table:t1.parquet": TableSource}  # fmt: skip
    for spec, kind in cases.items():
        assert type(open_source(spec)) is kind, spec
    assert type(open_source(places / "photos")) is FolderSource
    assert type(open_source(str(places / "photos"))) is FolderSource


def test_options_are_written_behind_the_place(places):
    assert open_source("photos?labelled=yes").classes == ("cats",)
    assert open_source("photos?labelled=no&channels=1").image(0).pixels().shape[2] == 1
    assert open_source("x.npy?labels=y.npy").labels.tolist() == [0, 1]
    assert open_source("t*.parquet?label=kind").labels.tolist() == [3, 3]
    assert open_source("list.csv?root=photos").image(0).size == (32, 24)
    assert len(open_source("shapes?count=5&size=16")) == 5
    assert open_source("shapes?count=5&size=16", size=24).image(0).size == (24, 24)
    assert open_source("photos", labelled=True).classes == ("cats",)


def test_odd_names_are_taken_as_they_are(places):
    write_folder(places / "what?yes=no", 1)
    write_folder(places / "cifar10", 1)
    assert len(open_source("what?yes=no")) == 1
    assert len(open_source(places / "what?yes=no")) == 1
    assert type(open_source("cifar10")) is FolderSource  # a folder that is there wins over a name


def test_named_sets_lie_below_the_data_root(places, monkeypatch):
    monkeypatch.setenv("EIGENVIEW_DATA", str(places))
    (places / "imagenet" / "train" / "n01").mkdir(parents=True)
    write_folder(places / "imagenet" / "train" / "n01", 1)
    monkeypatch.chdir(places / "photos")
    assert open_source("imagenet").classes == ("n01",)
    with pytest.raises(DataError, match=r"no such folder: .*stl10 needs its published files there"):
        open_source("stl10")


def test_mistakes_are_told_in_one_line(places):
    Path("notes.txt").write_text("hello")
    with pytest.raises(
        DataError, match=r"no such folder or file: nowhere; is the path right\? \(sets: digits, shapes, "
    ):
        open_source("nowhere")
    with pytest.raises(DataError, match=r"notes\.txt is a file, not a folder of images"):
        open_source("notes.txt")
    with pytest.raises(SettingError, match="folder has no option 'labeled'; it has labelled, channels"):
        open_source("photos?labeled=yes")
    with pytest.raises(SettingError, match="folder has no option 'labeled'"):
        open_source("photos", labeled=True)
    with pytest.raises(SettingError, match="option labelled is yes or no; got 'maybe'"):
        open_source("photos?labelled=maybe")
    with pytest.raises(SettingError, match="option channels is a number; got 'three'"):
        open_source("photos?channels=three")
    with pytest.raises(SettingError, match=r"options are written \?name=value"):
        open_source("photos?labelled")
    with pytest.raises(SettingError, match="got nothing"):
        open_source("")
    with pytest.raises(DataError, match=r"no such file: .*gone\.parquet"):
        open_source("gone.parquet")


OWN_SOURCE = """
import numpy as np
from eigenview.data import PixelImage, SourceInfo
from eigenview.data.source import Unannotated

class Stripes(Unannotated):
    def __init__(self, *, count="5"):
        self.count = int(count)
    def __len__(self):
        return self.count
    def image(self, index):
        return PixelImage(np.full((8, 8, 3), index, dtype=np.uint8), name=f"stripe {index}")
    def describe(self):
        return SourceInfo("own", "stripes", self.count)

nothing = 3
"""


def test_a_source_of_ones_own_is_opened_where_this_call_names_it(tmp_path, monkeypatch):
    (tmp_path / "my_stripes.py").write_text(OWN_SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError, match="runs only if this very call names it"):
        open_source("my_stripes:Stripes")
    assert "my_stripes" not in sys.modules
    with named_code("my_stripes:Stripes?count=7"):
        assert len(open_source("my_stripes:Stripes?count=7")) == 7
    with named_code("my_stripes:Stripes", "my_stripes:nothing"):
        assert open_source("my_stripes:Stripes").image(3).pixels()[0, 0, 0] == 3
        with pytest.raises(SettingError, match="has no option 'cout'; did you mean count"):
            open_source("my_stripes:Stripes?cout=7")
        with pytest.raises(SettingError, match="must be a class or a function"):
            open_source("my_stripes:nothing")


def test_an_address_that_only_a_file_names_is_not_fetched():
    with pytest.raises(DataError, match="give it yourself"):
        open_source("http://127.0.0.1:9/shards-{000..002}.tar", network=False)


def test_a_misspelt_option_gets_a_suggestion(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(SettingError, match=r"has no option 'labeled'.*did you mean labelled"):
        open_source(f"{tmp_path}/?labeled=yes")


def test_class_folders_are_noticed(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(2):
            (tmp_path / name / f"{number}.png").write_bytes(b"x")
    info = open_source(str(tmp_path)).describe()
    assert info.class_folders == ("cat", "dog")
    assert "?labelled=yes" in info.labels_hint
    assert open_source(f"{tmp_path}/?labelled=yes").describe().labels_hint == ""
    (tmp_path / "loose.png").write_bytes(b"x")
    assert open_source(str(tmp_path)).describe().labels_hint == ""
