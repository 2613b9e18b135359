"""Vision transformers: the formula, positions that stretch, layers by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError
from eigenview.nn import build_encoder, load_weights
from eigenview.nn.vit import fitted_positions, stretch_positions


def tiny(size: int = 16, **options: object):
    torch.manual_seed(0)
    encoder = build_encoder("vit-tiny", width=0.34, image_size=size, **options).double().eval()
    encoder.blocks = encoder.blocks[:2]
    for value in encoder.parameters():  # norms and biases that matter
        value.data += 0.1 * torch.randn_like(value)
    return encoder


def test_it_is_its_formula():
    encoder, images = tiny(), torch.randn(2, 3, 16, 16, dtype=torch.float64)
    state, width, patch = encoder.state_dict(), encoder.feature_width, 4
    assert (width, encoder.patch) == (64, 4)

    def linear(rows, name):
        return rows @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(rows, name):
        rows = (rows - rows.mean(-1, keepdim=True)) / (rows.var(-1, keepdim=True, unbiased=False) + 1e-6).sqrt()
        return rows * state[f"{name}.weight"] + state[f"{name}.bias"]

    for number, image in enumerate(images):
        corners = [(row, column) for row in range(0, 16, patch) for column in range(0, 16, patch)]
        kernel, bias = state["patch_embed.proj.weight"].flatten(1), state["patch_embed.proj.bias"]
        rows = [image[:, r : r + patch, c : c + patch].reshape(-1) @ kernel.T + bias for r, c in corners]
        tokens = torch.stack([state["cls_token"][0, 0], *rows]) + state["pos_embed"][0]
        for block in range(2):
            at = f"blocks.{block}"
            query, key, value = linear(norm(tokens, f"{at}.norm1"), f"{at}.attn.qkv").chunk(3, dim=1)
            mixed = torch.softmax(query @ key.T / width**0.5, dim=1) @ value  # one head
            tokens = tokens + linear(mixed, f"{at}.attn.proj")
            hidden = nn.functional.gelu(linear(norm(tokens, f"{at}.norm2"), f"{at}.mlp.fc1"))
            tokens = tokens + linear(hidden, f"{at}.mlp.fc2")
        last = norm(tokens, "norm")
        outputs = encoder.features(images, ["cls", "mean", "pooled", "norm", "block2"])
        torch.testing.assert_close(outputs["cls"][number], last[0])
        torch.testing.assert_close(outputs["pooled"][number], last[0])
        torch.testing.assert_close(outputs["mean"][number], last[1:].mean(0))
        torch.testing.assert_close(outputs["norm"][number].flatten(1).T, last[1:])
        torch.testing.assert_close(outputs["block2"][number, :, 1, 2], tokens[1 + 4 + 2])
    torch.testing.assert_close(encoder(images), outputs["pooled"])


@pytest.mark.parametrize(
    ("size", "patch", "patches"), [(8, 4, 4), (32, 4, 64), (64, 8, 64), (96, 8, 144), (224, 16, 196)]
)
def test_the_patch_goes_by_the_image_size(size, patch, patches):
    with torch.device("meta"):
        encoder = build_encoder("vit-small", image_size=size)
    assert encoder.patch == patch
    assert encoder.pos_embed.shape == (1, 1 + patches, 384)


def test_it_has_the_published_numbers_of_parameters():
    for name, parameters in (("vit-tiny", 5_717_416 - 193_000), ("vit-small", 22_050_664 - 385_000)):
        with torch.device("meta"):
            encoder = build_encoder(name)
        assert sum(value.numel() for value in encoder.parameters()) == parameters


def test_other_sizes_work_and_smooth_positions_stay_smooth():
    encoder = tiny(16)
    with torch.no_grad():
        encoder.pos_embed[:] = 0.5  # the same everywhere, on any grid
    flat = stretch_positions(encoder.pos_embed, 7, 3)
    torch.testing.assert_close(flat, torch.full((1, 22, 64), 0.5, dtype=torch.float64))
    for height, width in ((16, 16), (24, 12), (17, 30)):
        maps = encoder.features(torch.randn(1, 3, height, width, dtype=torch.float64), ["block1", "pooled"])
        assert maps["block1"].shape[2:] == (-(-height // 4), -(-width // 4))
        assert bool(torch.isfinite(maps["pooled"]).all())
    padded = torch.zeros(1, 3, 20, 32, dtype=torch.float64)
    padded[:, :, :17, :30] = torch.randn(3, 17, 30, dtype=torch.float64)
    torch.testing.assert_close(encoder(padded[:, :, :17, :30]), encoder(padded))


def test_weights_of_another_size_come_with_their_positions_stretched(tmp_path):
    small, large = tiny(16), tiny(32)
    torch.save(small.state_dict(), tmp_path / "small.pth")
    load_weights(large, tmp_path / "small.pth")
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(large(images), small(images), rtol=1e-5, atol=1e-5)  # stretched in float32
    ordinary = torch.randn(1, 5, 8)
    assert fitted_positions("pos_embed", ordinary, (1, 5, 9)) is ordinary  # another width: for others to refuse
    assert fitted_positions("blocks.0.weight", ordinary, (1, 10, 8)) is ordinary
    assert fitted_positions("pos_embed", ordinary, (1, 7, 8)) is ordinary  # no grid has 6 patches


def test_frozen_patches_do_not_learn():
    encoder = tiny(freezes_patches=True).train()
    encoder(torch.randn(2, 3, 16, 16, dtype=torch.float64)).square().sum().backward()
    frozen = [name for name, value in encoder.named_parameters() if value.grad is None]
    assert frozen == ["patch_embed.proj.weight", "patch_embed.proj.bias"]


def test_options_of_others_are_refused():
    with pytest.raises(SettingError, match=r"normalises each token by itself \(layer norm\)"):
        build_encoder("vit-tiny", normalization="group")
    with pytest.raises(SettingError, match="freezes_patches belongs to the transformers"):
        build_encoder("small", freezes_patches=True)
    with pytest.raises(SettingError, match="belong to the ResNets"):
        build_encoder("vit-tiny", stem="cifar")
