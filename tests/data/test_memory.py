from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from eigenview.data import BatchSource, FolderSource, Loader, decoded
from eigenview.data.batch import Resize
from eigenview.errors import DataError
from tests.data.pictures import gradient, write_broken_files, write_folder


def test_decoded_images_are_the_same_and_need_no_workers(tmp_path):
    write_folder(tmp_path / "cats", 5)
    write_folder(tmp_path / "dogs", 4)
    source = FolderSource(tmp_path, labelled=True)
    held = decoded(source, workers=0)
    assert isinstance(held, BatchSource)
    assert (held.classes, held.labels.tolist()) == (source.classes, source.labels.tolist())
    loader = Loader(held, batch_size=3, seed=1)
    assert loader.workers == 0
    for mine, other in zip(loader, Loader(source, batch_size=3, seed=1, workers=0), strict=True):
        np.testing.assert_array_equal(mine.images.numpy(), other.images.numpy())
        assert mine.index.tolist() == other.index.tolist()
    np.testing.assert_array_equal(held.image(7).pixels(), source.image(7).pixels())
    assert (held.image(7).name, held.path(7)) == ("dogs/good_0002.png", tmp_path / "dogs" / "good_0002.png")


def test_what_cannot_be_read_is_left_out(tmp_path):
    write_broken_files(write_folder(tmp_path, 6))
    source = FolderSource(tmp_path)
    held = decoded(source, workers=0, log=tmp_path / "log.jsonl")
    assert [source.relative_path(int(index)) for index in held.indices] == [f"good_{n:04d}.png" for n in range(6)]
    assert held.batch(np.arange(6))[:, 2, 0, 0].tolist() == [37 * n for n in range(6)]
    assert (tmp_path / "log.jsonl").read_text().count("\n") == len(source) - 6


def test_sizes_must_agree_or_be_given(tmp_path):
    write_folder(tmp_path, 2)
    Image.fromarray(gradient(50, 40)).save(tmp_path / "other.png")
    with pytest.raises(DataError, match="images of one batch need one shape"):
        decoded(FolderSource(tmp_path), workers=0)
    held = decoded(FolderSource(tmp_path), size=16, workers=0)
    expected = [Resize(16)(FolderSource(tmp_path).image(item), 0, item)[0] for item in range(3)]
    np.testing.assert_array_equal(held.batch(np.arange(3)).permute(0, 2, 3, 1), np.stack(expected))
    with pytest.raises(DataError, match="depth was not"):
        held.depth(0)
