"""A run with its baselines, and runs side by side."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from eigenview.batches import Extractor
from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import (
    PROTOCOLS,
    Subject,
    Task,
    compare,
    compare_runs,
    comparison_table,
    evaluate_run,
    evaluating,
    extract,
    open_task,
    split_by_class,
    table,
)
from eigenview.evaluation.evaluating import Protocol
from eigenview.evaluation.subjects import subjects_of
from eigenview.names import Table
from eigenview.nn import build_head
from eigenview.runs import RunDirectory, Score, open_run


def digits(rows: slice) -> ArraySource:
    images, numbers = load_digits(return_X_y=True)
    return ArraySource((images.reshape(-1, 8, 8) * 15).astype(np.uint8)[rows], labels=numbers[rows])


TRAIN, TEST = digits(slice(0, 300)), digits(slice(300, 400))
DIGITS = Task(TRAIN, TEST, "digits")


def scores_of(folder, *tasks: Task, **options) -> list[Score]:
    return list(evaluate_run(open_run(folder), tasks or [DIGITS], **{"protocols": ["knn"], **options}))


def test_a_run_its_supervised_rival_and_its_baselines_share_a_table(made_runs, tmp_path):
    folder, rival = made_runs.copy(tmp_path / "mine"), open_run(made_runs("supervised"))
    scores = scores_of(folder, supervised=rival, baselines=["untrained", "raw pixels"])
    assert table(scores).splitlines()[0] == "| protocol | mine | supervised | untrained | raw pixels |"
    assert sorted(map(str, RunDirectory.existing(folder).scores())) == sorted(map(str, scores))
    first = {score.subject: score for score in scores if score.name == "knn k=1"}
    own, other = (extract(rival.encoder, source, view=rival.view)["pooled"].double() for source in (TRAIN, TEST))
    own, other = (rows / rows.norm(dim=1, keepdim=True) for rows in (own, other))
    closest = (other @ own.T).argmax(dim=1)
    right = np.asarray(TRAIN.labels)[closest] == np.asarray(TEST.labels)
    assert first["supervised"].value == pytest.approx(right.mean(), abs=0.011)
    assert first["supervised"].encoder != first["mine"].encoder


def test_the_untrained_rival_is_the_runs_encoder_before_training(made_runs):
    run = open_run(made_runs())
    again = run.untrained(seed=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.directory.config.seed)
        began = run.directory.config.encoder.build(channels=1, image_size=8)
    assert torch.equal(again.conv1[0].weight, began.conv1[0].weight)
    assert not torch.equal(again.conv1[0].weight, run.encoder.conv1[0].weight)
    assert not torch.equal(again.conv1[0].weight, run.untrained(seed=1).conv1[0].weight)


def test_projections_are_measured_beside_pooled_features(made_runs, tmp_path):
    run = open_run(made_runs())
    head = build_head("simclr-v1", run.encoder.feature_width, output=16)
    stored = run.directory.checkpoints.weights("last")
    head.load_state_dict({name[5:]: tensor for name, tensor in stored.items() if name.startswith("head.")})
    rows = extract(Extractor(run.encoder, ("pooled", "projection"), run.head), TEST, view=run.view)
    with torch.no_grad():
        assert torch.equal(rows["projection"], head.eval()(rows["pooled"]))
    layers = ["pooled", "projection"]
    scores = scores_of(made_runs.copy(tmp_path / "mine"), layers=layers, baselines=["raw pixels"])
    measured = {(score.subject, score.protocol["layer"]) for score in scores}
    assert measured == {("mine", "pooled"), ("mine", "projection"), ("raw pixels", "pooled")}


@pytest.mark.parametrize("layers", [["pooledd"], ["pooled", "pooledd"]])
def test_a_layer_that_is_not_there_is_refused_before_anything_is_measured(made_runs, tmp_path, layers):
    folder = made_runs.copy(tmp_path / "mine")
    with pytest.raises(SettingError, match=r"no layer 'pooledd' in this encoder; it has .*; did you mean pooled\?"):
        scores_of(folder, layers=layers)
    assert not RunDirectory.existing(folder).scores()


def test_scores_are_kept_as_they_come_so_that_an_interruption_loses_none(made_runs, tmp_path, monkeypatch):
    def interrupted(split):
        raise KeyboardInterrupt
        yield

    changed = Table("protocol", {**PROTOCOLS, "linear": Protocol(on_features=interrupted)})
    monkeypatch.setattr(evaluating, "PROTOCOLS", changed)
    folder = made_runs.copy(tmp_path / "mine")
    with pytest.raises(KeyboardInterrupt):
        scores_of(folder, protocols=["knn", "linear"])
    assert {score.name for score in RunDirectory.existing(folder).scores()} == {f"knn k={k}" for k in (1, 5, 20, 200)}


def test_runs_are_compared_where_they_share_a_measurement(made_runs, tmp_path):
    for name, seed in {"one": 1, "two": 2, "labels": 5}.items():
        scores_of(made_runs.copy(tmp_path / name, seed=seed), baselines=["raw pixels"] if name == "one" else [])
    compared = compare_runs([tmp_path / "one", tmp_path / "two"], supervised=tmp_path / "labels")
    row = compared["knn k=1, accuracy (pooled)"]
    assert [cell.score.subject for cell in row] == ["one", "two", "supervised", "raw pixels"]
    for other in row[1:]:
        gain = np.array(other.score.items) - np.array(row[0].score.items)
        assert other.difference == pytest.approx(gain.mean())
        assert other.interval[0] <= other.difference <= other.interval[1]
    lines = comparison_table(compared).splitlines()
    assert lines[2].startswith("| knn k=1, accuracy (pooled) | one | 0.")
    assert len(lines) == 2 + 4 * len(compared)
    only = compare_runs([tmp_path / "one", tmp_path / "two"], protocols=["knn k=20"])
    assert {label.split(",")[0] for label in only} == {"knn k=20", "knn k=200"}


def test_several_sets_carry_their_names_into_scores_and_rows(made_runs, tmp_path):
    tasks = Task(TRAIN, TEST, "a"), Task(TEST, TRAIN, "b")
    for name, seed in {"one": 1, "two": 2}.items():
        scores = scores_of(made_runs.copy(tmp_path / name, seed=seed), *tasks, baselines=[])
        assert {score.data_name for score in scores} == {"a", "b"}
        assert all(score.name.startswith("knn") for score in scores)
    compared = compare_runs([tmp_path / "one", tmp_path / "two"])
    assert {"a: knn k=1, accuracy (pooled)", "b: knn k=1, accuracy (pooled)"} <= set(compared)
    assert len(compared) == 7  # k = 200 is too large for the smaller bank


def test_a_run_that_was_trained_on_the_test_images_says_so(made_runs, tmp_path):
    folder = made_runs.copy(tmp_path / "mine")  # trained on all digits
    inside = open_task("digits")
    pixels = np.random.default_rng(0).integers(0, 256, (80, 8, 8), dtype=np.uint8)
    outside = Task(TRAIN, ArraySource(pixels, labels=np.arange(80) % 10), "noise")
    scores = scores_of(folder, inside, outside, baselines=["raw pixels"], supervised=open_run(made_runs("supervised")))
    seen = {(score.subject, score.data_name) for score in scores if score.was_seen}
    assert seen == {("mine", "digits"), ("supervised", "digits")}
    assert sum(score.was_seen for score in RunDirectory.existing(folder).scores()) == 8  # four of each kNN
    mine, pixels = (
        next(score for score in scores if (score.subject, score.data_name) == (subject, "digits"))
        for subject in ("mine", "raw pixels")
    )
    assert compare(mine, pixels)[1].p_value is not None  # the images are the same, whoever saw them


def test_a_fifth_of_every_class_is_kept_back_the_same_way_every_time():
    task, again = (split_by_class(digits(slice(0, 500)), seed=4) for _ in range(2))
    whole, kept = (np.bincount(source.labels) for source in (digits(slice(0, 500)), task.test))
    assert np.abs(kept - whole / 5).max() <= 0.5
    assert len(task.train) + len(task.test) == 500
    assert np.array_equal(task.test.labels, again.test.labels)
    assert not np.array_equal(task.test.labels, split_by_class(digits(slice(0, 500)), seed=5).test.labels)


def test_a_task_is_called_what_people_call_its_data(tmp_path):
    assert open_task("digits").name == "digits"
    np.savez(tmp_path / "mine.npz", images=np.zeros((6, 8, 8), np.uint8), labels=np.array([0, 1] * 3))
    assert open_task(tmp_path / "mine.npz").name == "mine.npz"
    assert open_task(DIGITS.train, DIGITS.test, name="my digits").name == "my digits"


def test_what_cannot_be_compared_is_refused(made_runs, tmp_path):
    run = open_run(made_runs("supervised"))
    with pytest.raises(DataError, match="has no projection head"):
        Subject.of_run(run, with_head=True)
    with pytest.raises(
        SettingError,
        match=r"'pixels' is no baseline; did you mean raw pixels\? It must be one of starting point, ",
    ):
        subjects_of(run, baselines=["pixels"])
    with pytest.raises(SettingError, match="there is no data set to evaluate on"):
        list(evaluate_run(run, []))
    folder = made_runs.copy(tmp_path / "mine")
    with pytest.raises(DataError, match="mine has no scores; evaluate it first"):
        compare_runs([folder])
    scores_of(folder, baselines=[])
    with pytest.raises(DataError, match="no measurement is shared"):
        compare_runs([folder])
    with pytest.raises(SettingError, match="told apart by their folders' names; got mine, mine"):
        compare_runs([folder, tmp_path / "elsewhere" / "mine"])
    with pytest.raises(SettingError, match="there is no run to compare"):
        compare_runs([])
    with pytest.raises(DataError, match=r"has no labels, and scores need them: .*\?labelled=yes"):
        open_task(ArraySource(np.zeros((6, 8, 8), np.uint8)))
    with pytest.raises(DataError, match=r"scores need at least two classes; .* has 1"):
        open_task(ArraySource(np.zeros((6, 8, 8), np.uint8), labels=np.zeros(6, int)))
    with pytest.raises(SettingError, match=r"the share for the test lies between 0 and 1; got 1\.5"):
        split_by_class(TRAIN, share=1.5)
