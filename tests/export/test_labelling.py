"""An encoder with a head on it, in onnxruntime: the probabilities that Python gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenview.data import open_source
from eigenview.errors import DataError, SettingError
from eigenview.export import export
from eigenview.labels import Labeller, spread_labels
from eigenview.labels.label_files import numbered
from eigenview.runs import open_encoder
from eigenview.search import embed, open_embeddings
from eigenview.views import CentreView
from tests.search.encoders import VIEW, small_encoder, write_pictures

NAMES = [f"{number:02d}.png" for number in range(16)]


@pytest.fixture(scope="module")
def labeller(tmp_path_factory: pytest.TempPathFactory) -> Labeller:
    """Made on the vectors of ``small_encoder()``."""
    folder = tmp_path_factory.mktemp("labelled")
    write_pictures(folder / "pictures", NAMES)
    stored = open_embeddings(embed(small_encoder(), folder / "pictures", folder / "out.npy", view=VIEW, workers=0).path)
    return spread_labels(stored, numbered({0: "fox", 1: "hen", 2: "owl", 9: "hen"}, len(stored))).labeller


def test_onnxruntime_gives_the_probabilities_of_the_classes(labeller: Labeller, tmp_path: Path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    file = labeller.save(tmp_path / "kept.safetensors")
    made = export(small_encoder(), "onnx", tmp_path / "out.onnx", view=VIEW, head=file)
    assert made.card.classes == ("fox", "hen", "owl")
    session = onnxruntime.InferenceSession(str(made.path), providers=["CPUExecutionProvider"])
    images = torch.rand(5, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    (theirs,) = session.run(["probabilities"], {"images": images.numpy()})
    with torch.no_grad():
        ours = labeller.probabilities(small_encoder().eval()(images))
    assert np.allclose(theirs.sum(axis=1), 1, atol=1e-5)
    assert np.allclose(theirs, ours.numpy(), atol=1e-4)


def test_an_export_with_a_head_leaves_the_one_without(tmp_path: Path):
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    pictures = write_pictures(tmp_path / "pictures", NAMES)
    run = open_encoder("small", open_source(pictures), tmp_path / "run")
    stored = open_embeddings(embed(run, pictures, workers=0).path)
    plain = export(tmp_path / "run", "onnx").path
    content = plain.read_bytes()
    head = spread_labels(stored, numbered({0: "fox", 1: "hen", 2: "owl", 9: "hen"}, len(stored))).labeller
    assert export(tmp_path / "run", "onnx", head=head).path == tmp_path / "run/export/classifier.onnx"
    assert plain.read_bytes() == content


def test_a_head_on_another_encoder_or_view_or_for_another_format_is_refused(labeller: Labeller, tmp_path: Path):
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    with pytest.raises(DataError, match=r"this head reads vectors of .*, not of this encoder"):
        export(small_encoder(seed=1), "onnx", tmp_path / "out.onnx", view=VIEW, head=labeller)
    with pytest.raises(DataError, match=r"sees them at resize=32, size=32: export the run whose embeddings"):
        export(small_encoder(), "onnx", tmp_path / "out.onnx", view=CentreView(32, 32), head=labeller)
    with pytest.raises(SettingError, match="a head goes with the encoder to onnx alone; got safetensors"):
        export(small_encoder(), "safetensors", tmp_path / "out.safetensors", view=VIEW, head=labeller)
    assert list(tmp_path.iterdir()) == []
