"""Text encoders by name: the one way to get one."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from eigenview.errors import SettingError
from eigenview.names import Table, is_code, own_code
from eigenview.nn.text import TextEncoder, TextTransformer
from eigenview.nn.text_libraries import library_text, text_library
from eigenview.nn.tokens import Tokenizer

TEXT_ENCODERS: Table[Callable[..., TextEncoder]] = Table(
    "text encoder",
    {"transformer": TextTransformer},
    more=", hf:NAME_OR_FOLDER, open_clip:NAME/TAG, or module:attribute of your own",
)


def build_text_encoder(
    name: str, tokenizer: Tokenizer, *, width: int, depth: int, pretrained: bool = False, config: str = ""
) -> TextEncoder:
    """The text encoder called ``name`` for the tokens of ``tokenizer``; ``width`` and ``depth`` are those of ours.

    ``hf:NAME_OR_FOLDER`` and ``open_clip:NAME/TAG`` are the text sides of those models, with their makers' weights if
    ``pretrained``; ``config`` is an hf model's config.json, where it was kept. ``module:attribute`` of a user's own is
    called with ``vocabulary`` and ``length``, and has ``feature_width``. Ours has random weights.
    """
    if tokenizer.length is None:
        raise SettingError("a text encoder needs to know how many tokens it reads: tokenizer.reading(length)")
    if text_library(name):
        return library_text(name, tokenizer, pretrained=pretrained, config=config)
    sizes = {"vocabulary": tokenizer.vocabulary, "length": tokenizer.length}
    if not is_code(name):
        return TEXT_ENCODERS.find(name)(**sizes, width=width, depth=depth)
    code = own_code(name, kind="text encoder")
    built = code(**sizes) if callable(code) else code
    if not isinstance(built, nn.Module) or not isinstance(getattr(built, "feature_width", None), int):
        raise SettingError(f"{name} must build an nn.Module with feature_width; got {type(built).__name__}")
    return built  # type: ignore[return-value]
