"""Text encoders: rows of tokens → pooled features, the twin of the image encoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.errors import SettingError, ShapeError
from eigenview.nn.tokens import PADDING, Tokenizer
from eigenview.nn.vit import EPSILON, HEAD_WIDTH, Block


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
