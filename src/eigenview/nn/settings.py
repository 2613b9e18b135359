"""The settings of an encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from eigenview.nn.build import build_encoder
from eigenview.nn.encoder import Encoder
from eigenview.settings import Strict


class EncoderSettings(Strict):
    name: str = "small"  # one of nn.ENCODERS, timm:NAME, torchvision:NAME, or module:attribute of your own
    width: float = Field(1.0, gt=0)
    stem: Literal["auto", "imagenet", "stl", "cifar"] = "auto"
    normalization: Literal["batch", "group"] = "batch"
    weights: str | None = None  # to start from: a run directory, a safetensors file or a torch state dict

    def build(self, *, channels: int, image_size: int) -> Encoder:
        """The encoder, with random weights drawn from the global generator."""
        options = self.model_dump(include={"width", "stem", "normalization"})
        return build_encoder(self.name, channels=channels, image_size=image_size, **options)
