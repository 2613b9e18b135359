"""The settings of an encoder."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from eigenview.nn.build import EFFICIENTNET, build_encoder, library_of, load_encoder
from eigenview.nn.encoder import Encoder
from eigenview.nn.inputs import EncoderFacts, LoadedEncoder
from eigenview.nn.normalization import Normalization
from eigenview.nn.resnet import Stem
from eigenview.nn.text import TextEncoder, build_text_encoder
from eigenview.nn.tokens import Tokenizer
from eigenview.settings import Strict


class EncoderSettings(Strict):
    name: str = "small"  # one of nn.ENCODERS, LIBRARY:NAME (timm, torchvision, hf, open_clip), or module:attribute
    width: float = Field(1.0, gt=0, le=16)
    stem: Literal["auto", Stem] = "auto"
    normalization: Normalization = "batch"
    freezes_patches: bool = False  # vit-…: the projection of the patches stays random (MoCo v3)
    weights: str | None = None  # to start from: a run directory, a safetensors file or a torch state dict
    config: str = ""  # hf: the model's config.json, kept in the run so that it opens without a hub
    frozen_blocks: int = Field(0, ge=0)  # from its input on, that do not learn
    statistics: Literal["adapted", "kept"] = "adapted"  # of its batch norms: of the batches seen, or as they began
    locked: bool = False  # it does not learn, and its features are computed once (LiT); for methods of one view
    pretrained: bool = True  # start from the weights of its makers, where there are some and no others are given

    def build(self, *, channels: int, image_size: int) -> Encoder:
        """The encoder, with random weights drawn from the global generator."""
        return build_encoder(self.name, channels=channels, image_size=image_size, config=self.config, **self._options())

    def built_as(self, facts: EncoderFacts) -> EncoderSettings:
        """With all that is needed to build again what was loaded."""
        return self.model_copy(update={"config": facts.config}) if facts.config else self

    @property
    def brings_input(self) -> bool:
        """Whether its makers say how its images must look: size, crop, mean, deviation."""
        return self.name == EFFICIENTNET or bool(library_of(self.name))

    def load(self, *, channels: int, image_size: int | None) -> LoadedEncoder:
        """The encoder with its starting weights: from a file, of its makers, or random where it has none."""
        start = {"weights": self.weights, "pretrained": self.pretrained, **self._options()}
        return load_encoder(self.name, channels=channels, image_size=image_size, **start)

    def _options(self) -> dict[str, Any]:
        return self.model_dump(include={"width", "stem", "normalization", "freezes_patches"})


class TextSettings(Strict):
    name: str = "transformer"  # one of nn.TEXT_ENCODERS, LIBRARY:NAME (hf, open_clip), or module:attribute
    width: int = Field(256, ge=1)  # of ours
    depth: int = Field(4, ge=1)  # blocks of ours
    length: int | None = Field(None, ge=2)  # tokens of a caption that are read; None: by the captions, up to 77
    tokenizer: str | None = None  # a file tokenizer.json; None: the library's own, or byte pairs learnt from captions
    vocabulary: int = Field(8192, ge=300)  # tokens, where they are learnt
    pretrained: bool = True  # a library's: start from the weights of its makers

    def build(self, tokenizer: Tokenizer, *, pretrained: bool = False, config: str = "") -> TextEncoder:
        """The text encoder, with random weights drawn from the global generator unless ``pretrained``."""
        sizes = {"width": self.width, "depth": self.depth}
        return build_text_encoder(self.name, tokenizer, pretrained=pretrained, config=config, **sizes)
