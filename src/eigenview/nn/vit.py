"""Vision transformers (Dosovitskiy et al. 2021) whose positions stretch to any image size.

Parameter names and shapes are timm's, so that its weights load and ours load there; the classifier is left out.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad, scaled_dot_product_attention

from eigenview.errors import SettingError
from eigenview.nn.encoder import POOLED, Encoder, Step

SUFFIXES = ("pos_embed", "positional_embedding", "position_embeddings")  # what state dicts call them


def stretch_positions(positions: Tensor, height: int, width: int, *, others: int = 1) -> Tensor:
    """(1, others + g², d) → (1, others + height · width, d): bicubic and antialiased, as timm's.

    The first ``others`` belong to tokens that are no patch, such as the class token, and stay as they are.
    """
    own, patches = positions[:, :others], positions[:, others:]
    grid = math.isqrt(patches.shape[1])
    maps = patches.transpose(1, 2).reshape(1, -1, grid, grid)
    stretched = interpolate(maps, size=(height, width), mode="bicubic", antialias=True, align_corners=False)
    return torch.cat([own, stretched.flatten(2).transpose(1, 2)], dim=1)


def fitted_positions(name: str, stored: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A file's positions at the shape that the module has; any other tensor, and one that cannot fit, unchanged."""
    if not name.endswith(SUFFIXES) or stored.shape == shape or stored.ndim != len(shape) or stored.ndim < 2:
        return stored
    if stored.shape[-1] != shape[-1] or math.prod(stored.shape[:-2]) != 1:
        return stored
    for others in (1, 0):
        before, after = stored.shape[-2] - others, shape[-2] - others
        if all(count > 0 and math.isqrt(count) ** 2 == count for count in (before, after)):
            side = math.isqrt(after)
            rows = stored.float().reshape(1, *stored.shape[-2:])
            return stretch_positions(rows, side, side, others=others).reshape(shape)
    return stored


EPSILON = 1e-6  # of the layer norms
HEAD_WIDTH = 64
MEAN = "mean"
PATCHES = ((40, 4), (112, 8), (10**9, 16))  # (largest image size, pixels of a patch): about 64 to 196 patches


@dataclass(frozen=True)
class Transformer:
    """One row of the papers' table."""

    heads: int  # of 64 channels each
    depth: int = 12


class Attention(nn.Module):
    """Softmax attention of all tokens with all, by ``heads`` shares of the channels."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor, seen: Tensor | None = None) -> Tensor:
        """``seen``, of a shape that broadcasts to (n, heads, l, l): which tokens (last) each token may see."""
        count, length, width = tokens.shape
        split = self.qkv(tokens).view(count, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=seen)
        out: Tensor = self.proj(mixed.transpose(1, 2).reshape(count, length, width))
        return out


class Perceptron(nn.Sequential):
    """Linear, GELU, linear."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(OrderedDict(fc1=nn.Linear(width, hidden), act=nn.GELU(), fc2=nn.Linear(hidden, width)))


class Block(nn.Module):
    """x ↦ x + attention(norm(x)), then the same with the perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=EPSILON)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=EPSILON)
        self.mlp = Perceptron(width, 4 * width)

    def forward(self, tokens: Tensor, seen: Tensor | None = None) -> Tensor:
        tokens = tokens + self.attn(self.norm1(tokens), seen)
        return tokens + self.mlp(self.norm2(tokens))  # type: ignore[no-any-return]


class PatchEmbedding(nn.Sequential):
    """Each patch of ``patch`` × ``patch`` pixels as one token."""

    def __init__(self, channels: int, width: int, patch: int) -> None:
        super().__init__(OrderedDict(proj=nn.Conv2d(channels, width, patch, stride=patch)))


class VisionTransformer(Encoder):
    """Patches, a class token, learnt positions, ``depth`` blocks, a last layer norm.

    Layers: ``patches``, ``block1`` …, ``norm`` as maps (n, d, h, w) of the patches; ``pooled`` = ``cls``, the class
    token after the norm, and ``mean``, the mean of the patches there. The patch goes by ``image_size``: 4 pixels up to
    40, 8 up to 112, else 16. Images of other sizes work too: positions are interpolated, and zeros fill the last
    patches, as timm's ``dynamic_img_size`` and ``dynamic_img_pad`` do. ``freezes_patches``: the projection of the
    patches stays at its random start (MoCo v3).
    """

    aliases = {"cls": POOLED, MEAN: "norm"}  # noqa: RUF012 (as Encoder's)

    def __init__(
        self,
        kind: Transformer,
        *,
        width: float = 1.0,
        channels: int = 3,
        image_size: int | None = None,
        freezes_patches: bool = False,
    ) -> None:
        super().__init__()
        if not 0 < width < math.inf:
            raise SettingError(f"width must be a positive multiplier; got {width}")
        heads = max(1, round(kind.heads * width))
        self.patch = next(patch for largest, patch in PATCHES if (image_size or 224) <= largest)
        self.feature_width, self.channels = HEAD_WIDTH * heads, channels
        self.grid = -(-(image_size or 224) // self.patch)
        self.patch_embed = PatchEmbedding(channels, self.feature_width, self.patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, self.feature_width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + self.grid**2, self.feature_width))
        self.blocks = nn.Sequential(*(Block(self.feature_width, heads) for _ in range(kind.depth)))
        self.norm = nn.LayerNorm(self.feature_width, eps=EPSILON)
        self._start()
        if freezes_patches:
            self.patch_embed.requires_grad_(False)

    @torch.no_grad()
    def _start(self) -> None:
        """Truncated normal weights, zero biases; the patch projection as MoCo v3 starts it."""
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.normal_(self.cls_token, std=1e-6)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        weight, bias = self.patch_embed.parameters()
        reach = math.sqrt(6 / (weight[0].numel() + self.feature_width))
        nn.init.uniform_(weight, -reach, reach)
        nn.init.zeros_(bias)

    def steps(self) -> list[Step]:
        blocks: list[Step] = [(f"block{number}", block) for number, block in enumerate(self.blocks, start=1)]
        return [("patches", self._tokens), *blocks, ("norm", self.norm), (POOLED, lambda tokens: tokens[:, 0])]

    def features(self, images: Tensor, layers: Sequence[str] = (POOLED,)) -> dict[str, Tensor]:
        features = super().features(images, layers)
        height, width = (-(-side // self.patch) for side in images.shape[2:])
        for name, rows in features.items():
            if name == MEAN:
                features[name] = rows[:, 1:].mean(dim=1)
            elif rows.ndim == 3:
                features[name] = rows[:, 1:].transpose(1, 2).reshape(rows.shape[0], -1, height, width)
        return features

    def _tokens(self, images: Tensor) -> Tensor:
        height, width = (-side % self.patch for side in images.shape[2:])
        maps = self.patch_embed(pad(images, (0, width, 0, height)) if height or width else images)
        patches = maps.flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(images.shape[0], -1, -1), patches], dim=1)
        is_own = maps.shape[2:] == (self.grid, self.grid)
        return tokens + (self.pos_embed if is_own else stretch_positions(self.pos_embed, *maps.shape[2:]))
