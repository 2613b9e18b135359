from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from eigenview.data import BatchSource, EncodedImage, FolderSource, Loader, open_images, open_source
from eigenview.data.memory import SMALL_SIDE, DecodedSource
from eigenview.errors import DataError, SettingError
from tests.data.pictures import gradient, write_broken_files, write_folder
from tests.data.test_shards import write_shards


@pytest.fixture
def decodes(monkeypatch) -> list[str]:
    """The names of the images whose pixels were asked for, each time; workers must be 0 to see them."""
    names: list[str] = []
    decode = EncodedImage.pixels

    def counted(image: EncodedImage, reduce: int = 1) -> np.ndarray:
        names.append(image.name)
        return decode(image, reduce)

    monkeypatch.setattr(EncodedImage, "pixels", counted)
    return names


def test_small_images_of_one_size_are_decoded_once(tmp_path, decodes):
    write_folder(tmp_path, 9)
    source = open_images(tmp_path, workers=0)
    assert isinstance(source, BatchSource)
    for _ in range(2):
        for batch in Loader(source, batch_size=3, seed=0):
            assert batch.names == tuple(source.name(int(index)) for index in batch.index)
    assert np.array_equal(source.image(0).pixels(), Image.open(tmp_path / "good_0000.png"))
    assert sorted(decodes) == [f"good_{number:04d}.png" for number in range(9)]


def test_one_small_first_image_does_not_make_the_others_small(tmp_path, decodes):
    Image.fromarray(gradient(64, 64)).save(tmp_path / "a.png")
    write_folder(tmp_path / "photos", 600, size=(20, 30))
    source = open_images(str(tmp_path), workers=0)
    assert type(source) is FolderSource
    assert len(source) == 601
    assert len(decodes) < 300  # given up in the first batch, not after a pass


def test_large_images_are_not_decoded_at_all(tmp_path, decodes):
    write_folder(tmp_path, 3, size=(SMALL_SIDE + 1, 20))
    assert type(open_images(tmp_path, workers=0)) is FolderSource
    assert decodes == []


@pytest.mark.parametrize("is_mixed", [False, True])
def test_what_cannot_be_read_is_counted_and_logged_once(tmp_path, is_mixed):
    broken = write_broken_files(write_folder(tmp_path / "images", 6))
    if is_mixed:
        Image.fromarray(gradient(50, 40)).save(tmp_path / "images" / "zz.png")
    log = tmp_path / "unreadable.jsonl"
    source = open_images(tmp_path / "images", workers=0, log=log)
    assert isinstance(source, DecodedSource) is not is_mixed
    if not is_mixed:
        assert sorted(failure.name for failure in source.unreadable) == sorted(broken)
        assert f"6 images ({len(broken)} unreadable ones left out)" in str(source.describe())
    prepare = None if not is_mixed else lambda image, epoch, index: (image.pixels()[:8, :8],)
    loader = Loader(source, batch_size=6, seed=0, workers=0, prepare=prepare, drop_last=False, log=log)
    list(loader)
    assert sorted(loader.unreadable) == sorted(broken)
    logged = [json.loads(line)["name"] for line in log.read_text().splitlines()]
    assert sorted(logged) == sorted(broken)


def test_streams_and_empty_sources_are_refused_where_an_index_is_needed(tmp_path):
    pattern = write_shards(tmp_path, 1, 2)
    assert type(open_images(pattern)) is type(open_source(pattern))
    with pytest.raises(SettingError, match="is a stream and can only be read in order"):
        open_images(pattern, needs_index=True)
    write_broken_files(tmp_path / "broken")
    with pytest.raises(DataError, match=r"none of the images can be read, the first one bad_"):
        open_images(tmp_path / "broken")


def test_a_source_that_is_open_is_taken_as_it_is():
    source = open_source("digits")
    assert open_images(source) is source
