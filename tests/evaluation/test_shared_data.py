"""Real images, where they are: a figure that everyone knows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from eigenview.data import decoded, open_source
from eigenview.evaluation import DepthProtocol, RawPixels, extract, knn_predict, predict_depth
from eigenview.nn import build_encoder
from eigenview.views import CentreView

SHARED = Path(os.environ.get("EIGENVIEW_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no data in {SHARED}; set EIGENVIEW_DATA")


@pytest.mark.slow
@needs_data
def test_raw_pixels_of_cifar10_have_their_well_known_accuracy():
    """1-NN by Euclidean distance of raw pixels is right on 35.4 % of the test images."""
    train, test = (decoded(open_source(SHARED / "cifar10" / f"{part}.parquet")) for part in ("train", "test"))
    view = CentreView(32, 32)
    bank, queries = (extract(RawPixels(32), source, view=view) for source in (train, test))
    found = knn_predict(bank["pooled"], bank.labelled, queries["pooled"], k=(1,), metric="euclidean")[1]
    assert float((found == queries.labelled).double().mean()) == pytest.approx(0.354, abs=0.001)


@pytest.mark.slow
@needs_data
def test_depth_of_real_rooms_is_better_than_its_mean():
    options = {"depth": "depth", "depth_scale": 25.5}
    train, test = (open_source(SHARED / "nyuv2_160x120" / f"{part}.parquet", **options) for part in ("train", "test"))
    torch.manual_seed(0)
    protocol = DepthProtocol(layer="conv3", border=4, output=32, epochs=10)
    found = predict_depth(build_encoder("small"), train, test, protocol=protocol)
    assert found.errors.mean() < found.mean_errors.mean()
