from __future__ import annotations

import numpy as np
import pytest

from eigenview.data import ArraySource, BatchSource, FolderSource, Loader, joined
from eigenview.errors import DataError
from tests.data.pictures import write_folder


def filled(numbers: list[int], **options: object) -> ArraySource:
    return ArraySource(np.array(numbers, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2), **options)


def test_items_follow_each_other_and_labels_stay(tmp_path):
    both = joined([filled([0, 1, 2], labels=[1, 0, 1], classes=["a", "b"]), filled([3, 4])])
    assert isinstance(both, BatchSource)
    assert len(both) == 5
    assert (both.classes, both.labels.tolist()) == (("a", "b"), [1, 0, 1, -1, -1])
    assert [both.label(index) for index in (2, 3)] == [1, None]
    assert both.batch(np.array([4, 0, 3, 0, 2]))[:, 0, 0, 0].tolist() == [4, 0, 3, 0, 2]
    assert [int(both.image(index).pixels()[0, 0, 0]) for index in range(5)] == [0, 1, 2, 3, 4]
    for batch in Loader(both, batch_size=5, seed=0):
        assert batch.images[:, 0, 0, 0].tolist() == batch.index.tolist()
    assert joined([filled([1]), filled([2])]).labels is None


def test_files_can_be_joined_too(tmp_path):
    first = FolderSource(write_folder(tmp_path / "a", 2))
    both = joined([first, FolderSource(write_folder(tmp_path / "b", 3))])
    assert not isinstance(both, BatchSource)
    assert [int(both.image(index).pixels()[0, 0, 2]) for index in range(5)] == [0, 37, 0, 37, 74]
    assert "folder" in str(both.describe())
    with pytest.raises(IndexError):
        both.image(5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match="at least one source"):
        joined([])
    with pytest.raises(DataError, match="when their classes are the same"):
        joined([filled([0], labels=[0], classes=["a"]), filled([0], labels=[0], classes=["b"])])
    with pytest.raises(DataError, match="one shape"):
        joined([filled([0]), ArraySource(np.zeros((1, 5, 5), dtype=np.uint8))])
