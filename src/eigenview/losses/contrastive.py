"""InfoNCE and its relatives: each anchor picks its positive among the others, by some kernel, or walks to it."""

import math
from collections.abc import Iterator
from dataclasses import field
from typing import Literal

import torch
from torch import Tensor

from eigenview.distributed import Group, refusing_together
from eigenview.errors import SettingError, ShapeError
from eigenview.graph.checks import check_embeddings, check_same_shape, prepared
from eigenview.graph.coupling import Coupling
from eigenview.graph.kernels import (
    ConcatenatedKernel,
    CosineKernel,
    ExponentialKernel,
    GaussianKernel,
    InnerProductKernel,
    Kernel,
    LaplacianKernel,
    ScaledKernel,
    SumKernel,
    concatenated,
)
from eigenview.graph.scalars import Scalar
from eigenview.graph.targets import PartitionSet, from_captions, from_labels
from eigenview.losses.objective import Objective, couple_views, mean_over_items, named, own_ids, prepare_views

SumForm = Literal["kernel-sum", "loss-sum"]
WalkForm = Literal["absolute", "squared"]


def info_nce(
    *views: Tensor,
    temperature: Scalar = 0.1,
    negatives: Tensor | None = None,
    positive_in_denominator: bool = True,
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """SimCLR's NT-Xent: mean over views of −log[ exp(z_i·z_i⁺/τ) / Σ_{k≠i} exp(z_i·z_k/τ) ].

    ``views``: two or more (n, d), row i of each showing item i; all other views of an item are its positives, weighted
    equally. ``positive_in_denominator=False`` sums over views of *other* items only, as Eq. 4 of Moummad et al. does.
    ``negatives`` (m, d), or (n, m, d) for m of its own per item: then view 0 is contrasted with view 1 against these
    alone, one direction, as Wang & Isola's L(τ, M).

    The official SimCLR code returns twice this value. Chance (constant embeddings): ln(V·n − 1); with the positive
    left out ln(V·(n−1)); with m negatives ln(m+1). Chen et al., 2020.
    """
    partition: PartitionSet = "others" if positive_in_denominator else "negatives"
    if negatives is not None:
        partition = "positives_and_extra" if positive_in_denominator else "extra"
    kernel = CosineKernel(temperature)
    coupling = Coupling(kernel, partition=partition, normalize=normalize, check_values=check_values)
    if negatives is None:
        return couple_views(coupling, views, group)
    with refusing_together(group, negatives.device):
        if len(views) != 2:
            raise ShapeError(f"given negatives go with two views, an anchor and its positive; got {len(views)} views")
        check_same_shape(named(views))
        if negatives.ndim != 2:
            items, shape = len(views[0]), tuple(negatives.shape)
            if negatives.ndim != 3 or len(negatives) != items or negatives.shape[1] == 0:
                raise ShapeError(f"negatives must be (m, d) or (n, m, d) with n = {items}; got {shape}")
            flat = {**named(views), "negatives": negatives.flatten(0, 1)}
            check_embeddings(flat, normalize=normalize, check_values=check_values)
    if negatives.ndim == 2:
        ids = own_ids(views[0], group)
        return coupling(*views, target=from_captions(ids, ids), extra=negatives, group=group)
    # each item has m negatives (n, m, d) of its own, which no other anchor sees
    a, p, others = (prepared(rows, normalize=normalize) for rows in flat.values())
    with torch.autocast(a.device.type, enabled=False):
        logits = torch.einsum("nd,nmd->nm", a, others.view(negatives.shape)) / temperature
    own = (a * p).sum(dim=1) / temperature
    if positive_in_denominator:
        logits = torch.cat([own[:, None], logits], dim=1)
    return mean_over_items(logits.logsumexp(dim=1) - own, group)


def kernel_info_nce_loss(
    *views: Tensor,
    kernel: Kernel,
    form: SumForm = "kernel-sum",
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """InfoNCE with any kernel: mean over views of −log[ k(z_i, z_i⁺) / Σ_{j≠i} k(z_i, z_j) ].

    For a sum of kernels or a concatenation sum, ``form`` chooses between the paper's formula, the sum inside the
    logarithm (``kernel-sum``), and the authors' code, a weighted sum of losses Σ w_m·L(k_m) (``loss-sum``, weights as
    in ``0.2 * k1 + 0.8 * k2``). The authors' ε in the denominator is left out: sums of exponentials are exact here.
    One normalisation covers the whole embedding, also for ``concatenated``. Chance: ln(V·n − 1) (times Σ w_m for
    ``loss-sum``). Tan et al., 2023.

    Their sum kernels, with the temperatures as the paper and the authors' code write them, every distance power
    divided by τ alone, exp(−‖·‖²/τ₂), exp(−‖·‖/τ₁): the ``of_paper`` ones (:func:`simple_sum_of_paper`) are for
    ``kernel-sum``, the ``of_authors`` ones for ``loss-sum``.
    """
    if form == "kernel-sum":
        coupling = Coupling(kernel, normalize=normalize, check_values=check_values)
        return couple_views(coupling, views, group)
    if form != "loss-sum":
        raise SettingError(f"form must be kernel-sum or loss-sum; got {form!r}")
    rows, _ = prepare_views(views, normalize=normalize, check_values=check_values, group=group)
    total = torch.zeros((), dtype=rows[0].dtype, device=rows[0].device)
    for weight, summand, columns in summands(kernel, rows[0].shape[1]):
        is_whole = columns == slice(None)
        coupling = Coupling(summand, normalize=normalize and is_whole, check_values=False)
        total = total + weight * couple_views(coupling, [row[:, columns] for row in rows], group)
    return total


def summands(kernel: Kernel, width: int) -> Iterator[tuple[Scalar, Kernel, slice]]:
    """(weight, kernel, the columns it looks at) for each term of a sum or concatenation sum."""
    if isinstance(kernel, ConcatenatedKernel):
        if width % 2:
            raise ShapeError(f"concat splits embeddings in two halves and needs an even width; got {width}")
        halves = (slice(0, width // 2), slice(width // 2, width))
        terms = list(zip(kernel.kernels, halves, strict=True))
    elif isinstance(kernel, SumKernel):
        terms = [(term, slice(None)) for term in kernel.kernels]
    else:
        raise SettingError(f"loss-sum needs a sum of kernels or a concat; got {kernel!r}")
    for term, columns in terms:
        yield (term.weight, term.kernel, columns) if isinstance(term, ScaledKernel) else (1.0, term, columns)


def simple_sum_of_paper(*, laplacian_temperature: float = 0.1, gaussian_temperature: float = 0.1) -> Kernel:
    """exp(−‖·‖²/τ₂) + exp(−‖·‖/τ₁). (The slide's ‖·‖^{1/τ₁} is a misprint for ‖·‖^{1}/τ₁.)"""
    return GaussianKernel.of_authors(gaussian_temperature) + LaplacianKernel(laplacian_temperature)


def concatenation_sum_of_paper(*, laplacian_temperature: float = 0.1, gaussian_temperature: float = 0.1) -> Kernel:
    """exp(−‖·‖²/τ₂) on the first half of the embedding + exp(−‖·‖/τ₁) on the second."""
    return concatenated(GaussianKernel.of_authors(gaussian_temperature), LaplacianKernel(laplacian_temperature))


def simple_sum_of_authors(
    *, gamma: float = 1.0, weight: float = 0.5, temperature: float = 0.1, gaussian_temperature: float | None = None
) -> Kernel:
    """λ·L(exp(−‖·‖^γ/τ)) + (1−λ)·L(exp(−‖·‖²/τ₂)), λ = ``weight``: a sum of losses.

    The authors' SimCLR script uses one τ for both (``gaussian_temperature=None``); their MoCo script τ=0.1, τ₂=0.3,
    λ=0.2. Their best values were searched for and never published.
    """
    first, second = _weighted_pair(gamma, weight, temperature, gaussian_temperature)
    return first + second


def concatenation_sum_of_authors(
    *, gamma: float = 1.0, weight: float = 0.5, temperature: float = 0.1, gaussian_temperature: float | None = None
) -> Kernel:
    """λ·L(exp(−‖·‖^γ/τ)) on the first half + (1−λ)·L(exp(−‖·‖²/τ₂)) on the second (``product`` in the authors' code).

    The embedding is twice as wide as for one kernel, and is normalised once over its whole width.
    """
    return concatenated(*_weighted_pair(gamma, weight, temperature, gaussian_temperature))


def _weighted_pair(
    gamma: float, weight: float, temperature: float, gaussian_temperature: float | None
) -> tuple[Kernel, Kernel]:
    if not 0 < weight < 1:
        raise SettingError(f"a sum of two losses needs a weight between 0 and 1; got {weight}")
    second = GaussianKernel.of_authors(temperature if gaussian_temperature is None else gaussian_temperature)
    return weight * ExponentialKernel(gamma, temperature), (1 - weight) * second


def supervised_contrastive(
    *views: Tensor,
    labels: Tensor,
    temperature: Scalar = 0.1,
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """InfoNCE whose positives are all views with the same label: mean over anchors that have a positive of
    −(1/|P(i)|) Σ_{p∈P(i)} log[ exp(z_i·z_p/τ) / Σ_{k≠i} exp(z_i·z_k/τ) ].

    ``views``: one or more (n, d); ``labels`` (n,) integers, the same for every view. The positives' mean stands outside
    the logarithm (L_out of the paper). Chance: ln(V·n − 1). Khosla et al., 2020.
    """
    with refusing_together(group, labels.device):
        if not views:
            raise ShapeError("supervised_contrastive needs at least one view of (n, d); got none")
        check_same_shape({f"view {number}": view for number, view in enumerate(views)})
        if labels.ndim != 1 or len(labels) != len(views[0]):
            raise ShapeError(f"labels must be ({len(views[0])},), one per item; got shape {tuple(labels.shape)}")
        target = from_labels(labels.repeat(len(views)))
    coupling = Coupling(CosineKernel(temperature), normalize=normalize, check_values=check_values)
    return coupling(torch.cat(views), target=target, group=group)


def random_walk_laplacian(
    *views: Tensor,
    form: WalkForm = "absolute",
    temperature: Scalar = 1.0,
    kernel: Kernel | None = None,
    reduction: Literal["sum", "mean"] = "sum",
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """Σ_{i≠j} |T_ij − P_ij| (``absolute``, the paper) or Σ_{i≠j} (T_ij − P_ij)² (``squared``, the authors' code).

    P = D⁻¹W, W_ij = exp(z_i·z_j/τ), W_ii = 0: the transition matrix of a walk on the views; T_ij = 1 where i and j show
    one item. ``views``: two or more (n, d). With two, the absolute form is 2 Σ_i (1 − P_{i,i⁺}). The paper has τ = 1;
    the authors' README recommends 0.4. ``kernel`` replaces exp(z·z/τ). ``reduction="mean"`` divides by the number of
    views. Chance for N = V·n views: see :meth:`RandomWalkLaplacian.chance_level` (2N(1 − 1/(N−1)) and half of that,
    for two views). A walk on the similarity graph should step to the other view: Moummad et al., 2023.
    """
    if form not in ("absolute", "squared"):
        raise SettingError(f"form must be absolute (the paper) or squared (the authors' code); got {form!r}")
    walk = kernel if kernel is not None else (CosineKernel if normalize else InnerProductKernel)(temperature)
    coupling = Coupling(walk, divergence=form, reduction=reduction, normalize=normalize, check_values=check_values)
    return couple_views(coupling, views, group, as_indicators=True)


class InfoNCE(Objective, of=info_nce):
    """:func:`info_nce` as a module."""

    temperature: Scalar = 0.1
    positive_in_denominator: bool = True
    normalize: bool = True

    def chance_level(self, items: int, *, views: int = 2, negatives: int | None = None) -> float:
        if negatives is not None:
            return math.log(negatives + self.positive_in_denominator)
        return math.log(views * items - 1 if self.positive_in_denominator else views * (items - 1))


class KernelInfoNCELoss(Objective, of=kernel_info_nce_loss):
    """:func:`kernel_info_nce_loss` as a module; learnable settings of the kernel are its parameters."""

    kernel: Kernel = field(default=GaussianKernel(0.1), kw_only=False)
    form: SumForm = "kernel-sum"
    normalize: bool = True

    def chance_level(self, items: int, *, views: int = 2) -> float:
        level = math.log(views * items - 1)
        if self.form == "kernel-sum":
            return level
        return level * sum(float(torch.as_tensor(weight).detach()) for weight, _, _ in summands(self.kernel, 2))


class SupervisedContrastive(Objective, of=supervised_contrastive):
    """:func:`supervised_contrastive` as a module."""

    temperature: Scalar = 0.1
    normalize: bool = True

    def chance_level(self, items: int, *, views: int = 2) -> float:
        return math.log(views * items - 1)


class RandomWalkLaplacian(Objective, of=random_walk_laplacian):
    """:func:`random_walk_laplacian` as a module."""

    form: WalkForm = "absolute"
    temperature: Scalar = 1.0
    kernel: Kernel | None = None
    reduction: Literal["sum", "mean"] = "sum"
    normalize: bool = True

    def chance_level(self, items: int, *, views: int = 2) -> float:
        """On constant embeddings P is 1/(N−1) everywhere, and each view has V−1 positives."""
        nodes, positives = views * items, views - 1
        step = 1 / (nodes - 1)
        row = positives + (1 if self.form == "absolute" else step) - 2 * positives * step
        return row * (nodes if self.reduction == "sum" else 1)
