"""Which architecture of torchvision and timm an encoder is, or why it is none of theirs."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eigenview.errors import SettingError
from eigenview.nn import ENCODERS, Encoder, ResNet, build_encoder

ARCHITECTURES = tuple(name for name in ENCODERS if name.startswith(("resnet", "resnext")))  # both libraries' names
Shapes = dict[str, tuple[int, ...]]


def architecture_of(encoder: Encoder, library: str) -> str:
    """The name of the model of ``library`` that holds these weights: same names, same shapes, same computation.

    Both libraries share our ResNets' parameter names; the classifier ``fc`` is theirs alone. What they cannot hold is
    refused with the reason: another stem, width, normalisation, number of channels or kind of encoder.
    """
    if not isinstance(encoder, ResNet):
        kind = type(encoder).__name__
        raise SettingError(
            f"{library} has no model like this encoder ({kind}), only ResNet and ResNeXt go there: "
            "use safetensors or onnx"
        )
    weights = encoder.state_dict()
    _refuse_differences(encoder, weights, library)
    shapes = shapes_of(weights)
    for name in ARCHITECTURES:
        if shapes == expected_shapes(name):
            return name
    width = weights["conv1.weight"].shape[0]
    if width != 64:
        raise SettingError(
            f"{library}'s ResNets begin with 64 channels; this one has {width} (another width): use safetensors or onnx"
        )
    raise SettingError(f"{library} has no ResNet of these depths and groups; it has {', '.join(ARCHITECTURES)}")


def _refuse_differences(encoder: ResNet, weights: Mapping[str, Tensor], library: str) -> None:
    kernel, channels = weights["conv1.weight"].shape[2:], weights["conv1.weight"].shape[1]
    stem = "cifar" if tuple(kernel) != (7, 7) else "stl" if isinstance(encoder.maxpool, nn.Identity) else "imagenet"
    if stem != "imagenet":
        what = "a 3x3 first convolution and no max pool" if stem == "cifar" else "no max pool"
        raise SettingError(
            f"{library}'s ResNets have the stem of large images (7x7, then a max pool); this one has the {stem} stem "
            f"({what}) and would compute something else there: use safetensors or onnx, or train with stem=imagenet"
        )
    if channels != 3:
        raise SettingError(f"{library}'s ResNets take 3 channels; this one takes {channels}: use safetensors or onnx")
    if "bn1.running_mean" not in weights:
        raise SettingError(
            f"{library}'s ResNets normalise over the batch; this one by {type(encoder.bn1).__name__}: "
            "use safetensors or onnx"
        )


def expected_shapes(name: str) -> Shapes:
    """Names and shapes of an architecture, without its classifier; built without memory."""
    with torch.device("meta"):
        return shapes_of(build_encoder(name, stem="imagenet").state_dict())


def shapes_of(weights: Mapping[str, Tensor]) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}
