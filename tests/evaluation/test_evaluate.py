"""Everything at once: protocols by name, on one subject; and no way for test labels to leak."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from eigenview.cli.scores_table import line_of
from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import (
    EVERY_PROTOCOL,
    PROTOCOLS,
    LabelDraws,
    Measuring,
    Subject,
    Task,
    TrainTest,
    compare,
    evaluate,
    few_label_accuracy,
    knn_predict,
    linear,
    protocol_scores,
)
from eigenview.evaluation.evaluating import SOURCE_PROTOCOLS
from eigenview.evaluation.linear import select_logistic
from eigenview.evaluation.probe import view_probe_scores
from eigenview.evaluation.protocol_scores import Split
from eigenview.evaluation.subjects import RawPixels
from eigenview.nn import build_encoder
from eigenview.runs import Score, fresh_copy
from eigenview.runs.scores import ScoreFolder
from eigenview.views import CentreView

VIEW = CentreView(8, 8, (0.3,), (0.35,))


def digits(rows: slice, labels=None) -> ArraySource:
    images, numbers = load_digits(return_X_y=True)
    pixels = (images.reshape(-1, 8, 8) * 15).astype(np.uint8)
    return ArraySource(pixels[rows], labels=numbers[rows] if labels is None else labels)


TRAIN, TEST = digits(slice(0, 700)), digits(slice(700, 1000))
PIXELS = Subject("raw pixels", RawPixels(8, channels=1), VIEW)


def scores_of(subject=PIXELS, train=TRAIN, test=TEST, **options) -> list[Score]:
    return list(evaluate(subject, Task(train, test, "digits"), **options))


def test_every_protocol_scores_raw_digits_far_above_chance():
    on_features = [name for name, protocol in PROTOCOLS.items() if protocol.on_features and "probe" not in name]
    scores = scores_of(protocols=[*on_features, "probe-simclr-cifar"])
    assert {score.name for score in scores} >= {
        "knn k=1",
        "knn k=200",
        "linear",
        "1 labels a class",
        "5 labels a class",
        "10 labels a class",
        "1-NN, 5 labels a class",
        "kmeans",
        "spectral clustering",
        "retrieval",
        "probe simclr-cifar",
    }
    for score in scores:
        assert score.interval[0] <= score.value <= score.interval[1]
        assert score.value > 0.3
        assert score.data_name == "digits"
    assert next(score for score in scores if score.name == "linear").value > 0.9


def test_long_protocols_say_what_they_measure_and_how_far_they_are(monkeypatch, capsys):
    monkeypatch.setattr("eigenview.progress.PLAIN_EVERY", -1.0)  # a line for every step
    scores_of(protocols=["linear", "few-label"])
    said = capsys.readouterr().err
    assert "linear: raw pixels: 36 of 36" in said
    assert "10 labels a class: raw pixels: 20 of 20" in said
    assert "1-NN, 1 labels a class: raw pixels: 7 of 20" in said
    scores_of(protocols=["linear"], measuring=Measuring(shows_progress=False))
    assert capsys.readouterr().err == ""


def test_a_score_says_when_its_fits_ended_early(monkeypatch, tmp_path):
    monkeypatch.setitem(linear.ITERATIONS, torch.float32, 2)
    monkeypatch.setitem(linear.ITERATIONS, torch.float64, 2)
    short, *few = scores_of(protocols=["linear", "few-label"])
    assert re.fullmatch(r"\d+ of 37 fits ended by their number of iterations, short of the optimum", short.note)
    assert {score.note[:11] for score in few} == {"20 of 20 fi", ""}  # the nearest row is found by no fit
    ScoreFolder(tmp_path).save(short)
    assert ScoreFolder(tmp_path).load() == [short]
    assert short.protocol_hash == replace(short, note="").protocol_hash
    assert short.note in line_of(short)


def test_scores_of_two_encoders_are_compared_on_the_same_items(tmp_path):
    torch.manual_seed(0)
    encoder = build_encoder("small", channels=1, width=0.25)
    folder = ScoreFolder(tmp_path)
    for subject in (PIXELS, Subject("untrained", encoder, VIEW)):
        folder.save(scores_of(subject, protocols=["knn"])[0])
    compared = compare(*sorted(folder.load(), key=lambda score: score.subject))
    assert compared[1].difference < 0
    assert compared[1].p_value < 1e-6


def test_scores_come_one_by_one_as_they_are_known():
    made = evaluate(PIXELS, Task(TRAIN, TEST), protocols=["knn", "linear"])
    assert next(made).name == "knn k=1"
    with pytest.raises(SettingError, match="did you mean linear"):
        next(evaluate(PIXELS, Task(TRAIN, TEST), protocols=["knn", "linaer"]))  # before anything is computed


def test_no_two_protocols_share_a_name():
    assert len(PROTOCOLS) == len(protocol_scores.FEATURE_PROTOCOLS) + len(SOURCE_PROTOCOLS)
    assert len(EVERY_PROTOCOL) == len(PROTOCOLS) + len(["captions", "zero-shot"])
    encoder = Subject("untrained", build_encoder("small", channels=1, width=0.25), VIEW)
    few, fewer = digits(slice(0, 120)), digits(slice(120, 160))
    named = ["kmeans", "spectral-clustering", "probe-spectral"]
    names = {name: {score.name for score in scores_of(encoder, few, fewer, protocols=[name])} for name in named}
    views = view_probe_scores(encoder, Task(few, fewer), Measuring(), protocol="spectral", epochs=1)
    names["view-probe-spectral"] = {score.name for score in views}
    assert names == {name: {name.replace("-", " ")} for name in names}


def test_clusters_of_few_images_follow_their_features():
    rows = np.flatnonzero(load_digits().target < 3)[-15:]
    hits, nmi, ari = scores_of(test=digits(rows), protocols=["spectral-clustering"])
    assert hits.protocol["neighbours"] == 4  # five images a class
    assert min(hits.value, nmi.value, ari.value) > 0.5


def test_test_labels_cannot_influence_anything_that_is_fitted(monkeypatch):
    shuffled = np.random.default_rng(0).permutation(TEST.labels)
    seen: list[dict[str, torch.Tensor]] = []
    for labels in (TEST.labels, shuffled):
        made: dict[str, torch.Tensor] = {}

        def selecting(*arguments, made=made, **options):
            selection = select_logistic(*arguments, **options)
            made["weight"], made["folds"] = selection.classifier.weight, selection.fold_accuracy
            return selection

        def voting(*arguments, made=made, **options):
            selection = knn_predict(*arguments, **options)
            made.update({f"knn {k}": predicted for k, predicted in selection.items()})
            return selection

        monkeypatch.setattr(protocol_scores, "select_logistic", selecting)
        monkeypatch.setattr(protocol_scores, "knn_predict", voting)
        scores_of(test=digits(slice(700, 1000), labels))
        seen.append(made)
    assert seen[0].keys() == seen[1].keys() >= {"weight", "folds", "knn 1"}
    assert all(torch.equal(seen[0][name], seen[1][name]) for name in seen[0])


def test_a_fresh_copy_has_the_same_shape_and_other_weights():
    encoder = build_encoder("small", channels=1, width=0.25)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    fresh = fresh_copy(encoder, seed=1)
    assert fresh.state_dict().keys() == before.keys()
    assert not torch.equal(fresh.conv1[0].weight, before["conv1.0.weight"])
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())
    assert torch.equal(fresh.conv1[0].weight, fresh_copy(encoder, seed=1).conv1[0].weight)


def test_bad_input_is_refused_with_its_reason():
    with pytest.raises(SettingError, match="did you mean linear"):
        scores_of(protocols=["linaer"])
    with pytest.raises(DataError, match="these images have no labels"):
        scores_of(test=ArraySource(np.zeros((9, 8, 8), np.uint8)))
    with pytest.raises(DataError, match="training labels hold one class only, 0"):
        scores_of(train=digits(slice(0, 9), np.zeros(9)))
    with pytest.raises(DataError, match="class 10 of the test labels never occur in training"):
        scores_of(test=digits(slice(700, 1000), TEST.labels + 1))
    with pytest.raises(DataError, match="3 of 300 test labels are -1, which means unlabelled"):
        scores_of(test=digits(slice(700, 1000), np.where(np.arange(300) < 3, -1, TEST.labels)))


def test_standardised_columns_have_the_training_parts_statistics_and_constant_ones_vanish():
    generator = torch.Generator().manual_seed(0)
    train, test = (torch.randn(50, 4, dtype=torch.float64, generator=generator) * 3 + 5 for _ in range(2))
    train[:, 2] = test[:, 2] = 7.0
    labels = torch.arange(50) % 2
    split = Split(train, labels, test, labels, "pooled", {}, PIXELS, Measuring())
    scaled = split.standardised()
    before, after = scaled.train, scaled.test
    assert torch.allclose(before.std(dim=0), torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=torch.float64))
    assert (after[:, 2] == 0).all()
    moved = Split(train, labels, test + 1, labels, "pooled", {}, PIXELS, Measuring()).standardised().train
    assert torch.equal(before, moved)
    kept = [0, 1, 3]  # a column that vanished changes no prediction
    less = TrainTest(before[:, kept], labels, after[:, kept], labels)
    whole, without = (few_label_accuracy(rows, LabelDraws(3, 4)) for rows in (scaled, less))
    assert len(set(whole.draws)) > 1
    assert torch.equal(whole.items, without.items)
