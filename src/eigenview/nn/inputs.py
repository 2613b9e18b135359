"""How an encoder wants its images, as its makers trained it, and what was loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from eigenview.errors import SettingError
from eigenview.nn.encoder import Encoder

Interpolation = Literal["bilinear", "bicubic"]
RANDOM = "random"  # where no weights were loaded


@dataclass(frozen=True)
class InputSpec:
    """Images floating (n, channels, size, size), (pixel / 255 − mean) / std.

    Before that the shorter side is resized to ``resize`` (both are, whatever the shape, if ``is_squashed``) and the
    central square kept; of an odd margin half a pixel is rounded as torchvision does, or down if ``rounds_down``.
    ``is_exact``: as its library does it, to a grey level; otherwise large JPEGs may be decoded at a part of their size,
    which is faster. ``is_flexible``: the encoder takes other sizes too, as it is.
    """

    size: int
    resize: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: Interpolation = "bicubic"
    is_squashed: bool = False
    rounds_down: bool = False
    is_exact: bool = True
    is_flexible: bool = False

    def at(self, size: int | None) -> InputSpec:
        """The same at another size: the margin that is cut off stays in proportion."""
        return self if size is None else replace(self, size=size, resize=round(size * self.resize / self.size))


def interpolation_named(name: str, encoder: str) -> Interpolation:
    """``bilinear`` or ``bicubic`` of a library's word for it; anything else is refused."""
    if name == "bilinear":
        return "bilinear"
    if name == "bicubic":
        return "bicubic"
    raise SettingError(
        f"{encoder} resizes its images by {name}, and here are bilinear and bicubic: "
        "compute its vectors with its own library and give the file of them"
    )


@dataclass(frozen=True)
class EncoderFacts:
    """What was loaded, for the run and the embeddings."""

    name: str
    library: str  # with its version
    weights: str = RANDOM  # or where they came from
    digest: str = ""  # SHA-256 of the file of weights, or of the tensors where a library fetched them
    config: str = ""  # hf: the model's config.json, by which ``build_encoder`` builds it again without a hub


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder in eval mode. ``input`` is None where nobody said how its images must look."""

    encoder: Encoder
    input: InputSpec | None
    facts: EncoderFacts
