"""A run diagnosed from its folder: the very embeddings of its encoder and head, its loss, its prototypes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from eigenview.evaluation.run_diagnosis import (
    UNSEEN_EPOCH,
    Progress,
    diagnose_encoder,
    diagnose_run,
    load_diagnosis,
    progress_of,
    save_diagnosis,
)
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch.nn.functional import normalize

from eigenview.data import ArraySource, FolderSource
from eigenview.diagnostics import Diagnosis, alignment_figure, mean_cosine, prototype_usage, tolerance
from eigenview.errors import DataError, SettingError
from eigenview.nn import build_encoder, build_head
from eigenview.views import Views, preset, recipe_to_json

CHANCE = math.log(63)


def digits(count: int = 300, **options) -> ArraySource:
    images, numbers = load_digits(return_X_y=True)
    pixels = (images.reshape(-1, 8, 8) * 15).astype(np.uint8)[:count]
    return ArraySource(pixels, **{"labels": numbers[:count], **options})


def run_folder(folder: Path, *, loss: float = 2.0, has_head: bool = True, channels: int = 1, extra=None):
    """A run as training leaves it: an encoder with some head, after no training."""
    torch.manual_seed(3)
    encoder = build_encoder("small", channels=channels, width=0.25)
    head = build_head("swav", encoder.feature_width, hidden=32, output=16)
    parts = {"encoder": encoder, "head": head} if has_head else {"encoder": encoder}
    stored = {f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.state_dict().items()}
    place = folder / "checkpoints" / "last"
    place.mkdir(parents=True)
    save_file({**stored, **(extra or {})}, place / "weights.safetensors")
    config = {
        "method_settings": {"head": "swav", "head_hidden": 32, "head_output": 16},
        "encoder": {"name": "small", "width": 0.25, "stem": "auto", "normalization": "batch", "weights": None},
        "views": {"preset": "digits" if channels == 1 else "simclr-cifar", "size": None, "crops": None},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 5, "loss": loss, "chance": CHANCE}) + "\n")
    return encoder.eval(), head.eval()


def embedded(source: ArraySource, module) -> list[torch.Tensor]:
    """Two views of every image, all at once."""
    every = np.arange(len(source))
    made = Views(preset("digits"), seed=0)(source.batch(every), torch.from_numpy(every), epoch=UNSEEN_EPOCH)
    with torch.no_grad():
        return [module(view) for view in made.views]


def test_a_run_is_judged_by_what_its_encoder_and_head_say(tmp_path):
    encoder, head = run_folder(tmp_path)
    source = digits()
    found = diagnose_run(tmp_path, source).figures
    first, second = embedded(source, lambda view: head(encoder(view)))
    assert (found.n, found.d, found.loss, found.chance) == (300, 16, 2.0, CHANCE)
    assert found.mean_cosine == pytest.approx(mean_cosine(first), abs=1e-5)
    assert found.views.alignment == pytest.approx(alignment_figure(first, second), rel=1e-4)
    assert found.tolerance == pytest.approx(tolerance(first, source.labels), rel=1e-4)
    assert not found.is_centred


def test_features_before_the_head_are_judged_around_their_mean(tmp_path):
    encoder, _ = run_folder(tmp_path)
    found = diagnose_run(tmp_path, digits(), where="features").figures
    first, second = embedded(digits(), encoder)
    assert (found.d, found.is_centred) == (encoder.feature_width, True)
    assert found.mean_cosine == pytest.approx(mean_cosine(first), abs=1e-5)
    centred = [rows - rows.mean(dim=0) for rows in (first, second)]
    assert found.views.alignment == pytest.approx(alignment_figure(*centred), rel=1e-4)


def test_a_run_without_a_head_has_its_features_judged(tmp_path):
    run_folder(tmp_path, has_head=False)
    assert diagnose_run(tmp_path, digits()) == diagnose_run(tmp_path, digits(), where="features")


def test_an_encoder_is_judged_as_its_run_is(tmp_path):
    encoder, head = run_folder(tmp_path)
    given = Progress(2.0, CHANCE)
    encoder.train()
    found = diagnose_encoder(encoder, digits(), recipe=preset("digits"), head=head, progress=given)
    assert found == diagnose_run(tmp_path, digits())
    assert encoder.training
    assert not head.training


def test_the_recipe_is_read_from_the_runs_data(tmp_path):
    encoder, head = run_folder(tmp_path)
    still = preset("none", size=8)
    still = type(still)(**{**still.__dict__, "mean": (0.3,), "std": (0.35,)})
    (tmp_path / "data.json").write_text(json.dumps({"recipe": recipe_to_json(still), "image": {"channels": 1}}))
    found = diagnose_run(tmp_path, digits())
    assert found.figures.views.alignment == pytest.approx(0, abs=1e-9)
    assert found == diagnose_encoder(encoder, digits(), recipe=still, head=head, progress=Progress(2.0, CHANCE))


def test_prototypes_of_the_least_used_head_are_looked_at(tmp_path):
    generator = torch.Generator().manual_seed(0)
    tables = [torch.randn(count, 16, generator=generator) for count in (5, 9)]
    extra = {f"prototypes.heads.{place}.weight": table for place, table in enumerate(tables)}
    encoder, head = run_folder(tmp_path, extra=extra)
    first, _ = embedded(digits(), lambda view: head(encoder(view)))
    scores = [normalize(first, dim=1) @ normalize(table, dim=1).T for table in tables]
    expected = [prototype_usage(each.argmax(dim=1), each.shape[1]) for each in scores]
    assert diagnose_run(tmp_path, digits()).figures.usage == min(expected, key=lambda usage: usage.entropy)
    assert diagnose_run(tmp_path, digits(), where="features").figures.usage is None


def test_items_are_drawn_by_the_seed(tmp_path):
    run_folder(tmp_path)
    few = diagnose_run(tmp_path, digits(), items=50, seed=1)
    assert few.figures.n == 50
    assert few == diagnose_run(tmp_path, digits(), items=50, seed=1)
    assert few.figures.mean_cosine != diagnose_run(tmp_path, digits(), items=50, seed=2).figures.mean_cosine


def test_repeated_images_are_found_though_their_views_differ(tmp_path):
    images = digits(200).batch(np.arange(200)).numpy()
    source = ArraySource(np.concatenate([images, images[:40]]), layout="nchw")
    encoder, _ = run_folder(tmp_path)
    recipe = preset("digits")
    found = diagnose_encoder(encoder, source, recipe=recipe).figures
    assert found.duplicates.value >= 80 / 240
    pairs = found.duplicate_pairs
    assert sum(j - i == 200 for i, j in pairs) >= len(pairs) / 2
    part = diagnose_encoder(encoder, source, recipe=recipe, items=150).figures.duplicate_pairs
    assert any(j - i == 200 for i, j in part)  # numbered as in the source, not as drawn


def test_photos_are_cut_by_workers_and_unreadable_ones_left_out(tmp_path):
    run_folder(tmp_path / "run", channels=3)
    (tmp_path / "photos").mkdir()
    for place in range(12):
        Image.fromarray(np.random.default_rng(place).integers(0, 255, (20, 24, 3), np.uint8)).save(
            tmp_path / "photos" / f"{place:02}.png"
        )
    (tmp_path / "photos" / "03.png").write_bytes(b"no picture")
    found = diagnose_run(tmp_path / "run", FolderSource(tmp_path / "photos"), workers=0)
    assert (found.figures.n, found.figures.tolerance) == (11, None)


def test_a_diagnosis_is_kept_in_the_run(tmp_path):
    run_folder(tmp_path)
    found = diagnose_run(tmp_path, digits())
    assert load_diagnosis(tmp_path) is None
    assert save_diagnosis(found, tmp_path) == tmp_path / "diagnosis.json"
    assert load_diagnosis(tmp_path) == found == Diagnosis.from_json((tmp_path / "diagnosis.json").read_text())
    with pytest.raises(DataError, match=r"cannot write .*; does the run exist"):
        save_diagnosis(found, tmp_path / "nowhere")


def test_the_last_finite_loss_counts_and_what_follows_it_tells(tmp_path):
    lines = [{"loss": 3.0, "chance": 4.0}, {"loss": 2.5, "chance": 4.0}, {"epoch": 1, "epoch_loss": 2.75}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"loss": 1')
    assert progress_of(tmp_path) == Progress(2.5, 4.0)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('\n{"loss": NaN, "chance": 4.0}\n')
    assert progress_of(tmp_path) == Progress(2.5, 4.0, has_diverged=True)
    assert progress_of(tmp_path / "nowhere") == Progress()


def test_a_run_that_diverged_or_learnt_nothing_is_told(tmp_path):
    run_folder(tmp_path, loss=CHANCE)
    assert "at chance" in [finding.name for finding in diagnose_run(tmp_path, digits()).findings]
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 9, "alarms": ["step 9: not finite"]}) + "\n")
    assert diagnose_run(tmp_path, digits()).verdict == "diverged"


def test_bad_input_is_refused_with_its_reason(tmp_path):
    with pytest.raises(DataError, match="is it a run directory"):
        diagnose_run(tmp_path / "nowhere", digits())
    encoder, _ = run_folder(tmp_path)
    with pytest.raises(DataError, match=r"no file .*best.*weights\.safetensors"):
        diagnose_run(tmp_path, digits(), checkpoint="best")
    with pytest.raises(DataError, match="the source must have at least 2; it has 1"):
        diagnose_run(tmp_path, digits(1))
    with pytest.raises(SettingError, match="items must be at least 2; got 1"):
        diagnose_run(tmp_path, digits(), items=1)
    with pytest.raises(SettingError, match="where is projection or features; got 'head'"):
        diagnose_run(tmp_path, digits(), where="head")  # type: ignore[arg-type]
    with torch.no_grad():
        encoder.conv1[0].weight[0] = math.nan
    with pytest.raises(DataError, match=r"the encoder has weights that are not finite \(conv1\.0\.weight\): training"):
        diagnose_encoder(encoder, digits(), recipe=preset("digits"))
