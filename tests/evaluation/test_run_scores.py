"""A run with its baselines, and runs side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits

from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import (
    compare_runs,
    comparison_table,
    evaluate_run,
    extract,
    load_scores,
    open_run,
    run_head,
    subjects,
    table,
)
from eigenview.nn import build_encoder, build_head


def digits(part: slice) -> ArraySource:
    images, numbers = load_digits(return_X_y=True)
    return ArraySource((images.reshape(-1, 8, 8) * 15).astype(np.uint8)[part], labels=numbers[part])


TRAIN, TEST = digits(slice(0, 300)), digits(slice(300, 400))


def run_folder(folder, *, seed, head="simclr-v1"):
    torch.manual_seed(seed)
    encoder = build_encoder("small", channels=1, width=0.25)
    projection = build_head("simclr-v1", encoder.feature_width, output=8)
    place = folder / "checkpoints" / "last"
    place.mkdir(parents=True)
    stored = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
    stored |= {f"head.{name}": tensor for name, tensor in projection.state_dict().items()}
    save_file(stored, place / "weights.safetensors")
    config = {
        "method_settings": {"head": head, "head_hidden": None, "head_output": 8} if head else {},
        "encoder": {"name": "small", "width": 0.25, "stem": "auto", "normalization": "batch", "weights": None},
        "views": {"preset": "auto", "size": None, "crops": None},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return encoder, projection


def test_a_run_its_supervised_rival_and_its_baselines_share_a_table(tmp_path):
    run_folder(tmp_path / "mine", seed=3)
    trained, _ = run_folder(tmp_path / "labels", seed=5, head=None)
    scores = evaluate_run(
        tmp_path / "mine", {"digits": (TRAIN, TEST)}, protocols=["knn"], supervised=tmp_path / "labels"
    )
    assert table(scores).splitlines()[0] == "| protocol | mine | supervised | untrained | raw pixels |"
    assert sorted(map(str, load_scores(tmp_path / "mine"))) == sorted(map(str, scores))
    first = {score.subject: score for score in scores if score.name == "knn k=1"}
    run = open_run(tmp_path / "labels", TRAIN)
    own, other = (extract(trained, source, view=run.view)["pooled"].double() for source in (TRAIN, TEST))
    own, other = (rows / rows.norm(dim=1, keepdim=True) for rows in (own, other))
    nearest = (other @ own.T).argmax(dim=1)
    expected = np.asarray(TRAIN.labels)[nearest] == np.asarray(TEST.labels)
    assert first["supervised"].value == pytest.approx(expected.mean(), abs=0.011)
    assert first["supervised"].encoder != first["mine"].encoder


def test_projections_are_measured_beside_pooled_features(tmp_path):
    encoder, projection = run_folder(tmp_path / "mine", seed=3)
    run = open_run(tmp_path / "mine", TRAIN)
    head = run_head(run)
    rows = extract(encoder, TEST, view=run.view)["pooled"]
    with torch.no_grad():
        assert torch.equal(head(rows), projection.eval()(rows))
    scores = evaluate_run(
        tmp_path / "mine",
        {"digits": (TRAIN, TEST)},
        protocols=["knn"],
        layers=["pooled", "projection"],
        baselines=["raw pixels"],
    )
    layers = {(score.subject, score.protocol["layer"]) for score in scores}
    assert layers == {("mine", "pooled"), ("mine", "projection"), ("raw pixels", "pooled")}


def test_runs_are_compared_where_they_share_a_measurement(tmp_path):
    for name, seed in {"one": 1, "two": 2, "labels": 5}.items():
        run_folder(tmp_path / name, seed=seed)
        baselines = ["raw pixels"] if name == "one" else []
        evaluate_run(tmp_path / name, {"digits": (TRAIN, TEST)}, protocols=["knn"], baselines=baselines)
    found = compare_runs([tmp_path / "one", tmp_path / "two"], supervised=tmp_path / "labels")
    row = found["knn k=1, accuracy (pooled)"]
    assert [one.score.subject for one in row] == ["one", "two", "supervised", "raw pixels"]
    for other in row[1:]:
        gain = np.array(other.score.items) - np.array(row[0].score.items)
        assert other.difference == pytest.approx(gain.mean())
        assert other.interval[0] <= other.difference <= other.interval[1]
    lines = comparison_table(found).splitlines()
    assert lines[2].startswith("| knn k=1, accuracy (pooled) | one | 0.")
    assert len(lines) == 2 + 4 * len(found)
    only = compare_runs([tmp_path / "one", tmp_path / "two"], protocols=["knn k=20"])
    assert {label.split(",")[0] for label in only} == {"knn k=20", "knn k=200"}


def test_several_sets_carry_their_names(tmp_path):
    run_folder(tmp_path / "mine", seed=3)
    sets = {"a": (TRAIN, TEST), "b": (TEST, TRAIN)}
    scores = evaluate_run(tmp_path / "mine", sets, protocols=["knn"], baselines=[])
    assert {score.name.split(":")[0] for score in scores} == {"a", "b"}


def test_what_cannot_be_compared_is_refused(tmp_path):
    run_folder(tmp_path / "mine", seed=3, head=None)
    run = open_run(tmp_path / "mine", TRAIN)
    with pytest.raises(DataError, match="has no projection head"):
        run_head(run)
    with pytest.raises(SettingError, match="a baseline is one of untrained, raw pixels; got pixels"):
        subjects(run, baselines=["pixels"])
    with pytest.raises(SettingError, match="there is no data set to evaluate on"):
        evaluate_run(tmp_path / "mine", {})
    with pytest.raises(DataError, match="mine has no scores; evaluate it first"):
        compare_runs([tmp_path / "mine"])
    evaluate_run(tmp_path / "mine", {"digits": (TRAIN, TEST)}, protocols=["knn"], baselines=[])
    with pytest.raises(DataError, match="no measurement is shared"):
        compare_runs([tmp_path / "mine"])
    with pytest.raises(SettingError, match="told apart by their folders' names; got mine, mine"):
        compare_runs([tmp_path / "mine", tmp_path / "elsewhere" / "mine"])
    with pytest.raises(SettingError, match="there is no run to compare"):
        compare_runs([])
