"""Everything at once: protocols by name, baselines, a run's folder; and no way for test labels to leak."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from eigenview.evaluation.evaluate import Split
from safetensors.torch import save_file
from sklearn.datasets import load_digits

from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import (
    EVALUATIONS,
    RawPixels,
    compare,
    evaluate,
    extract,
    few_label_accuracy,
    knn_predict,
    load_scores,
    open_run,
    save_score,
    select_logistic,
    untrained_like,
)
from eigenview.evaluation import evaluate as evaluate_module
from eigenview.nn import build_encoder
from eigenview.views import CentreView

VIEW = CentreView(8, 8, (0.3,), (0.35,))


def digits(part: slice, labels=None) -> ArraySource:
    images, numbers = load_digits(return_X_y=True)
    pixels = (images.reshape(-1, 8, 8) * 15).astype(np.uint8)
    return ArraySource(pixels[part], labels=numbers[part] if labels is None else labels)


TRAIN, TEST = digits(slice(0, 700)), digits(slice(700, 1000))


def test_every_protocol_scores_raw_digits_far_above_chance():
    scores = evaluate(RawPixels(8, channels=1), TRAIN, TEST, view=VIEW, protocols=[*EVALUATIONS, "simclr-cifar"])
    assert {score.name for score in scores} >= {
        "knn k=1",
        "knn k=200",
        "linear",
        "1 labels a class",
        "5 labels a class",
        "10 labels a class",
        "1-NN, 5 labels a class",
        "kmeans",
        "spectral",
        "retrieval",
        "probe simclr-cifar",
    }
    for score in scores:
        assert score.interval[0] <= score.value <= score.interval[1]
        assert score.value > 0.3
    assert next(score for score in scores if score.name == "linear").value > 0.9


def test_scores_of_two_encoders_are_compared_on_the_same_items(tmp_path):
    torch.manual_seed(0)
    encoder = build_encoder("small", channels=1, width=0.25)
    scores = [
        evaluate(one, TRAIN, TEST, view=VIEW, protocols=["knn"], subject=name)[0]
        for name, one in {"raw pixels": RawPixels(8, channels=1), "untrained": encoder}.items()
    ]
    for score in scores:
        save_score(score, tmp_path)
    found = compare(*sorted(load_scores(tmp_path), key=lambda score: score.subject))
    assert found[1].difference < 0
    assert found[1].p_value < 1e-6


def test_test_labels_cannot_influence_anything_that_is_fitted(monkeypatch):
    shuffled = np.random.default_rng(0).permutation(TEST.labels)
    seen: list[dict[str, torch.Tensor]] = []
    for labels in (TEST.labels, shuffled):
        made: dict[str, torch.Tensor] = {}

        def selecting(*arguments, made=made, **options):
            found = select_logistic(*arguments, **options)
            made["weight"], made["folds"] = found.classifier.weight, found.fold_accuracy
            return found

        def voting(*arguments, made=made, **options):
            found = knn_predict(*arguments, **options)
            made.update({f"knn {k}": predicted for k, predicted in found.items()})
            return found

        monkeypatch.setitem(evaluate_globals(), "select_logistic", selecting)
        monkeypatch.setitem(evaluate_globals(), "knn_predict", voting)
        evaluate(RawPixels(8, channels=1), TRAIN, digits(slice(700, 1000), labels), view=VIEW)
        seen.append(made)
    assert seen[0].keys() == seen[1].keys() >= {"weight", "folds", "knn 1"}
    assert all(torch.equal(seen[0][name], seen[1][name]) for name in seen[0])


def evaluate_globals() -> dict[str, object]:
    return evaluate_module.__globals__


def test_a_fresh_copy_has_the_same_shape_and_other_weights():
    encoder = build_encoder("small", channels=1, width=0.25)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    fresh = untrained_like(encoder, seed=1)
    assert fresh.state_dict().keys() == before.keys()
    assert not torch.equal(fresh.conv1[0].weight, before["conv1.0.weight"])
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())
    assert torch.equal(fresh.conv1[0].weight, untrained_like(encoder, seed=1).conv1[0].weight)


def run_folder(folder):
    torch.manual_seed(3)
    encoder = build_encoder("small", channels=1, width=0.25)
    place = folder / "checkpoints" / "last"
    place.mkdir(parents=True)
    stored = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
    save_file({**stored, "head.weight": torch.ones(2, 2)}, place / "weights.safetensors")
    config = {
        "encoder": {"name": "small", "width": 0.25, "stem": "auto", "normalization": "batch", "weights": None},
        "views": {"preset": "auto", "size": None, "crops": None},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return encoder


def test_a_run_is_read_from_its_files_alone(tmp_path):
    encoder = run_folder(tmp_path)
    run = open_run(tmp_path, TRAIN)
    assert run.view == VIEW
    assert torch.equal(extract(run.encoder, TEST, view=run.view)["pooled"], extract(encoder, TEST, view=VIEW)["pooled"])
    assert not torch.equal(run.untrained(seed=0).conv1[0].weight, encoder.conv1[0].weight)
    assert torch.equal(run.untrained(seed=3).conv1[0].weight, encoder.conv1[0].weight)


def test_bad_input_is_refused_with_its_reason(tmp_path):
    pixels = RawPixels(8, channels=1)
    with pytest.raises(SettingError, match="did you mean linear"):
        evaluate(pixels, TRAIN, TEST, view=VIEW, protocols=["linaer"])
    with pytest.raises(DataError, match="these images have no labels"):
        evaluate(pixels, TRAIN, ArraySource(np.zeros((9, 8, 8), np.uint8)), view=VIEW)
    with pytest.raises(DataError, match="training labels hold one class only, 0"):
        evaluate(pixels, digits(slice(0, 9), np.zeros(9)), TEST, view=VIEW)
    with pytest.raises(DataError, match="class 10 of the test labels never occur in training"):
        evaluate(pixels, TRAIN, digits(slice(700, 1000), TEST.labels + 1), view=VIEW)
    with pytest.raises(DataError, match="3 of 300 test labels are -1, which means unlabelled"):
        evaluate(pixels, TRAIN, digits(slice(700, 1000), np.where(np.arange(300) < 3, -1, TEST.labels)), view=VIEW)
    with pytest.raises(DataError, match="is it a run directory"):
        open_run(tmp_path, TRAIN)


def test_standardised_columns_have_the_training_parts_statistics_and_constant_ones_vanish():
    generator = torch.Generator().manual_seed(0)
    train, test = (torch.randn(50, 4, dtype=torch.float64, generator=generator) * 3 + 5 for _ in range(2))
    train[:, 2] = test[:, 2] = 7.0
    labels = torch.arange(50) % 2
    split = Split(train, labels, test, labels, "pooled", {}, "x", "", 0)
    before, after = split.standardised()
    assert torch.allclose(before.std(dim=0), torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=torch.float64))
    assert (after[:, 2] == 0).all()
    moved = Split(train, labels, test + 1, labels, "pooled", {}, "x", "", 0).standardised()[0]
    assert torch.equal(before, moved)
    kept = [0, 1, 3]  # a column that vanished changes no prediction
    whole = few_label_accuracy(before, labels, after, labels, per_class=3, draws=4)
    without = few_label_accuracy(before[:, kept], labels, after[:, kept], labels, per_class=3, draws=4)
    assert len(set(whole.draws)) > 1
    assert torch.equal(whole.items, without.items)
