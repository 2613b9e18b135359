"""Which architecture of torchvision and timm an encoder is, or why it is none of theirs."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eigenview.errors import SettingError
from eigenview.nn import ENCODERS, EfficientNetLite0, Encoder, ResNet, VisionTransformer, build_encoder

ARCHITECTURES = tuple(name for name in ENCODERS if name.startswith(("resnet", "resnext")))  # both libraries' names
TIMM = {  # what timm alone has
    "vit-tiny": "vit_tiny_patch16_224",
    "vit-small": "vit_small_patch16_224",
    "efficientnet-lite0": "tf_efficientnet_lite0",
}
Shapes = dict[str, tuple[int, ...]]


def architecture_of(encoder: Encoder, library: str) -> str:
    """The name of the model of ``library`` that holds these weights: same names, same shapes, same computation.

    Both libraries share our ResNets' parameter names, and timm those of the transformers (:func:`options_of` says how
    they are made there) and of EfficientNet-lite0; the classifier is theirs alone. What they cannot hold is refused
    with the reason: another stem, width, normalisation, number of channels or kind of encoder.
    """
    is_timms = library == "timm" and isinstance(encoder, (VisionTransformer, EfficientNetLite0))
    if not isinstance(encoder, ResNet) and not is_timms:
        kind = type(encoder).__name__
        more = ", vit-… and efficientnet-lite0" if library == "timm" else ""
        raise SettingError(
            f"{library} has no model like this encoder ({kind}), only ResNet, ResNeXt{more} go there: "
            "use safetensors or onnx"
        )
    if encoder.channels != 3:
        raise SettingError(
            f"{library}'s models take 3 channels; this one takes {encoder.channels}: use safetensors or onnx"
        )
    if isinstance(encoder, ResNet):
        return _resnet(encoder, library)
    side = encoder.grid * encoder.patch if isinstance(encoder, VisionTransformer) else None
    shapes = shapes_of(encoder.state_dict())
    for name, theirs in TIMM.items():
        if shapes == expected_shapes(name, image_size=side):
            return theirs
    raise SettingError(
        f"timm has no {type(encoder).__name__} of this width and normalisation, only {', '.join(TIMM.values())}: "
        "use safetensors or onnx"
    )


def options_of(encoder: Encoder) -> dict[str, int]:
    """What ``timm.create_model`` is told beside the name: the sizes that a transformer was built for."""
    if not isinstance(encoder, VisionTransformer):
        return {}
    return {"img_size": encoder.grid * encoder.patch, "patch_size": encoder.patch}


def _resnet(encoder: ResNet, library: str) -> str:
    weights = encoder.state_dict()
    width, _, *kernel = weights["conv1.weight"].shape
    stem = "cifar" if tuple(kernel) != (7, 7) else "stl" if isinstance(encoder.maxpool, nn.Identity) else "imagenet"
    if stem != "imagenet":
        what = "a 3x3 first convolution and no max pool" if stem == "cifar" else "no max pool"
        raise SettingError(
            f"{library}'s ResNets have the stem of large images (7x7, then a max pool); this one has the {stem} stem "
            f"({what}) and would compute something else there: use safetensors or onnx, or train with stem=imagenet"
        )
    if "bn1.running_mean" not in weights:
        raise SettingError(
            f"{library}'s ResNets normalise over the batch; this one by {type(encoder.bn1).__name__}: "
            "use safetensors or onnx"
        )
    shapes = shapes_of(weights)
    for name in ARCHITECTURES:
        if shapes == expected_shapes(name):
            return name
    if width != 64:
        raise SettingError(
            f"{library}'s ResNets begin with 64 channels; this one has {width} (another width): use safetensors or onnx"
        )
    raise SettingError(f"{library} has no ResNet of these depths and groups; it has {', '.join(ARCHITECTURES)}")


def expected_shapes(name: str, *, image_size: int | None = None) -> Shapes:
    """Names and shapes of an architecture, without its classifier; built without memory."""
    stem = {"stem": "imagenet"} if name in ARCHITECTURES else {}
    with torch.device("meta"):
        return shapes_of(build_encoder(name, image_size=image_size, **stem).state_dict())  # type: ignore[arg-type]


def shapes_of(weights: Mapping[str, Tensor]) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}
