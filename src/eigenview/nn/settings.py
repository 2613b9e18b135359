"""The settings of an encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from eigenview.nn.build import build_encoder
from eigenview.nn.encoder import Encoder
from eigenview.settings import Strict


class EncoderSettings(Strict):
    name: str = "small"  # one of nn.ENCODERS, LIBRARY:NAME (timm, torchvision, hf, open_clip), or module:attribute
    width: float = Field(1.0, gt=0)
    stem: Literal["auto", "imagenet", "stl", "cifar"] = "auto"
    normalization: Literal["batch", "group"] = "batch"
    freezes_patches: bool = False  # vit-…: the projection of the patches stays random (MoCo v3)
    weights: str | None = None  # to start from: a run directory, a safetensors file or a torch state dict
    config: str = ""  # hf: the model's config.json, kept in the run so that it opens without a hub

    def build(self, *, channels: int, image_size: int) -> Encoder:
        """The encoder, with random weights drawn from the global generator."""
        options = self.model_dump(include={"width", "stem", "normalization", "freezes_patches", "config"})
        return build_encoder(self.name, channels=channels, image_size=image_size, **options)
