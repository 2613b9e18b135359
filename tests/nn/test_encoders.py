"""Encoders: torchvision's names, the papers' shapes, features by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError, ShapeError
from eigenview.nn import ENCODERS, build_encoder
from eigenview.nn.alexnet import SmallAlexNet

Shapes = dict[str, tuple[int, ...]]


def norm_names(prefix: str, channels: int) -> Shapes:
    vectors: Shapes = {f"{prefix}.{name}": (channels,) for name in ("weight", "bias", "running_mean", "running_var")}
    return vectors | {f"{prefix}.num_batches_tracked": ()}


def torchvision_shapes(depths: list[int], *, bottleneck: bool, groups: int = 1, group_width: int = 64) -> Shapes:
    """Names and shapes of torchvision's ResNet state dict without fc, written from its published layout."""
    shapes = {"conv1.weight": (64, 3, 7, 7)} | norm_names("bn1", 64)
    incoming = 64
    for stage, (depth, planes) in enumerate(zip(depths, [64, 128, 256, 512], strict=True), start=1):
        outgoing = planes * 4 if bottleneck else planes
        inner = planes * group_width // 64 * groups
        for block in range(depth):
            at = f"layer{stage}.{block}"
            if bottleneck:
                shapes[f"{at}.conv1.weight"] = (inner, incoming, 1, 1)
                shapes[f"{at}.conv2.weight"] = (inner, inner // groups, 3, 3)
                shapes[f"{at}.conv3.weight"] = (outgoing, inner, 1, 1)
                widths = [inner, inner, outgoing]
            else:
                shapes[f"{at}.conv1.weight"] = (planes, incoming, 3, 3)
                shapes[f"{at}.conv2.weight"] = (planes, planes, 3, 3)
                widths = [planes, planes]
            for number, width in enumerate(widths, start=1):
                shapes |= norm_names(f"{at}.bn{number}", width)
            if block == 0 and (stage > 1 or bottleneck):
                shapes[f"{at}.downsample.0.weight"] = (outgoing, incoming, 1, 1)
                shapes |= norm_names(f"{at}.downsample.1", outgoing)
            incoming = outgoing
    return shapes


LAYOUTS = {  # with torchvision's published number of parameters, less fc's
    "resnet18": (torchvision_shapes([2, 2, 2, 2], bottleneck=False), 11_689_512 - 513_000),
    "resnet34": (torchvision_shapes([3, 4, 6, 3], bottleneck=False), 21_797_672 - 513_000),
    "resnet50": (torchvision_shapes([3, 4, 6, 3], bottleneck=True), 25_557_032 - 2_049_000),
    "resnet101": (torchvision_shapes([3, 4, 23, 3], bottleneck=True), 44_549_160 - 2_049_000),
    "resnext50_32x4d": (
        torchvision_shapes([3, 4, 6, 3], bottleneck=True, groups=32, group_width=4),
        25_028_904 - 2_049_000,
    ),
    "resnext101_32x8d": (
        torchvision_shapes([3, 4, 23, 3], bottleneck=True, groups=32, group_width=8),
        88_791_336 - 2_049_000,
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_names_and_shapes_are_torchvisions(name):
    expected, parameters = LAYOUTS[name]
    with torch.device("meta"):
        encoder = build_encoder(name)
    assert {key: tuple(value.shape) for key, value in encoder.state_dict().items()} == expected
    assert sum(value.numel() for value in encoder.parameters()) == parameters


def test_a_basic_block_is_its_formula():
    torch.manual_seed(0)
    encoder = build_encoder("resnet18", width=0.125, stem="cifar").double().eval()
    state = encoder.state_dict()
    maps = torch.randn(2, 8, 6, 6, dtype=torch.float64).relu()

    def conv_norm(rows, at, number, stride):
        out = nn.functional.conv2d(rows, state[f"{at}.conv{number}.weight"], stride=stride, padding=1)
        return out / (1 + 1e-5) ** 0.5  # running statistics are still 0 and 1

    inner = conv_norm(maps, "layer2.0", 1, 2).relu()
    shortcut = maps[:, :, ::2, ::2].permute(0, 2, 3, 1) @ state["layer2.0.downsample.0.weight"][:, :, 0, 0].T
    expected = (conv_norm(inner, "layer2.0", 2, 1) + shortcut.permute(0, 3, 1, 2) / (1 + 1e-5) ** 0.5).relu()
    torch.testing.assert_close(encoder.layer2[0](maps), expected)


@pytest.mark.parametrize(
    ("stem", "sides"),
    [("imagenet", [16, 16, 8, 4, 2]), ("stl", [32, 32, 16, 8, 4]), ("cifar", [64, 64, 32, 16, 8])],
)
def test_stems_differ_in_resolution(stem, sides):
    encoder = build_encoder("resnet18", width=0.125, stem=stem).eval()
    names = ["conv1", "layer1", "layer2", "layer3", "layer4"]
    with torch.no_grad():
        outputs = encoder.features(torch.randn(1, 3, 64, 64), [*names, "conv5", "pooled"])
    assert [outputs[name].shape[-1] for name in names] == sides
    torch.testing.assert_close(outputs["conv5"], outputs["layer4"])
    torch.testing.assert_close(outputs["pooled"], outputs["layer4"].mean(dim=(2, 3)))


@pytest.mark.parametrize(("size", "kernel"), [(32, 3), (48, 3), (64, 7), (96, 7), (224, 7), (None, 7)])
def test_the_automatic_stem_follows_the_image_size(size, kernel):
    with torch.device("meta"):
        encoder = build_encoder("resnet18", image_size=size)
    assert encoder.conv1.kernel_size == (kernel, kernel)
    assert isinstance(encoder.maxpool, nn.MaxPool2d) == (size is None or size > 112)


@pytest.mark.parametrize("name", ENCODERS)
def test_width_multiplies_the_features(name):
    with torch.device("meta"):
        single, double = build_encoder(name), build_encoder(name, width=2)
    assert double.feature_width == single.feature_width * (1 if name == "alexnet" else 2)
    assert sum(p.numel() for p in double.parameters()) > 3 * sum(p.numel() for p in single.parameters())


@pytest.mark.parametrize("normalization", ["batch", "group"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["small", "small-deep", "alexnet", "resnet18", "resnet50", "resnext50_32x4d"])
def test_every_encoder_gives_features_that_learn(name, channels, normalization):
    torch.manual_seed(0)
    encoder = build_encoder(name, width=0.25, channels=channels, normalization=normalization, image_size=16)
    has_batch_norm = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in encoder.modules())
    assert has_batch_norm == (normalization == "batch")
    images = torch.randn(4, channels, 16, 16)
    out = encoder(images)
    assert out.shape == (4, encoder.feature_width)
    out.square().mean().backward()
    dead = [name for name, value in encoder.named_parameters() if not value.grad.abs().sum() > 0]
    assert dead == []
    encoder.eval()
    with torch.no_grad():
        named = encoder.features(images, encoder.layer_names)
    assert tuple(named) == encoder.layer_names
    torch.testing.assert_close(named["pooled"], encoder(images))


@pytest.mark.parametrize("size", [8, 12, 33, 64])
def test_the_small_encoder_takes_small_images_of_any_size(size):
    torch.manual_seed(0)
    features = build_encoder("small")(torch.randn(4, 3, size, size))
    assert features.shape == (4, 256)
    assert bool((features.std(dim=0) > 0).all())


def test_the_deeper_small_encoder_adds_what_its_layers_say():
    torch.manual_seed(0)
    encoder, maps = build_encoder("small-deep", width=0.25).eval(), torch.randn(2, 8, 6, 6)
    convolution, norm, rectified, residual = encoder.conv2
    once = rectified(norm(convolution(maps)))
    inner = torch.relu(residual[1](residual[0](once)))
    torch.testing.assert_close(encoder.conv2(maps), once + inner)
    assert [len(getattr(encoder, f"conv{number}")) for number in (1, 2, 3, 4)] == [3, 4, 4, 3]


def test_group_norm_never_has_groups_of_one_channel():
    encoder = build_encoder("resnet18", width=0.125, normalization="group")
    norms = [module for module in encoder.modules() if isinstance(module, nn.GroupNorm)]
    assert norms
    assert all(norm.num_channels >= 2 * norm.num_groups for norm in norms)


def test_a_zero_start_makes_every_block_the_identity():
    torch.manual_seed(0)
    encoder = build_encoder("resnet18", width=0.125, stem="cifar", zero_init_residual=True)
    maps = torch.randn(2, 8, 5, 5).relu()
    torch.testing.assert_close(encoder.layer1(maps), maps)


def test_the_small_alexnet_is_wang_and_isolas():
    with torch.device("meta"):
        encoder = build_encoder("alexnet")
    shapes = [tuple(value.shape) for name, value in encoder.state_dict().items() if value.ndim > 1]
    convolutions = [(96, 3, 3, 3), (192, 96, 3, 3), (384, 192, 3, 3), (384, 384, 3, 3), (192, 384, 3, 3)]
    assert shapes == [*convolutions, (4096, 192 * 7 * 7), (4096, 4096), (128, 4096)]
    assert not any(name.endswith("bias") for name, _ in encoder.conv1[0].named_parameters())
    assert encoder.layer_names == (
        *(f"conv{number}" for number in range(1, 6)),
        *("fc6", "fc7", "pooled", "output", "fc8"),
    )


def test_the_small_alexnet_starts_with_the_papers_deviation():
    torch.manual_seed(0)
    encoder = SmallAlexNet(width=0.25)
    assert float(encoder.fc6[1].weight.detach().std()) == pytest.approx(0.02, rel=0.01)
    assert float(encoder.conv3[0].weight.detach().std()) == pytest.approx(0.02, rel=0.02)
    outputs = encoder.eval().features(torch.randn(2, 3, 64, 64), ["fc8", "output", "fc7"])
    torch.testing.assert_close(outputs["output"], nn.functional.normalize(outputs["fc8"], dim=1))
    torch.testing.assert_close(outputs["fc8"], encoder.fc8(outputs["fc7"]))


def test_features_stop_at_the_last_layer_asked_for():
    encoder, images = build_encoder("resnet18", width=0.125).eval(), torch.randn(2, 3, 32, 32)
    whole = encoder.features(images, ["layer2", "pooled"])["layer2"]
    encoder.layer3 = nn.Identity()  # would break layer4's number of channels
    torch.testing.assert_close(encoder.features(images, ["layer2"])["layer2"], whole)


def test_an_unknown_layer_is_refused_with_the_known_ones():
    encoder = build_encoder("small", width=0.25)
    images = torch.randn(2, 3, 16, 16)
    with pytest.raises(SettingError, match=r"no layer 'fc7' in this encoder; it has conv1, .*, pooled"):
        encoder.features(images, ["fc7"])
    with pytest.raises(SettingError, match=r"write \['pooled'\]"):
        encoder.features(images, "pooled")
    with pytest.raises(SettingError, match="no layer was asked for"):
        encoder.features(images, [])


def test_wrong_images_are_refused():
    with pytest.raises(ShapeError, match=r"floating images \(n, 3, height, width\); got \(2, 1, 8, 8\)"):
        build_encoder("small")(torch.randn(2, 1, 8, 8))
    with pytest.raises(ShapeError, match="uint8"):
        build_encoder("small")(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(ShapeError, match="built for images of 32 pixels"):
        build_encoder("alexnet", width=0.125, image_size=32)(torch.randn(2, 3, 64, 64))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet_18", {}, "did you mean resnet18"),
        ("vgg", {}, "encoder must be one of small, small-deep, alexnet"),
        ("small", {"stem": "cifar"}, "belong to the ResNets"),
        ("resnet18", {"stem": "tiny"}, "stem must be one of imagenet, stl, cifar; got 'tiny'"),
        ("resnet18", {"width": 0}, "width must be a positive multiplier"),
        ("resnet18", {"channels": 2}, "channels must be 1 or 3"),
        ("resnet18", {"normalization": "layer"}, "normalization must be one of batch, group"),
        ("alexnet", {"image_size": 14}, "at least 15 pixels"),
        ("resnet18", {"image_size": 0}, "at least 1 pixel"),
        ("resnext50_32x4d", {"width": 0.125}, "use a larger width"),
    ],
)
def test_wrong_settings_are_refused(name, options, message):
    with pytest.raises(SettingError, match=message):
        build_encoder(name, **options)
