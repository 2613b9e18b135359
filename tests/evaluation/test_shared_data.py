"""Real images, where they are: a figure that everyone knows, and the references' answers on real features.

Features are those of a run in EIGENVIEW_RUN if it is set, otherwise of an untrained encoder, on CIFAR-10.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from eigenview.data import decoded, open_source, subset
from eigenview.evaluation import DepthProtocol, Folds, Subject, extract, fit_logistic, knn_predict
from eigenview.evaluation.dense import predict_depth
from eigenview.evaluation.evaluating import evaluate
from eigenview.evaluation.similarity import cluster, contingency, normalised_mutual_information
from eigenview.evaluation.subjects import RawPixels, read_folds
from eigenview.graph.clustering import adjusted_rand_index
from eigenview.nn import build_encoder
from eigenview.runs import open_run
from eigenview.views import CentreView

SHARED = Path(os.environ.get("EIGENVIEW_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no data in {SHARED}; set EIGENVIEW_DATA")


@pytest.mark.slow
@needs_data
def test_raw_pixels_of_cifar10_have_their_well_known_accuracy():
    """1-NN by Euclidean distance of raw pixels is right on 35.4 % of the test images."""
    train, test = (decoded(open_source(SHARED / "cifar10" / f"{split}.parquet")) for split in ("train", "test"))
    bank, queries = (  # whole: the baseline RawPixels averages them down, which 1-NN likes
        torch.stack([torch.from_numpy(source.image(item).pixels()).flatten() for item in range(len(source))]).float()
        for source in (train, test)
    )
    predicted = knn_predict(bank, torch.as_tensor(train.labels), queries, k=(1,), metric="euclidean")[1]
    assert float((predicted == torch.as_tensor(test.labels)).double().mean()) == pytest.approx(0.354, abs=0.001)


@pytest.mark.slow
@needs_data
def test_depth_of_real_rooms_is_better_than_its_mean():
    options = {"depth": "depth", "depth_scale": 25.5}
    train, test = (open_source(SHARED / "nyuv2_160x120" / f"{split}.parquet", **options) for split in ("train", "test"))
    torch.manual_seed(0)
    protocol = DepthProtocol(layer="conv3", border=4, output=32, epochs=10)
    depth = predict_depth(build_encoder("small"), train, test, protocol=protocol)
    assert depth.errors.mean() < depth.mean_errors.mean()


class Parts(NamedTuple):
    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


@pytest.fixture(scope="module")
def parts() -> Parts:
    """Standardised features in float64 of 6,000 training and 2,000 test images."""
    sources = [
        subset(open_source(SHARED / "cifar10" / f"{split}.parquet"), np.arange(count))
        for split, count in (("train", 6000), ("test", 2000))
    ]
    torch.manual_seed(0)
    encoder, view = build_encoder("small"), CentreView(32, 32)
    if folder := os.environ.get("EIGENVIEW_RUN"):
        run = open_run(folder)
        encoder, view = run.encoder, run.view
    train, test = (extract(encoder, source, view=view) for source in sources)
    rows, mean, deviation = train["pooled"], train["pooled"].mean(dim=0), train["pooled"].std(dim=0)
    scale = torch.where(deviation > 0, deviation, torch.inf)
    before, after = (((features - mean) / scale).double() for features in (rows, test["pooled"]))
    return Parts(before, train.labelled, after, test.labelled)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_neighbours_of_real_features_are_scikit_learns(parts, metric):
    """Every class is the same for k = 1; votes that tie may fall differently: at least 99.9 % for larger k."""
    measured = knn_predict(parts.train, parts.train_labels, parts.test, k=(1, 5, 20, 200), metric=metric)
    for k, predicted in measured.items():
        reference = KNeighborsClassifier(k, metric=metric, algorithm="brute")
        theirs = reference.fit(parts.train.numpy(), parts.train_labels.numpy()).predict(parts.test.numpy())
        agreement = (predicted.numpy() == theirs).mean()
        assert agreement == 1 if k == 1 else agreement >= 0.999


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("c", [1e-3, 0.1, 1.0])
def test_a_linear_probe_of_real_features_is_scikit_learns_optimum(parts, c):
    """In float64: objectives to 1e-9 of their value, probabilities to 1e-3, all classes equal but rows at a tie."""
    ours = fit_logistic(parts.train, parts.train_labels, inverse_penalty=c)
    theirs = LogisticRegression(C=c, tol=1e-8, max_iter=20_000).fit(parts.train.numpy(), parts.train_labels.numpy())
    wanted = torch.from_numpy(theirs.predict_proba(parts.test.numpy()))
    measured = ours.logits(parts.test).softmax(dim=1)
    assert torch.allclose(measured, wanted, atol=1e-3)
    assert (measured.argmax(dim=1) == wanted.argmax(dim=1)).double().mean() >= 0.9995
    weight, bias = torch.from_numpy(theirs.coef_), torch.from_numpy(theirs.intercept_)
    assert torch.allclose(ours.weight, weight, atol=2e-3 * float(weight.abs().max()))
    reached = [penalised(parts, w, b, c) for w, b in ((ours.weight, ours.bias), (weight, bias))]
    assert reached[0] == pytest.approx(reached[1], rel=1e-8)


def penalised(parts: Parts, weight: Tensor, bias: Tensor, c: float) -> float:
    logits = parts.train @ weight.T + bias
    loss = torch.nn.functional.cross_entropy(logits, parts.train_labels, reduction="sum")
    return float(loss + weight.square().sum() / (2 * c))


@pytest.mark.slow
@needs_data
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of torch, about torchmetrics' own sparse table
@pytest.mark.parametrize("method", ["kmeans", "spectral"])
def test_scores_of_real_clusters_are_scikit_learns_and_torchmetrics(parts, method):
    clustering = pytest.importorskip("torchmetrics.functional.clustering")
    groups = cluster(parts.test, 10, method=method)
    labels, counted = parts.test_labels, contingency(groups, parts.test_labels)
    shared, agreed = normalised_mutual_information(counted), adjusted_rand_index(counted)
    assert shared == pytest.approx(metrics.normalized_mutual_info_score(labels, groups), abs=1e-9)
    assert agreed == pytest.approx(metrics.adjusted_rand_score(labels, groups), abs=1e-9)
    assert shared == pytest.approx(float(clustering.normalized_mutual_info_score(groups, labels)), abs=1e-5)  # float32
    assert agreed == pytest.approx(float(clustering.adjusted_rand_score(groups, labels)), abs=1e-5)


@pytest.mark.slow
@needs_data
def test_stl10_is_measured_on_its_official_folds():
    """Ten folds of 1,000 images; colour alone puts raw pixels far above chance, and far below any trained encoder."""
    table = SHARED / "stl10_64" / "train.parquet"
    folds = read_folds(table)
    assert [len(fold) for fold in folds] == [1000] * 10
    pixels = Subject("raw pixels", RawPixels(16), CentreView(16, 16))
    scores = list(evaluate(pixels, Folds(decoded(open_source(table)), folds), protocols=["knn"]))
    assert scores
    assert all(0.2 < score.value < 0.4 for score in scores)
