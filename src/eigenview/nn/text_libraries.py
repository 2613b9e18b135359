"""Text sides of transformers' and open_clip's models, by the names of their image sides, with their tokenizers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from eigenview.errors import DataError, SettingError
from eigenview.nn.hugging_face import asking, built, config_text
from eigenview.nn.libraries import check_model, hugging_face_hub, library, loading
from eigenview.nn.open_clip_models import whole_model
from eigenview.nn.text import TextEncoder
from eigenview.nn.tokens import MOST, PADDING, Tokenizer, open_clip_tokenizer

LIBRARIES = ("hf", "open_clip")


def text_library(name: str) -> str:
    """The library of ``LIBRARY:MODEL``; empty where a name is none such."""
    library_name, _, model = name.partition(":")
    return library_name if model and library_name in LIBRARIES else ""


class HuggingFaceText(TextEncoder):
    """Tokens → the text embedding of CLIP or SigLIP; of any other model the mean of its last states over tokens."""

    def __init__(self, model: nn.Module, config: Any) -> None:
        super().__init__()
        if hasattr(getattr(model, "pooler", None), "dense"):
            model.pooler = None  # type: ignore[assignment]
        own: Any = model.config
        self.model, self.config = model, config_text(config)
        self.length = positions(own)
        self.padding = own.pad_token_id if isinstance(getattr(own, "pad_token_id", None), int) else 0
        self.output = {"clip": "text_embeds", "siglip": "pooler_output"}.get(config.model_type)
        self.is_filled = config.model_type == "siglip"  # it was trained on rows filled up, and reads the filling
        width = own.projection_dim if config.model_type == "clip" else own.hidden_size
        self.feature_width = int(own.projection_size if config.model_type == "siglip" else width)

    def forward(self, tokens: Tensor) -> Tensor:
        is_word = tokens != PADDING
        if self.is_filled:
            missing = self.length - tokens.shape[1]
            ids = pad(torch.where(is_word, tokens - 1, self.padding), (0, missing), value=self.padding)
            answer = self.model(input_ids=ids)
        else:
            ids = torch.where(is_word, tokens - 1, self.padding)
            answer = self.model(input_ids=ids, attention_mask=is_word.long())
        if self.output is not None:
            return getattr(answer, self.output)  # type: ignore[no-any-return]
        share = is_word.to(answer.last_hidden_state.dtype) / is_word.sum(dim=1, keepdim=True).clamp_min(1)
        pooled: Tensor = (answer.last_hidden_state * share[:, :, None]).sum(dim=1)
        return pooled


class OpenClipText(TextEncoder):
    """Tokens → the text embedding of an open_clip model, which reads rows of one length, filled up with 0."""

    def __init__(self, model: Any, length: int, width: int) -> None:
        super().__init__()
        for name in ("visual", "logit_scale", "logit_bias"):  # the other tower, and what belongs to neither
            if hasattr(model, name):
                setattr(model, name, None)
        self.model, self.length, self.feature_width = model, length, width

    def forward(self, tokens: Tensor) -> Tensor:
        ids = pad((tokens - 1).clamp_min(0), (0, self.length - tokens.shape[1]))
        return self.model.encode_text(ids)  # type: ignore[no-any-return]


def positions(config: Any) -> int:
    """How many tokens a model of transformers reads; those of RoBERTa's kind number them from behind the padding."""
    count = getattr(config, "max_position_embeddings", None) or MOST
    is_behind = config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet")
    return int(count) - (config.pad_token_id + 1 if is_behind else 0)


def library_tokens(name: str) -> Tokenizer:
    """The tokenizer of ``LIBRARY:MODEL``, which reads as many tokens of a text as the model can."""
    library_name, _, model = name.partition(":")
    if library_name == "open_clip":
        open_clip, model_name = library("open_clip", name), model.partition("/")[0]
        check_model(model_name, open_clip.list_models(), "open_clip")
        with loading(name, hub=hugging_face_hub()):
            theirs = open_clip.get_tokenizer(model_name)
        return open_clip_tokenizer(theirs, name)
    with asking(model, asks=True) as transformers:
        theirs = transformers.AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        config = transformers.AutoConfig.from_pretrained(model, trust_remote_code=False)
    inner = getattr(theirs, "backend_tokenizer", None)
    if inner is None:
        raise DataError(f"the tokenizer of {name} has no tokenizer.json, which is what is read here")
    longest = min(positions(getattr(config, "text_config", config)), theirs.model_max_length)
    return Tokenizer(inner.to_str(), place=name).reading(longest)


def library_text(name: str, tokenizer: Tokenizer, *, pretrained: bool, config: str = "") -> TextEncoder:
    """The text side of ``LIBRARY:MODEL``; ``config`` is that of an hf model, where it was kept."""
    library_name, _, model = name.partition(":")
    encoder: HuggingFaceText | OpenClipText
    if library_name == "open_clip":
        whole, _ = whole_model(model, pretrained=pretrained)
        side = whole if hasattr(whole, "context_length") else whole.text
        with torch.no_grad():
            width = whole.encode_text(torch.zeros(1, side.context_length, dtype=torch.long)).shape[1]
        encoder = OpenClipText(whole, side.context_length, width)
    else:
        with asking(model, asks=pretrained or not config) as transformers:
            theirs, read = built(transformers, model, "text", pretrained=pretrained, config=config)
        if not hasattr(theirs.config, "vocab_size") or getattr(read, "is_encoder_decoder", False):
            raise SettingError(f"{name} ({read.model_type}) is no encoder of text; give one such as BERT or CLIP")
        encoder = HuggingFaceText(theirs, read)
    if tokenizer.length is None or tokenizer.length > encoder.length:
        raise SettingError(f"{name} reads up to {encoder.length} tokens; got length {tokenizer.length}")
    return encoder
