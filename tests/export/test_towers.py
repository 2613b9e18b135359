"""Both towers of a run on captions: what loads back computes the same, for any number of texts of any length."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from eigenview.errors import DataError
from eigenview.export.towers import export_towers
from eigenview.nn import Tokenizer
from eigenview.runs import open_run
from tests.training.runs import run_quietly, settings


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "words"
    run_quietly(settings("clip", folder))
    return open_run(folder)


def test_safetensors_hold_both_towers_and_the_tokenizer(run, tmp_path):
    made = export_towers(run, "safetensors", tmp_path)
    text = load_file(made.text)
    assert all(torch.equal(text[name], tensor) for name, tensor in run.needed_text().state_dict().items())
    image = load_file(made.image)
    assert all(torch.equal(image[f"head.{name}"], tensor) for name, tensor in run.head.state_dict().items())
    assert all(torch.equal(image[f"encoder.{name}"], tensor) for name, tensor in run.encoder.state_dict().items())
    assert Tokenizer(made.tokenizer.read_text()).text == run.directory.tokenizer.text


def test_onnx_computes_the_same_for_texts_of_any_length(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    made = export_towers(run, "onnx", tmp_path)
    assert made.difference <= 1e-4
    session = onnxruntime.InferenceSession(str(made.text), providers=["CPUExecutionProvider"])
    tokens = Tokenizer(made.tokenizer.read_text())
    for texts in (["a red disc"], ["a star", "a blue ring on a green background", "a"]):
        (rows,) = session.run(["embeddings"], {"tokens": tokens(texts).numpy()})
        torch.testing.assert_close(torch.from_numpy(rows), run.needed_text().embed(texts), rtol=1e-4, atol=1e-5)


def test_a_run_without_words_has_no_towers(tmp_path):
    run_quietly(settings("simclr", tmp_path / "run"))
    with pytest.raises(DataError, match="knows no words"):
        export_towers(open_run(tmp_path / "run"), "safetensors")
