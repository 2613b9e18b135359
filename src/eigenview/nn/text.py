"""Text encoders, the twin of the image encoders: rows of tokens → pooled features. Ours, and other libraries'."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.names import Table, is_code, own_code
from eigenview.nn.hugging_face import asking, built, config_text
from eigenview.nn.image_models import whole_model
from eigenview.nn.libraries import check_model, hugging_face_hub, library, loading
from eigenview.nn.tokens import MOST, PADDING, Tokenizer, open_clip_tokenizer
from eigenview.nn.vit import EPSILON, HEAD_WIDTH, Block

LIBRARIES = ("hf", "open_clip")


class TextEncoder(nn.Module, ABC):
    """Tokens (n, l), filled up with ``PADDING`` → features (n, ``feature_width``)."""

    feature_width: int
    config: str = ""  # what a library needs beside its name to build it again

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor: ...


class TextTransformer(TextEncoder):
    """Tokens and learnt positions, ``depth`` blocks in which all tokens see all, a layer norm, the mean over tokens.

    Padding is seen by nobody and counts for nothing: a text has the same features in any batch.
    """

    def __init__(self, vocabulary: int, length: int, *, width: int = 256, depth: int = 4) -> None:
        super().__init__()
        if min(vocabulary, length, width, depth) < 1 or (width > HEAD_WIDTH and width % HEAD_WIDTH):
            raise SettingError(
                f"a text transformer has a width up to {HEAD_WIDTH} or a multiple of it, and at least one token, "
                f"position and block; got width {width}, {vocabulary} tokens, {length} positions, {depth} blocks"
            )
        self.feature_width, self.length = width, length
        self.token_embed = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.pos_embed = nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.ModuleList(Block(width, max(1, width // HEAD_WIDTH)) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """Small normal weights as CLIP's, zero biases."""
        nn.init.normal_(self.token_embed.weight[PADDING + 1 :], std=0.02)
        nn.init.normal_(self.pos_embed, std=0.01)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or tokens.shape[1] > self.length:
            raise ShapeError(f"this text encoder takes tokens (n, up to {self.length}); got {tuple(tokens.shape)}")
        is_word = tokens != PADDING
        rows = self.token_embed(tokens) + self.pos_embed[:, : tokens.shape[1]]
        for block in self.blocks:
            rows = block(rows, is_word[:, None, None, :])
        share = is_word.to(rows.dtype) / is_word.sum(dim=1, keepdim=True).clamp_min(1)
        pooled: Tensor = (self.norm(rows) * share[:, :, None]).sum(dim=1)
        return pooled


def by_length(encoder: Callable[[Tensor], Tensor], tokens: Tensor, *, rows: int = 64) -> Tensor:
    """The features of all texts, those of like length together: on a CPU nobody computes with half a batch of padding.

    On other devices all at once.
    """
    if tokens.device.type != "cpu" or len(tokens) <= rows:
        return encoder(tokens)
    lengths, order = (tokens != PADDING).sum(dim=1).sort(stable=True)
    pieces = [
        encoder(tokens[places][:, : int(longest[-1])])
        for places, longest in zip(torch.split(order, rows), torch.split(lengths, rows), strict=True)
    ]
    return torch.cat(pieces)[order.argsort()]


class TextTower(nn.Module):
    """Texts → vectors (n, d) of length 1, beside those of images: tokenizer, encoder and head."""

    def __init__(self, tokenizer: Tokenizer, encoder: TextEncoder, head: nn.Module) -> None:
        super().__init__()
        self.tokenizer, self.encoder, self.head = tokenizer, encoder, head

    def forward(self, tokens: Tensor) -> Tensor:
        return normalize(self.head(self.encoder(tokens)), dim=1)

    @torch.no_grad()
    def embed(self, texts: Sequence[str], *, at_once: int = 512) -> Tensor:
        """(n, d) float32 on the CPU, in the order of the texts; equal texts have equal vectors, to the last bit."""
        device = next(self.parameters(), torch.empty(0)).device
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        distinct = list(places)
        rows = [
            self(self.tokenizer(distinct[start : start + at_once]).to(device)).float().cpu()
            for start in range(0, len(distinct), at_once)
        ]
        return torch.cat(rows)[[places[text] for text in texts]]


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
    code = own_code(name, kind="text encoder", known=LIBRARIES)
    built = code(**sizes) if callable(code) else code
    if not isinstance(built, nn.Module) or not isinstance(getattr(built, "feature_width", None), int):
        raise SettingError(f"{name} must build an nn.Module with feature_width; got {type(built).__name__}")
    return built  # type: ignore[return-value]
