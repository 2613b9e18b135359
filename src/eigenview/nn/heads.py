"""Projection heads: what stands between the features that are kept and the embeddings that the loss sees.

Each takes the encoder's feature width first and its own widths by name, with the paper's as defaults. Prototypes: unit
vectors that embeddings are scored against, trained (SwAV) or set (DeepCluster-v2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.errors import SettingError, ShapeError
from eigenview.names import Table

OutputNorm = Literal["none", "affine", "no_shift", "plain"]


class MLP(nn.Sequential):
    """Linear layers of the given widths with ReLU (and batch normalisation, if asked) between them.

    ``widths`` (input, hidden …, output). ``output_norm``: ``affine`` has scale and shift, ``no_shift`` a scale only,
    ``plain`` neither. ``hidden_bias`` and ``output_bias`` are the linear layers' own.
    """

    def __init__(
        self,
        *widths: int,
        hidden_norm: bool = False,
        output_norm: OutputNorm = "none",
        hidden_bias: bool = True,
        output_bias: bool = True,
    ) -> None:
        if len(widths) < 2 or min(widths) < 1:
            raise SettingError(f"a head needs an input and an output width of at least 1; got {widths}")
        if output_norm not in get_args(OutputNorm):
            raise SettingError(f"output_norm must be none, affine, no_shift or plain; got {output_norm!r}")
        layers: list[nn.Module] = []
        for incoming, outgoing in pairwise(widths[:-1]):
            layers.append(nn.Linear(incoming, outgoing, bias=hidden_bias))
            if hidden_norm:
                layers.append(nn.BatchNorm1d(outgoing))
            layers.append(nn.ReLU(inplace=True))
        layers.append(nn.Linear(widths[-2], widths[-1], bias=output_bias))
        if output_norm != "none":
            layers.append(nn.BatchNorm1d(widths[-1], affine=output_norm != "plain"))
        if output_norm == "no_shift":
            layers[-1].register_parameter("bias", None)
        super().__init__(*layers)
        self.input_width, self.output_width = widths[0], widths[-1]

    def forward(self, features: Tensor) -> Tensor:
        if features.ndim != 2 or features.shape[1] != self.input_width:
            raise ShapeError(f"this head takes features (n, {self.input_width}); got {tuple(features.shape)}")
        for layer in self:
            features = layer(features)
        return features


class Identity(nn.Module):
    """The features themselves as embeddings."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.input_width = self.output_width = features

    def forward(self, features: Tensor) -> Tensor:
        return features


@dataclass(frozen=True)
class Design:
    """A paper's head: widths and options of an :class:`MLP`, without the features'."""

    hidden: tuple[int | None, ...]  # None: as wide as the features
    output: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, features: int, *, hidden: int | None = None, output: int | None = None) -> MLP:
        """``hidden`` and ``output`` replace the paper's widths."""
        if hidden is not None and not self.hidden:
            raise TypeError("it is one linear layer")
        inner = [hidden or width or features for width in self.hidden]
        return MLP(features, *inner, self.output if output is None else output, **self.options)


def simsiam_predictor(embeddings: int, *, hidden: int = 512) -> MLP:
    """SimSiam's predictor: 512 (batch norm, ReLU), then back to the embeddings' width, without batch norm."""
    return MLP(embeddings, hidden, embeddings, hidden_norm=True, hidden_bias=False)


def clip(features: int, *, output: int = 512) -> MLP:
    """CLIP's projection: one linear layer without bias, N(0, 1/features)."""
    head = MLP(features, output, output_bias=False)
    with torch.no_grad():
        for weight in head.parameters():
            weight.normal_(std=features**-0.5)
    return head


NORMS = {"hidden_norm": True, "output_norm": "affine"}  # batch normalisation after every layer
SIMCLR = {**NORMS, "output_norm": "no_shift", "hidden_bias": False, "output_bias": False}
SIMSIAM = {**SIMCLR, "output_norm": "plain"}  # the last without scale and shift

HEADS: Table[Callable[..., MLP | Identity]] = Table(
    "head",
    {
        "simclr-v1": Design((None,), 128, SIMCLR),
        "simclr-v2": Design((None, None), 128, SIMCLR),  # of SimCLR's repository
        "kernel-infonce": Design((None,), 128, {"hidden_norm": True, "output_bias": False}),  # concatenation sum: 256
        "random-walk": Design((512,), 512),  # CLRW's
        "spectral": Design((2048,), 1000, NORMS),  # HaoChen et al. on CIFAR
        "spectral-imagenet": Design((8192, 8192), 8192, NORMS),
        "moco-v1": Design((), 128),
        "moco-v2": Design((None,), 128),
        "kernel-moco": Design((512,), 128),  # Kernel-InfoNCE's
        "swav": Design((2048,), 128, {"hidden_norm": True}),  # and DeepCluster-v2's, SeLa-v2's
        "simsiam": Design((2048, 2048), 2048, SIMSIAM),
        "simsiam-cifar": Design((2048,), 2048, SIMSIAM),
        "clip": clip,
        "linear": Design((), 128),
        "identity": Identity,  # no head
    },
)


def build_head(name: str, features: int, **widths: int) -> MLP | Identity:
    """The head called ``name`` on features of this width; ``hidden`` and ``output`` replace the paper's widths."""
    build = HEADS.find(name)
    try:
        return build(features, **widths)
    except TypeError as error:
        raise SettingError(f"head {name!r} has no option {', '.join(widths)}: {error}") from error


class Prototypes(nn.Module):
    """Scores s = z·Cᵀ for one or several heads of prototypes C (K, d), without bias.

    ``counts``: the K of each head. Prototypes start on the sphere; training moves them off it, so call
    :meth:`normalize_` before each forward, as SwAV does.
    """

    def __init__(self, width: int, counts: int | Sequence[int]) -> None:
        super().__init__()
        numbers = [counts] if isinstance(counts, int) else list(counts)
        if width < 1 or not numbers or min(numbers) < 1:
            raise SettingError(f"prototypes need a width and counts of at least 1; got width {width}, counts {counts}")
        self.heads = nn.ModuleList(nn.Linear(width, count, bias=False) for count in numbers)
        self.normalize_()

    def forward(self, embeddings: Tensor) -> list[Tensor]:
        """One (n, K) per head; cosines when the embeddings (n, d) are on the sphere."""
        return [head(embeddings) for head in self.heads]

    def weight(self, head: int = 0) -> nn.Parameter:
        """The prototypes (K, d) of one head."""
        return self.heads[head].weight  # type: ignore[return-value]

    @torch.no_grad()
    def normalize_(self) -> None:
        """Put every prototype back on the sphere, in place."""
        for weight in self.heads.parameters():
            weight.copy_(normalize(weight, dim=1))

    @torch.no_grad()
    def set_(self, head: int, centroids: Tensor) -> None:
        """Overwrite one head's prototypes, as DeepCluster-v2 does with its centroids each epoch."""
        weight = self.weight(head)
        if centroids.shape != weight.shape:
            raise ShapeError(
                f"head {head} has prototypes {tuple(weight.shape)}; got centroids {tuple(centroids.shape)}"
            )
        weight.copy_(centroids)

    def freeze_gradients(self) -> None:
        """Forget the gradients: None, not zero, so that neither momentum nor weight decay moves the prototypes.

        Call it between the backward pass and the optimizer's step.
        """
        for weight in self.heads.parameters():
            weight.grad = None
