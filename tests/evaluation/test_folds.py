"""Folds that come with the data: trained on one, measured on the rest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import Folds, Subject, compare, open_tasks
from eigenview.evaluation.evaluating import evaluate
from eigenview.evaluation.subjects import RawPixels, read_folds
from eigenview.nn import build_encoder
from eigenview.views import CentreView
from tests.data.pictures import encoded, gradient

VIEW = CentreView(8, 8, (0.0,), (1.0,))
PIXELS = Subject("raw pixels", RawPixels(8, channels=1), VIEW)


def digits() -> tuple[ArraySource, np.ndarray, np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    images, labels = images[:600], labels[:600]
    return ArraySource((images.reshape(-1, 8, 8) * 15).astype(np.uint8), labels=labels), images, labels


def test_a_score_is_the_mean_over_folds_of_a_fit_to_each():
    source, images, labels = digits()
    folds = [torch.arange(start, start + 100) for start in (0, 100, 150)]  # they may overlap
    scores = {score.name: score for score in evaluate(PIXELS, Folds(source, folds, "digits"))}
    values = []
    for fold in folds:
        kept = np.isin(np.arange(600), fold.numpy())
        model = KNeighborsClassifier(1, metric="cosine", algorithm="brute").fit(images[kept], labels[kept])
        values.append(model.score(images[~kept], labels[~kept]))
    measured = scores["knn k=1"]
    assert measured.items == pytest.approx(values)
    expected = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert (measured.value, *measured.interval) == pytest.approx((np.mean(values), *expected))
    assert measured.protocol["mean over"] == "3 folds"
    torch.manual_seed(0)
    untrained = Subject("untrained", build_encoder("small", channels=1, width=0.25), VIEW)
    other = next(evaluate(untrained, Folds(source, folds), protocols=["knn"]))
    paired = compare(measured, other)[1]  # what the data is called does not matter
    assert (measured.data_name, other.data_name) == ("digits", "")
    assert paired.p_value == pytest.approx(stats.ttest_rel(other.items, measured.items).pvalue)


def test_folds_are_read_from_a_column_of_lists(tmp_path):
    listed = [[0], [1, 0], [], [1], None, [2]]
    parquet.write_table(pa.table({"folds": pa.array(listed, pa.list_(pa.int64()))}), tmp_path / "t.parquet")
    assert [fold.tolist() for fold in read_folds(tmp_path / "t.parquet")] == [[0, 1], [1, 3], [5]]


def test_bad_folds_are_refused(tmp_path):
    source, _, _ = digits()
    with pytest.raises(SettingError, match="at least two of them; got 1"):
        next(evaluate(PIXELS, Folds(source, [torch.arange(100)])))
    with pytest.raises(DataError, match="fold 1 holds 600 of 600 items"):
        next(evaluate(PIXELS, Folds(source, [torch.arange(100), torch.arange(600)]), protocols=["knn"]))
    with pytest.raises(SettingError, match="finetune runs the encoder itself; leave it out"):
        next(evaluate(PIXELS, Folds(source, [torch.arange(100), torch.arange(99)]), protocols=["finetune"]))
    parquet.write_table(pa.table({"other": [1, 2]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="has no column 'folds' for the folds; it has other"):
        read_folds(tmp_path / "t.parquet")


def test_folds_count_rows_of_the_table_though_one_cannot_be_read(tmp_path):
    images = [b"no image", *(encoded(gradient(seed=number)) for number in range(3))]
    folds = pa.array([[], [0], [1], [1]], pa.list_(pa.int64()))
    parquet.write_table(pa.table({"image": images, "label": [0, 1, 0, 1], "folds": folds}), tmp_path / "t.parquet")
    (task,) = open_tasks(tmp_path / "t.parquet", folds="folds")
    assert [[task.source.name(int(item)) for item in fold] for fold in task.folds] == [
        ["t.parquet[1]"],
        ["t.parquet[2]", "t.parquet[3]"],
    ]
