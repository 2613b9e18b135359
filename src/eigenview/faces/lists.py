"""What there is by name."""

from __future__ import annotations

from typing import Any

from eigenview.methods import METHODS
from eigenview.names import named_code
from eigenview.nn import ENCODERS, Encoder, build_encoder
from eigenview.views import PRESETS


def list_methods() -> list[str]:
    """The methods that ``train(…, method=…)`` knows by name."""
    return list(METHODS)


def list_encoders() -> list[str]:
    """The encoders of our own; ``LIBRARY:NAME`` (timm, torchvision, hf, open_clip), ``module:attribute`` too."""
    return list(ENCODERS)


def list_views() -> list[str]:
    """The published recipes of views that ``train(…, views=…)`` knows by name; ``auto`` chooses by the images."""
    return list(PRESETS)


def create_encoder(name: str, **options: Any) -> Encoder:
    """The encoder called ``name`` with random weights; ``options`` as ``eigenview.nn.build_encoder`` takes them."""
    with named_code(name):
        return build_encoder(name, **options)
