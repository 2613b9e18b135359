"""The real data sets beside the repository: counts, labels and statistics as their README states."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from eigenview.data import Loader, Resize, check, open_source
from eigenview.data.tables import TableSource

pytestmark = pytest.mark.slow

ROOT = Path(os.environ.get("EIGENVIEW_DATA") or Path(__file__).parents[3] / "shared" / "data")


def shared(name: str, **options: object) -> TableSource:
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"no {path}: set EIGENVIEW_DATA to the folder with the real data sets")
    source = open_source(path, **options)
    assert isinstance(source, TableSource)
    return source


@pytest.mark.parametrize(
    ("name", "count", "size"),
    [
        ("cifar10/train.parquet", 50_000, (32, 32)),
        ("cifar10/test.parquet", 10_000, (32, 32)),
        ("stl10_64/train.parquet", 5_000, (64, 64)),
        ("stl10_64/unlabelled.parquet", 8_000, (64, 64)),
        ("flickr8k_64/train.parquet", 6_000, (64, 64)),
        ("flickr8k_64/val.parquet", 1_000, (64, 64)),
        ("flickr8k_64/test.parquet", 1_000, (64, 64)),
        ("nyuv2_160x120/train.parquet", 795, (160, 120)),
        ("nyuv2_160x120/test.parquet", 654, (160, 120)),
    ],
)
def test_counts_and_sizes_match_the_readme(name, count, size):
    report = check(shared(name), shows_progress=False)
    print(f"\n{report}")
    assert (report.total, report.readable) == (count, count)
    assert report.sizes == {size: count}


def test_cifar10_has_the_published_statistics():
    source = shared("cifar10/train.parquet")
    assert np.bincount(source.labels).tolist() == [5_000] * 10
    assert source.classes[:3] == ("airplane", "automobile", "bird")
    total, squares = np.zeros(3), np.zeros(3)
    for batch in Loader(source, batch_size=1000, seed=0):
        pixels = batch.images.double() / 255
        total += pixels.mean(dim=(0, 2, 3)).numpy()
        squares += (pixels**2).mean(dim=(0, 2, 3)).numpy()
    mean = total / 50
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=5e-5)
    np.testing.assert_allclose(np.sqrt(squares / 50 - mean**2), [0.2470, 0.2435, 0.2616], atol=6e-5)
    assert np.bincount(shared("cifar10/test.parquet").labels).tolist() == [1_000] * 10


def test_stl10_has_labels_and_unlabelled_has_none():
    train, unlabelled = shared("stl10_64/train.parquet"), shared("stl10_64/unlabelled.parquet")
    assert np.bincount(train.labels).tolist() == [500] * 10
    assert train.classes[-1] == "truck"
    assert unlabelled.labels is None


def test_flickr8k_has_five_captions_an_image():
    source = shared("flickr8k_64/train.parquet")
    assert all(len(source.captions(index)) == 5 for index in range(len(source)))
    batch = next(iter(Loader(source, batch_size=8, seed=0)))
    assert batch.captions[3] == source.captions(int(batch.index[3]))


def test_nyu_depth_is_in_metres():
    source = shared("nyuv2_160x120/train.parquet", depth_scale=25.5)
    for batch in Loader(source, batch_size=100, seed=0):
        assert batch.depth.shape == (100, 1, 120, 160)
        inner = batch.depth[:, :, 4:-4, 4:-4]
        assert float(inner.min()) >= 0
        assert float(inner.max()) <= 10
        assert 1 < float(inner.mean()) < 5


def test_a_resumed_pass_over_real_data_equals_the_whole_one():
    source = shared("stl10_64/train.parquet")
    whole = [batch.views[0] for batch in Loader(source, batch_size=500, seed=7, prepare=Resize(32))]
    first, second = (Loader(source, batch_size=500, seed=7, prepare=Resize(32)) for _ in range(2))
    for number, _ in enumerate(first, start=1):
        if number == 4:
            break
    second.restore(first.state())
    rest = [batch.views[0] for batch in second]
    assert len(rest) == 6
    assert all(bool((a == b).all()) for a, b in zip(rest, whole[4:], strict=True))
