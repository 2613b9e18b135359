"""Images and captions: couplings of a bipartite graph (Radford et al., 2021; Zhai et al., 2023)."""

import math
from collections.abc import Sequence
from dataclasses import InitVar

import torch
from torch import Tensor, nn

from eigenview.distributed import Group, refusing_together, row_counts
from eigenview.errors import ShapeError
from eigenview.graph.checks import check_embeddings, check_enough
from eigenview.graph.coupling import Coupling
from eigenview.graph.kernels import CosineKernel, Kernel, ScaledKernel
from eigenview.graph.scalars import Scalar
from eigenview.graph.streaming import softplus
from eigenview.graph.targets import SameItem, Target, from_captions, from_vectors
from eigenview.losses.objective import Objective, own_ids


def clip_loss(
    image: Tensor,
    text: Tensor,
    *,
    temperature: Scalar = 0.07,
    kernel: Kernel | None = None,
    image_ids: Tensor | None = None,
    text_ids: Tensor | None = None,
    image_vectors: Tensor | None = None,
    text_vectors: Tensor | None = None,
    target_temperature: float = 0.1,
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """½·[H(image→text) + H(text→image)], each the mean of −log softmax(cos/τ) at the match.

    ``image`` (n, d), ``text`` (m, d). Without ids row i matches row i. With ``image_ids`` (n,) and ``text_ids`` (m,),
    equal on every process that holds the same image, several captions may share an image and repeats are positives,
    never negatives; an image without caption in the batch is only a candidate. ``temperature`` may carry gradient:
    CLIP learns ln(1/τ) (:class:`CLIPLoss`). ``kernel``: any other in the place of exp(cos/τ). LaCLIP is this loss with
    one caption drawn per step.

    ``image_vectors`` (n, p) and ``text_vectors`` (m, p), fixed, say what each is about: the target is then
    softmax(v_i·v_j / ``target_temperature``) instead of identity (soft targets, X-CLR). Chance: ln n.
    """
    forth: Target
    back: Target
    forth, back = _targets(image, text, image_ids, text_ids, group, as_indicators=False)
    if image_vectors is not None and text_vectors is not None:
        forth = from_vectors(image_vectors, text_vectors, temperature=target_temperature)
        back = from_vectors(text_vectors, image_vectors, temperature=target_temperature)
    chosen = CosineKernel(temperature) if kernel is None else kernel
    coupling = Coupling(chosen, partition="all", normalize=normalize, check_values=check_values)
    return (coupling(image, text, target=forth, group=group) + coupling(text, image, target=back, group=group)) / 2


def siglip_loss(
    image: Tensor,
    text: Tensor,
    *,
    temperature: Scalar = 0.1,
    bias: Scalar = -10.0,
    kernel: Kernel | None = None,
    image_ids: Tensor | None = None,
    text_ids: Tensor | None = None,
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """−(1/n) Σ_ij log σ(± (cos_ij/τ + b)), + where image i and text j match: every edge by itself.

    ``kernel``: the log of any other in the place of cos/τ. Shapes and ids as :func:`clip_loss`; n counts the images
    that have a caption in the batch. Chance (constant embeddings, s = 1/τ + b): softplus(−s) + (n−1)·softplus(s).
    """
    forth, _ = _targets(image, text, image_ids, text_ids, group, as_indicators=True)
    coupling = Coupling(
        _with_bias(kernel, temperature, bias),
        prior="bernoulli",
        partition="all",
        normalize=normalize,
        check_values=check_values,
    )
    return coupling(image, text, target=forth, group=group)


def _with_bias(kernel: Kernel | None, temperature: Scalar, bias: Scalar) -> Kernel:
    """log k + b, of exp(cos/τ) unless a kernel is given."""
    if kernel is None:
        return CosineKernel(temperature, bias)
    return ScaledKernel(bias.exp() if isinstance(bias, Tensor) else math.exp(bias), kernel)


def _targets(
    image: Tensor, text: Tensor, image_ids: Tensor | None, text_ids: Tensor | None, group: Group, *, as_indicators: bool
) -> tuple[SameItem, SameItem]:
    with refusing_together(group, image.device):
        if (image_ids is None) != (text_ids is None):
            raise ShapeError("image_ids and text_ids come together; got only one of them")
        if image_ids is None and len(image) != len(text):
            raise ShapeError(
                f"without ids, image and text must match row by row; got {tuple(image.shape)} and {tuple(text.shape)}"
            )
        check_embeddings({"image": image, "text": text}, normalize=False, check_values=False)
        if image_ids is not None and text_ids is not None:
            from_captions(image_ids, text_ids)  # refuses what are no ids
    check_enough(sum(row_counts(image, group)), "images")
    if image_ids is None or text_ids is None:
        image_ids = text_ids = own_ids(image, group)
    forth = from_captions(image_ids, text_ids, as_indicators=as_indicators)
    return forth, from_captions(text_ids, image_ids, as_indicators=as_indicators)


class _LearnsScale(Objective):
    """The temperature is where a learnable scale starts: ``log_scale``, ln(1/τ)."""

    temperature: InitVar[float]

    def __post_init__(self, temperature: float) -> None:
        super().__post_init__()
        fixed = isinstance(getattr(self, "kernel", None), Kernel)  # which has settings of its own
        start = torch.tensor(math.log(1 / temperature))
        self.log_scale: nn.Parameter | None = None if fixed else nn.Parameter(start)

    def forward(self, *given: Tensor | Sequence[Tensor], **more: Scalar | None) -> Tensor:
        if self.log_scale is None:
            return super().forward(*given, **more)
        return super().forward(*given, temperature=(-self.log_scale).exp(), **more)


class CLIPLoss(_LearnsScale, of=clip_loss):
    """:func:`clip_loss` with its learnable scale: s = exp(t), t = ln(1/0.07) at first, kept in [0, ln 100].

    Call :meth:`clamp` after each optimizer step (the log-scale is clamped, not the scale), and give ``log_scale`` no
    weight decay.
    """

    temperature: InitVar[float] = 0.07
    kernel: Kernel | None = None
    target_temperature: float = 0.1
    normalize: bool = True

    @torch.no_grad()
    def clamp(self) -> None:
        if self.log_scale is not None:
            self.log_scale.clamp_(0, math.log(100))

    def chance_level(self, items: int) -> float:
        return math.log(items)


class SigLIPLoss(_LearnsScale, of=siglip_loss):
    """:func:`siglip_loss` with its learnable log-scale (ln 10 at first) and bias (−10 at first)."""

    temperature: InitVar[float] = 0.1
    bias: Scalar = -10.0
    kernel: Kernel | None = None
    normalize: bool = True

    def __post_init__(self, temperature: float) -> None:
        super().__post_init__(temperature)
        self.bias = nn.Parameter(torch.tensor(float(self.bias)))

    def chance_level(self, items: int) -> float:
        temperature = 1.0 if self.log_scale is None else (-self.log_scale.detach().double()).exp()
        kernel = _with_bias(self.kernel, temperature, torch.as_tensor(self.bias).detach().double())
        constant = torch.full((1, 2), 0.5**0.5, dtype=torch.float64)
        logit = kernel.pairs(constant, constant).detach()
        return float(softplus(-logit) + (items - 1) * softplus(logit))
