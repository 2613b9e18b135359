"""InfoNCE and its relatives: each anchor picks its positive among the others, by some kernel."""

from __future__ import annotations

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
    GaussianKernel,
    Kernel,
    ScaledKernel,
    SumKernel,
)
from eigenview.graph.scalars import Scalar
from eigenview.graph.targets import PartitionSet, from_captions, from_labels
from eigenview.losses.module import Objective
from eigenview.losses.views import couple_views, mean_over_items, named, own_ids, prepare_views

SumForm = Literal["kernel-sum", "loss-sum"]


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
            _check_own_negatives(views, negatives, normalize=normalize, check_values=check_values)
    if negatives.ndim == 3:
        return _against_own(views, negatives, coupling, temperature, group)
    ids = own_ids(views[0], group)
    return coupling(*views, target=from_captions(ids, ids), extra=negatives, group=group)


def _against_own(
    views: tuple[Tensor, ...], negatives: Tensor, coupling: Coupling, temperature: Scalar, group: Group
) -> Tensor:
    """The same where each item has m negatives (n, m, d) of its own, which no other anchor sees."""
    flat = (*views, negatives.flatten(0, 1))
    a, p, others = (prepared(rows, normalize=coupling.normalize) for rows in flat)
    with torch.autocast(a.device.type, enabled=False):
        logits = torch.einsum("nd,nmd->nm", a, others.view(negatives.shape)) / temperature
    own = (a * p).sum(dim=1) / temperature
    if coupling.partition == "positives_and_extra":
        logits = torch.cat([own[:, None], logits], dim=1)
    return mean_over_items(logits.logsumexp(dim=1) - own, group)


def _check_own_negatives(views: tuple[Tensor, ...], negatives: Tensor, *, normalize: bool, check_values: bool) -> None:
    items = len(views[0])
    if negatives.ndim != 3 or len(negatives) != items or negatives.shape[1] == 0:
        raise ShapeError(f"negatives must be (m, d) or (n, m, d) with n = {items}; got {tuple(negatives.shape)}")
    flat = {**named(views), "negatives": negatives.flatten(0, 1)}
    check_embeddings(flat, normalize=normalize, check_values=check_values)


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
    ``loss-sum``). Tan et al., 2023. See :mod:`eigenview.losses.kernel_sums` for the authors' settings.
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


class InfoNCE(Objective, of=info_nce):
    """:func:`info_nce` as a module."""

    temperature: Scalar = 0.1
    positive_in_denominator: bool = True
    normalize: bool = True
    group: Group = None

    def chance_level(self, items: int, *, views: int = 2, negatives: int | None = None) -> float:
        if negatives is not None:
            return math.log(negatives + self.positive_in_denominator)
        return math.log(views * items - 1 if self.positive_in_denominator else views * (items - 1))


class KernelInfoNCELoss(Objective, of=kernel_info_nce_loss):
    """:func:`kernel_info_nce_loss` as a module; learnable settings of the kernel are its parameters."""

    kernel: Kernel = field(default=GaussianKernel(0.1), kw_only=False)
    form: SumForm = "kernel-sum"
    normalize: bool = True
    group: Group = None

    def chance_level(self, items: int, *, views: int = 2) -> float:
        level = math.log(views * items - 1)
        if self.form == "kernel-sum":
            return level
        return level * sum(float(torch.as_tensor(weight).detach()) for weight, _, _ in summands(self.kernel, 2))


class SupervisedContrastive(Objective, of=supervised_contrastive):
    """:func:`supervised_contrastive` as a module."""

    temperature: Scalar = 0.1
    normalize: bool = True
    group: Group = None

    def chance_level(self, items: int, *, views: int = 2) -> float:
        return math.log(views * items - 1)
