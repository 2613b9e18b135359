"""A sample of a run: what it stores is what the run computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from eigenview.data import ArraySource, FolderSource
from eigenview.errors import DataError
from eigenview.evaluation import Observed, Task, diagnose_run, evaluate_run, extract, observe
from eigenview.evaluation.observation import UNSEEN_EPOCH
from eigenview.evaluation.sampling import label_stored_sample, save_sample
from eigenview.runs import OpenedRun, Sample, open_run
from eigenview.views import Views

IMAGES, LABELS = load_digits(n_class=3, return_X_y=True)
IMAGES, LABELS = (IMAGES.reshape(-1, 8, 8) * 15).astype(np.uint8)[:60], LABELS[:60]
SOURCE = ArraySource(IMAGES, labels=LABELS, classes=["a", "b", "c"])


def sampled(run: OpenedRun, source=SOURCE, *, items: int = 60, seed: int = 0) -> Sample:
    save_sample(run, source, observe(Observed.of_run(run), source, items=items, seed=seed))
    return run.directory.sample()


def test_features_and_projections_are_the_runs_own(made_runs, tmp_path):
    run = open_run(made_runs.copy(tmp_path / "run", "swav"))
    sample = sampled(run, items=20, seed=1)
    assert np.array_equal(sample.index, np.sort(np.random.default_rng(1).permutation(60)[:20]))
    whole = extract(run.encoder, SOURCE, view=run.view, title=None)["pooled"]
    assert np.allclose(sample.features, whole[sample.index].numpy(), atol=1e-6)
    assert np.array_equal(sample.labels, LABELS[sample.index])
    pair = Views(run.recipe, seed=1)(torch.from_numpy(IMAGES[sample.index])[:, None], range(20), epoch=UNSEEN_EPOCH)
    with torch.no_grad():
        projected = run.head(run.encoder(pair.groups[0])).view(2, 20, 16)
    assert np.allclose(sample.first_view, projected[0].numpy(), atol=1e-5)
    assert np.allclose(sample.second_view, projected[1].numpy(), atol=1e-5)
    table = torch.nn.functional.normalize(run.directory.checkpoints.weights("last")["prototypes.heads.0.weight"], dim=1)
    assert len(table) == 5
    closest = [int(max(range(5), key=lambda k, row=row: float(row @ table[k]))) for row in projected[0]]
    assert sample.prototypes.tolist() == closest
    assert (sample.checkpoint, sample.seed, sample.classes) == ("last", 1, ("a", "b", "c"))


def test_thumbnails_lie_where_the_sheet_says(made_runs, tmp_path):
    run = open_run(made_runs.copy(tmp_path / "run"))
    grey = np.repeat(np.arange(60, dtype=np.uint8) * 4, 144).reshape(60, 12, 12)
    sample = sampled(run, ArraySource(grey))
    sheets = sample.thumbnails
    assert (sheets.side, len(sheets.files)) == (16, 1)
    sheet = np.asarray(Image.open(sheets.files[0]).convert("L")).astype(int)
    for row in range(60):
        top, left = row // sheets.columns * 16, row % sheets.columns * 16
        assert abs(sheet[top : top + 16, left : left + 16] - 4 * int(sample.index[row])).max() <= 2
    assert sample.labels is None
    views = np.asarray(Image.open(sample.views.files[0]))
    assert views.shape[:2] == (sample.views.rows * sample.views.side, sample.views.columns * sample.views.side)
    assert (sample.views.rows, sample.views.columns) == (6, 3)


def test_as_many_clusters_as_classes(made_runs, tmp_path):
    assert set(sampled(open_run(made_runs.copy(tmp_path / "run"))).clusters) == {0, 1, 2}


def test_a_sample_is_replaced_whole_and_a_failure_keeps_the_old_one(made_runs, tmp_path, monkeypatch):
    run = open_run(made_runs.copy(tmp_path / "run"))
    sampled(run, items=10)
    assert len(sampled(run, items=12).names) == 12

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(DataError, match="No space left"):
        sampled(run, items=14)
    monkeypatch.undo()
    assert len(run.directory.sample().names) == 12
    assert [path.name for path in run.folder.glob(".sample*")] == []


def test_a_run_without_a_head_has_no_projections(made_runs, tmp_path):
    sample = sampled(open_run(made_runs.copy(tmp_path / "run", "supervised")), items=10)
    assert sample.first_view is None
    assert sample.second_view is None
    assert sample.prototypes is None


def test_an_evaluation_of_the_same_files_gives_the_sample_its_labels(made_runs, tmp_path):
    for place, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
        (tmp_path / "photos" / "abc"[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "photos" / "abc"[label] / f"{place}.png")
    run = open_run(made_runs.copy(tmp_path / "run"))
    before = sampled(run, FolderSource(tmp_path / "photos", channels=1))
    assert before.labels is None
    labelled = FolderSource(tmp_path / "photos", labelled=True, channels=1)
    scores = evaluate_run(run, [Task(labelled, labelled)], protocols=["knn"], baselines=[])
    assert len(list(scores)) == 3
    after = run.directory.sample()
    assert [after.classes[label] for label in after.labels] == [name.split("/")[0] for name in after.names]
    assert np.array_equal(after.features, before.features)
    assert after.thumbnails.files[0].read_bytes()


def test_images_of_the_same_names_give_the_sample_no_labels(made_runs, tmp_path):
    for folder, change in (("photos", 0), ("others", 1)):
        for place, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
            (tmp_path / folder / "abc"[label]).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image ^ change).save(tmp_path / folder / "abc"[label] / f"{place}.png")
    run = open_run(made_runs.copy(tmp_path / "run"))
    sampled(run, FolderSource(tmp_path / "photos", channels=1))
    others = FolderSource(tmp_path / "others", labelled=True, channels=1)
    assert not label_stored_sample(run, [Task(others, others)])
    assert run.directory.sample().labels is None


def test_other_images_give_the_sample_no_labels(made_runs, tmp_path):
    run = open_run(made_runs.copy(tmp_path / "run"))
    sampled(run, ArraySource(IMAGES))
    few = ArraySource(IMAGES[:25], labels=LABELS[:25])
    assert not label_stored_sample(run, [Task(few, few)])
    unlabelled = ArraySource(IMAGES)  # as those of a depth task are
    assert not label_stored_sample(run, [Task(unlabelled, unlabelled)])
    assert run.directory.sample().labels is None


def test_too_few_images_are_refused(made_runs, tmp_path):
    run = open_run(made_runs.copy(tmp_path / "run"))
    with pytest.raises(DataError, match="a sample needs at least 3 images; there are 2"):
        diagnose_run(run, ArraySource(IMAGES[:2]), keeps=True)
