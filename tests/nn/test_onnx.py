"""Encoders in ONNX files: frozen, equal to what was exported, refused in a line where they are no encoder."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from eigenview.errors import DataError, SettingError
from eigenview.export import export
from eigenview.nn import Encoder, build_encoder, load_encoder
from eigenview.runs import open_named
from eigenview.views import CentreView

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
VIEW = CentreView(
    24, 20, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3), "bicubic", is_squashed=True, rounds_down=True, is_exact=True
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Encoder, Path]:
    torch.manual_seed(0)
    encoder = build_encoder("small", width=0.25).eval()
    return encoder, export(encoder, "onnx", tmp_path_factory.mktemp("onnx") / "small ü.onnx", view=VIEW).path


def test_what_was_exported_comes_back_frozen(exported):
    encoder, file = exported
    loaded = load_encoder(f"onnx:{file}")
    images = torch.randn(5, 3, 20, 20)
    with torch.no_grad():
        torch.testing.assert_close(loaded.encoder(images), encoder(images), rtol=1e-4, atol=1e-5)
        outputs = loaded.encoder.features(images, ["features", "pooled"])
    assert torch.equal(outputs["features"], outputs["pooled"])
    seen = loaded.input
    assert (seen.size, seen.resize, seen.mean, seen.std) == (20, 24, VIEW.mean, VIEW.std)
    assert (seen.interpolation, seen.is_squashed, seen.rounds_down, seen.is_exact) == ("bicubic", True, True, True)
    assert (loaded.facts.weights, len(loaded.facts.digest)) == (file.name, 64)
    assert loaded.encoder.feature_width == encoder.feature_width
    assert not list(loaded.encoder.parameters())
    assert loaded.facts.digest in repr(loaded.encoder)  # by which caches tell encoders apart
    assert copy.deepcopy(loaded.encoder) is loaded.encoder


def test_a_transformer_keeps_the_number_of_images_free(tmp_path):
    torch.manual_seed(0)
    encoder = build_encoder("vit-tiny", width=0.34, image_size=16).eval()
    encoder.blocks = encoder.blocks[:1]
    loaded = load_encoder(f"onnx:{export(encoder, 'onnx', tmp_path / 'vit.onnx', view=CentreView(16, 16)).path}")
    for count in (1, 3):
        images = torch.randn(count, 3, 16, 16)
        with torch.no_grad():
            torch.testing.assert_close(loaded.encoder(images), encoder(images), rtol=1e-4, atol=1e-4)


def of_nodes(
    file: Path, nodes: list[object], inputs: dict[str, list[object]], outputs: dict[str, list[object]]
) -> Path:
    def described(shapes: dict[str, list[object]]) -> list[object]:
        kind = onnx.TensorProto.FLOAT
        return [onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()]

    graph = onnx.helper.make_graph(nodes, "graph", described(inputs), described(outputs))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, file)
    return file


def test_a_foreign_file_of_one_batch_size_and_several_outputs(tmp_path):
    make = onnx.helper.make_node
    nodes = [
        make("Relu", ["x"], ["maps"]),
        make("GlobalAveragePool", ["maps"], ["means"]),
        make("Neg", ["means"], ["negated"]),
    ]
    inputs, outputs = {"x": [2, 3, 8, 8]}, {"negated": [2, 3, 1, 1], "maps": [2, 3, 8, 8]}
    loaded = load_encoder(f"onnx:{of_nodes(tmp_path / 'm.onnx', nodes, inputs, outputs)}")
    assert loaded.input is None
    assert loaded.encoder.layer_names == ("negated", "maps", "pooled")
    images = torch.randn(5, 3, 8, 8)
    measured = loaded.encoder.features(images, ["maps", "pooled"])
    torch.testing.assert_close(measured["maps"], images.relu())
    torch.testing.assert_close(measured["pooled"], -images.relu().mean(dim=(2, 3)))
    with pytest.raises(SettingError, match=r"takes images of 8 pixels; got image_size=9"):
        load_encoder(f"onnx:{tmp_path / 'm.onnx'}", image_size=9)


def test_what_is_no_encoder_is_refused_in_a_line(exported, tmp_path):
    _, file = exported
    (tmp_path / "text.onnx").write_text("text")
    relu = [onnx.helper.make_node("Relu", ["x"], ["y"])]
    flat = of_nodes(tmp_path / "flat.onnx", relu, {"x": [1, 3]}, {"y": [1, 3]})
    deep = of_nodes(tmp_path / "deep.onnx", relu, {"x": [1, 3, 4, 4, 2]}, {"y": [1, 3, 4, 4, 2]})
    reasons = {
        tmp_path / "none.onnx": "no such file",
        tmp_path / "text.onnx": "is no ONNX model that runs here",
        flat: r"must take one batch of images \(n, c, h, w\); it takes x \(1, 3\)",
        deep: "must take one batch of images",
    }
    for given, reason in reasons.items():
        with pytest.raises(DataError, match=reason) as caught:
            load_encoder(f"onnx:{given}")
        assert "\n" not in str(caught.value)
    with pytest.raises(SettingError, match="is frozen: it has no random weights, and it cannot be trained"):
        build_encoder(f"onnx:{file}")
    for to in ("safetensors", "onnx", "timm"):
        with pytest.raises(SettingError, match=r"ü\.onnx holds no module to export: name the run or encoder that it"):
            export(open_named(f"onnx:{file}"), to, file.with_suffix(".other"))
    with pytest.raises(SettingError, match="holds its weights itself"):
        load_encoder(f"onnx:{file}", weights="other.pth")
    with pytest.raises(SettingError, match="takes channels and image_size only"):
        load_encoder(f"onnx:{file}", width=2)
