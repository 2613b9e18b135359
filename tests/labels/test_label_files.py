"""Labels in every form that Python and files give them: each means one thing, or is refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenview.errors import DataError
from eigenview.labels import labels_from
from eigenview.labels.label_files import AnyLabels
from eigenview.search import Embeddings, open_embeddings
from tests.labels.vectors import write_answers, write_vectors


@pytest.fixture
def stored(tmp_path: Path) -> Embeddings:
    return open_embeddings(write_vectors(tmp_path / "photos.npz", numbers=True))


def said(given: AnyLabels, stored: Embeddings) -> dict[int, str]:
    labels = labels_from(given, stored)
    return {row: labels.classes[number] for row, number in enumerate(labels.labels.tolist()) if number >= 0}


def test_numbers_of_numpy_are_numbers_as_rows_and_as_labels(stored: Embeddings):
    assert stored.labels is not None
    numbers = stored.labels.numpy()
    for kind in (np.int64, np.int32, np.uint8, np.float32, float, int):
        assert said({row: kind(numbers[row]) for row in (0, 13, 30)}, stored) == {0: "0", 13: "1", 30: "2"}
    assert said({np.int64(3): "cat", np.uint8(20): "dog"}, stored) == {3: "cat", 20: "dog"}


@pytest.mark.parametrize("key", [True, False, np.True_, -1, 36, 1.5])
def test_what_is_no_number_of_a_row_is_refused(key: object, stored: Embeddings):
    with pytest.raises(DataError, match=r"is no image of .*photos\.npz, nor the number of one"):
        labels_from({key: "cat"}, stored)
    with pytest.raises(DataError, match="names and labels are text or whole numbers; got"):
        labels_from({0: True}, stored)


def test_several_files_are_named_by_text_or_path(stored: Embeddings, tmp_path: Path):
    files = [
        write_answers(tmp_path / "a.csv", [("00.jpg", "cat")]),
        write_answers(tmp_path / "b.CSV", [("dogs/13.jpg", "dog")]),
    ]
    for given in (files, tuple(files), tuple(map(str, files)), [str(files[0]), files[1]]):
        assert said(given, stored) == {0: "cat", 13: "dog"}
    with pytest.raises(DataError, match="labels are needed for 36 rows, None for no label; got 2"):
        labels_from(("cat", "dog"), stored)


def test_minus_one_is_no_label_wherever_it_stands(stored: Embeddings, tmp_path: Path):
    numbers = [-1] * 36
    numbers[5], numbers[6] = 2, 0
    file = write_answers(tmp_path / "a.csv", [("05.jpg", "2"), ("06.jpg", "0"), ("07.jpg", "-1"), ("08.jpg", "")])
    forms: list[AnyLabels] = [file, numbers, list(map(str, numbers)), torch.tensor(numbers), np.array(numbers)]
    forms += [dict(enumerate(numbers)), dict(enumerate(np.array(numbers)))]
    for given in forms:
        assert said(given, stored) == {5: "2", 6: "0"}


@pytest.mark.parametrize("header", ["name,label,label", "name,name,label"])
def test_a_column_that_comes_twice_is_refused(header: str, stored: Embeddings, tmp_path: Path):
    file = tmp_path / "a.csv"
    file.write_text(f"{header}\n00.jpg,cat,dog\n")
    with pytest.raises(DataError, match=r"a\.csv has two columns (name|label): keep one of them"):
        labels_from(file, stored)
    file.write_text("name,note,label,note\n00.jpg,x,cat,y\n")
    assert said(file, stored) == {0: "cat"}
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = [arrow.array(["00.jpg"]), arrow.array(["cat"]), arrow.array(["dog"])]
    parquet.write_table(arrow.Table.from_arrays(columns, names=header.split(",")), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet has two columns (name|label): keep one of them"):
        labels_from(tmp_path / "a.parquet", stored)
