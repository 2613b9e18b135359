"""A run diagnosed from its folder: the very embeddings of its encoder and head, its loss, its prototypes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch.nn.functional import normalize

from eigenview.data import ArraySource, FolderSource
from eigenview.diagnostics import Diagnosis, alignment_figure, mean_cosine, prototype_usage, tolerance
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import Observed, diagnose_observation, diagnose_run, observe
from eigenview.evaluation.observation import UNSEEN_EPOCH
from eigenview.files import write_json
from eigenview.nn import build_encoder
from eigenview.runs import OpenedRun, open_run
from eigenview.views import Views, centre_view, preset, recipe_to_json
from tests.training.runs import run_quietly, settings


def digits(count: int = 300, **options) -> ArraySource:
    images, numbers = load_digits(return_X_y=True)
    pixels = (images.reshape(-1, 8, 8) * 15).astype(np.uint8)[:count]
    return ArraySource(pixels, **{"labels": numbers[:count], **options})


def embedded(run: OpenedRun, source: ArraySource, module) -> list[torch.Tensor]:
    """Two views of every image, all at once."""
    every = np.arange(len(source))
    made = Views(run.recipe, seed=0)(source.batch(every), torch.from_numpy(every), epoch=UNSEEN_EPOCH)
    with torch.no_grad():
        return [module(view) for view in made.views]


def test_a_run_is_judged_by_what_its_encoder_and_head_say(made_runs):
    run, source = open_run(made_runs()), digits()
    figures = diagnose_run(run, source).figures
    first, second = embedded(run, source, lambda view: run.head(run.encoder(view)))
    last = [line for line in run.directory.metrics.lines if "loss" in line][-1]
    assert (figures.n, figures.d, figures.loss, figures.chance) == (300, 16, last["loss"], last["chance"])
    assert figures.mean_cosine == pytest.approx(mean_cosine(first), abs=1e-5)
    assert figures.views.alignment == pytest.approx(alignment_figure(first, second), rel=1e-4)
    assert figures.tolerance == pytest.approx(tolerance(first, source.labels), rel=1e-4)
    assert not figures.is_centred


def test_a_run_of_four_steps_has_barely_begun(made_runs):
    run = open_run(made_runs())
    diagnosis = diagnose_run(run, digits())
    progress = run.directory.progress()
    assert (progress.steps, progress.share) == (4, 1)
    assert diagnosis.figures.progress == progress
    assert diagnosis.figures.views.matched.value < 0.2
    assert "barely begun" in [finding.name for finding in diagnosis.findings]
    assert diagnosis.verdict != "healthy"


def test_features_before_the_head_are_judged_around_their_mean(made_runs):
    run = open_run(made_runs())
    figures = diagnose_run(run, digits(), where="features").figures
    first, second = embedded(run, digits(), run.encoder)
    assert (figures.d, figures.is_centred) == (run.encoder.feature_width, True)
    assert figures.mean_cosine == pytest.approx(mean_cosine(first), abs=1e-5)
    centred = [rows - rows.mean(dim=0) for rows in (first, second)]
    assert figures.views.alignment == pytest.approx(alignment_figure(*centred), rel=1e-4)


def test_a_run_without_a_head_has_its_features_judged(made_runs):
    run = open_run(made_runs("supervised"))
    assert run.head is None
    assert diagnose_run(run, digits()) == diagnose_run(run, digits(), where="features")


def test_an_encoder_is_judged_as_its_run_is_and_stays_as_it_was(made_runs):
    run = open_run(made_runs())
    expected = diagnose_run(run, digits())
    run.encoder.train()
    observation = observe(Observed.of_run(run), digits())
    assert diagnose_observation(observation, progress=run.directory.progress()) == expected
    assert run.encoder.training
    assert not run.head.training


def test_the_recipe_is_read_from_the_runs_data(made_runs, tmp_path):
    folder = made_runs.copy(tmp_path / "run")
    still = replace(preset("none", size=8), mean=(0.3,), std=(0.35,))
    facts = open_run(folder).directory.data.model_dump(mode="json")
    write_json(folder / "data.json", {**facts, "recipe": recipe_to_json(still)})
    assert diagnose_run(open_run(folder), digits()).figures.views.alignment == pytest.approx(0, abs=1e-9)


def test_prototypes_of_the_least_used_head_are_looked_at(made_runs):
    run = open_run(made_runs("deepcluster-v2"))
    assert [len(table) for table in run.prototypes] == [5, 9]
    first, _ = embedded(run, digits(), lambda view: run.head(run.encoder(view)))
    scores = [normalize(first, dim=1) @ normalize(table, dim=1).T for table in run.prototypes]
    usages = [prototype_usage(each.argmax(dim=1), each.shape[1]) for each in scores]
    assert diagnose_run(run, digits()).figures.usage == min(usages, key=lambda usage: usage.entropy)
    assert diagnose_run(run, digits(), where="features").figures.usage is None


def test_items_are_drawn_by_the_seed(made_runs):
    run = open_run(made_runs())
    few = diagnose_run(run, digits(), items=50, seed=1)
    assert few.figures.n == 50
    assert few == diagnose_run(run, digits(), items=50, seed=1)
    assert few.figures.mean_cosine != diagnose_run(run, digits(), items=50, seed=2).figures.mean_cosine


def test_repeated_images_are_found_though_their_views_differ():
    images = digits(200).batch(np.arange(200)).numpy()
    source = ArraySource(np.concatenate([images, images[:40]]), layout="nchw")
    torch.manual_seed(3)
    recipe = preset("digits")
    observed = Observed(build_encoder("small", channels=1, width=0.25), recipe, centre_view(recipe))
    figures = diagnose_observation(observe(observed, source)).figures
    assert figures.duplicates.value >= 80 / 240
    pairs = figures.duplicate_pairs
    assert sum(j - i == 200 for i, j in pairs) >= len(pairs) / 2
    drawn = diagnose_observation(observe(observed, source, items=150)).figures.duplicate_pairs
    assert any(j - i == 200 for i, j in drawn)  # numbered as in the source, not as drawn


def test_photos_are_cut_by_workers_and_unreadable_ones_left_out(tmp_path):
    run_quietly(settings("simclr", tmp_path / "run", steps=1, views={"preset": "simclr-cifar"}))
    (tmp_path / "photos").mkdir()
    for place in range(12):
        Image.fromarray(np.random.default_rng(place).integers(0, 255, (20, 24, 3), np.uint8)).save(
            tmp_path / "photos" / f"{place:02}.png"
        )
    (tmp_path / "photos" / "03.png").write_bytes(b"no picture")
    diagnosis = diagnose_run(open_run(tmp_path / "run"), FolderSource(tmp_path / "photos"), workers=0)
    assert (diagnosis.figures.n, diagnosis.figures.tolerance) == (11, None)


def test_a_diagnosis_is_kept_in_the_run_if_that_is_asked_for(made_runs, tmp_path):
    run = open_run(made_runs.copy(tmp_path / "run"))
    diagnosis = diagnose_run(run, digits())
    assert run.directory.diagnosis() is None
    assert run.directory.sample() is None
    assert diagnose_run(run, digits(), keeps=True) == diagnosis
    stored = Diagnosis.from_json((tmp_path / "run" / "diagnosis.json").read_text())
    assert run.directory.diagnosis() == diagnosis == stored
    assert len(run.directory.sample().index) == 300


def test_a_run_that_diverged_or_learnt_nothing_is_told(made_runs, tmp_path):
    run = open_run(made_runs.copy(tmp_path / "run"))
    run.directory.metrics_file.append({"step": 5, "loss": math.log(63), "chance": math.log(63)})
    assert "at chance" in [finding.name for finding in diagnose_run(run, digits()).findings]
    run.directory.metrics_file.append({"step": 9, "alarms": ["step 9: not finite"]})
    assert diagnose_run(run, digits()).verdict == "diverged"


def test_bad_input_is_refused_with_its_reason(made_runs):
    run = open_run(made_runs())
    with pytest.raises(DataError, match="the source must have at least 2; it has 1"):
        diagnose_run(run, digits(1))
    with pytest.raises(SettingError, match="items must be at least 2; got 1"):
        diagnose_run(run, digits(), items=1)
    with pytest.raises(SettingError, match="where is projection or features; got 'head'"):
        diagnose_run(run, digits(), where="head")  # type: ignore[arg-type]
    with torch.no_grad():
        run.encoder.conv1[0].weight[0] = math.nan
    with pytest.raises(
        DataError,
        match=r"the checkpoint last of .* has weights that are not finite \(conv1\.0\.weight\): training diverged",
    ):
        diagnose_run(run, digits())
