"""A sample of a run: what it stores is what the run computes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from eigenview.evaluation.sample import read_sample, write_sample
from PIL import Image
from safetensors.torch import save_file

from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import extract, open_run
from eigenview.nn import build_encoder, build_head
from eigenview.views import Views, preset

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (60, 12, 12), dtype=np.uint8)
LABELS = np.arange(60) % 3
SOURCE = ArraySource(IMAGES, labels=LABELS, classes=["a", "b", "c"])


def write_weights(folder, *, head="simclr-v1", prototypes=0):
    """A run directory with a fresh encoder and head, and what they are."""
    torch.manual_seed(0)
    encoder = build_encoder("small", channels=1, width=0.25)
    made = build_head(head, encoder.feature_width, output=16)
    tensors = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    tensors |= {f"head.{name}": value for name, value in made.state_dict().items()}
    if prototypes:
        tensors["prototypes.heads.0.weight"] = torch.randn(prototypes, 16)
    place = folder / "checkpoints" / "last"
    place.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in tensors.items()}, place / "weights.safetensors")
    config = {
        "encoder": {"name": "small", "width": 0.25, "stem": "auto", "normalization": "batch", "weights": None},
        "views": {"preset": "auto", "size": None, "crops": None},
        "method_settings": {"head": head, "head_hidden": None, "head_output": 16},
        "seed": 3,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return encoder.eval(), made.eval(), tensors


def test_features_and_projections_are_the_runs_own(tmp_path):
    encoder, head, tensors = write_weights(tmp_path, prototypes=5)
    write_sample(tmp_path, SOURCE, items=20, seed=1)
    found = read_sample(tmp_path)
    assert np.array_equal(found.index, np.sort(np.random.default_rng(1).permutation(60)[:20]))
    whole = extract(encoder, SOURCE, view=open_run(tmp_path, SOURCE).view, shows_progress=False)["pooled"]
    assert np.allclose(found.features, whole[found.index].numpy(), atol=1e-6)
    assert np.array_equal(found.labels, LABELS[found.index])
    views = Views(preset("digits", size=12), seed=0)(torch.from_numpy(IMAGES[found.index])[:, None], range(20), epoch=0)
    with torch.no_grad():
        projected = head(encoder(views.groups[0])).view(2, 20, 16)
    assert np.allclose(found.first_view, projected[0].numpy(), atol=1e-5)
    assert np.allclose(found.second_view, projected[1].numpy(), atol=1e-5)
    table = torch.nn.functional.normalize(tensors["prototypes.heads.0.weight"], dim=1)
    nearest = [int(max(range(5), key=lambda k, row=row: float(row @ table[k]))) for row in projected[0]]
    assert found.prototypes.tolist() == nearest


def test_thumbnails_lie_where_the_sheet_says(tmp_path):
    write_weights(tmp_path)
    grey = np.repeat(np.arange(60, dtype=np.uint8) * 4, 144).reshape(60, 12, 12)
    write_sample(tmp_path, ArraySource(grey), items=60)
    found = read_sample(tmp_path)
    sheets = found.thumbnails
    assert (sheets.side, len(sheets.files)) == (16, 1)
    sheet = np.asarray(Image.open(sheets.files[0]).convert("L")).astype(int)
    for row in range(60):
        top, left = row // sheets.columns * 16, row % sheets.columns * 16
        assert abs(sheet[top : top + 16, left : left + 16] - 4 * int(found.index[row])).max() <= 2
    assert found.labels is None
    views = np.asarray(Image.open(found.views.files[0]))
    assert views.shape[:2] == (found.views.rows * found.views.side, found.views.columns * found.views.side)
    assert (found.views.rows, found.views.columns) == (6, 3)


def test_as_many_clusters_as_classes(tmp_path):
    write_weights(tmp_path)
    write_sample(tmp_path, SOURCE, items=60)
    assert set(read_sample(tmp_path).clusters) == {0, 1, 2}


def test_a_sample_is_replaced_whole_and_a_failure_keeps_the_old_one(tmp_path, monkeypatch):
    write_weights(tmp_path)
    write_sample(tmp_path, SOURCE, items=10)
    write_sample(tmp_path, SOURCE, items=12)
    assert len(read_sample(tmp_path).names) == 12

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(DataError, match="No space left"):
        write_sample(tmp_path, SOURCE, items=14)
    monkeypatch.undo()
    assert len(read_sample(tmp_path).names) == 12
    assert [path.name for path in tmp_path.glob(".sample*")] == []


def test_a_run_without_a_head_has_no_projections(tmp_path):
    write_weights(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "method_settings": {}}))
    write_sample(tmp_path, SOURCE, items=10)
    found = read_sample(tmp_path)
    assert found.first_view is None
    assert found.second_view is None
    assert found.prototypes is None


def test_bad_input_is_refused_with_its_reason(tmp_path):
    write_weights(tmp_path)
    assert read_sample(tmp_path) is None
    with pytest.raises(SettingError, match="3 to 20,000 items; got 2"):
        write_sample(tmp_path, SOURCE, items=2)
    with pytest.raises(DataError, match="at least 3 images"):
        write_sample(tmp_path, ArraySource(IMAGES[:2]))
    write_sample(tmp_path, SOURCE, items=10)
    np.save(tmp_path / "sample" / "labels.npy", LABELS[:4])
    with pytest.raises(DataError, match=r"parts have .* rows; delete it"):
        read_sample(tmp_path)
