"""InfoNCE and its relatives: each anchor picks its positive among the others, by some kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from eigenview.distributed import Group, refusing_together, row_counts, row_offset
from eigenview.errors import SettingError, ShapeError
from eigenview.graph.checks import check_embeddings, check_same_shape, prepared
from eigenview.graph.coupling import Coupling
from eigenview.graph.kernels import (
    ConcatenatedKernel,
    CosineKernel,
    GaussianKernel,
    Kernel,
    Scalar,
    ScaledKernel,
    SumKernel,
)
from eigenview.graph.targets import from_captions, from_labels
from eigenview.losses.views import couple_views, mean_over_items, named, prepare_views

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
    if negatives is not None:
        return _with_given_negatives(
            views, negatives, temperature, positive_in_denominator, normalize, check_values, group
        )
    coupling = Coupling(
        CosineKernel(temperature),
        partition="others" if positive_in_denominator else "negatives",
        normalize=normalize,
        check_values=check_values,
    )
    return couple_views(coupling, views, group)


def _with_given_negatives(
    views: tuple[Tensor, ...],
    negatives: Tensor,
    temperature: Scalar,
    positive_in_denominator: bool,
    normalize: bool,
    check_values: bool,
    group: Group,
) -> Tensor:
    kernel = CosineKernel(temperature)
    with refusing_together(group, negatives.device):
        if len(views) != 2:
            raise ShapeError(f"given negatives go with two views, an anchor and its positive; got {len(views)} views")
        check_same_shape(named(views))
        if negatives.ndim != 2:
            _check_own_negatives(views, negatives, normalize=normalize, check_values=check_values)
    anchor, positive = views
    if negatives.ndim == 2:
        offset = row_offset(row_counts(anchor, group), group)
        ids = torch.arange(offset, offset + len(anchor), device=anchor.device)
        coupling = Coupling(
            kernel,
            partition="positives_and_extra" if positive_in_denominator else "extra",
            normalize=normalize,
            check_values=check_values,
        )
        return coupling(anchor, positive, target=from_captions(ids, ids), extra=negatives, group=group)
    a, p = (prepared(view, normalize=normalize) for view in views)
    others = prepared(negatives.flatten(0, 1), normalize=normalize).view(negatives.shape)
    with torch.autocast(a.device.type, enabled=False):
        logits = torch.einsum("nd,nmd->nm", a, others) / temperature
    own = (a * p).sum(dim=1) / temperature
    if positive_in_denominator:
        logits = torch.cat([own[:, None], logits], dim=1)
    return mean_over_items(logits.logsumexp(dim=1) - own, group)


def _check_own_negatives(views: tuple[Tensor, ...], negatives: Tensor, *, normalize: bool, check_values: bool) -> None:
    items = len(views[0])
    if negatives.ndim != 3 or len(negatives) != items or negatives.shape[1] == 0:
        raise ShapeError(f"negatives must be (m, d) or (n, m, d) with n = {items}; got {tuple(negatives.shape)}")
    flat = {**named(views), "negatives": negatives.flatten(0, 1)}
    check_embeddings(flat, normalize=normalize, check_values=check_values)


def kernel_info_nce(
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


def learnable_settings(kernel: Kernel | None) -> nn.ParameterList:
    """A kernel's learnable settings, for a module to train, move and save. They are set in place: a
    ``load_state_dict(assign=True)`` would part them from the kernel."""
    return nn.ParameterList(t for t in (kernel.tensors() if kernel else ()) if isinstance(t, nn.Parameter))


class InfoNCE(nn.Module):
    """:func:`info_nce` as a module."""

    def __init__(
        self,
        *,
        temperature: Scalar = 0.1,
        positive_in_denominator: bool = True,
        normalize: bool = True,
        group: Group = None,
    ) -> None:
        super().__init__()
        self.temperature, self.positive_in_denominator = temperature, positive_in_denominator
        self.normalize, self.group = normalize, group

    def forward(self, *views: Tensor, negatives: Tensor | None = None) -> Tensor:
        return info_nce(
            *views,
            temperature=self.temperature,
            negatives=negatives,
            positive_in_denominator=self.positive_in_denominator,
            normalize=self.normalize,
            group=self.group,
        )

    def chance_level(self, items: int, *, views: int = 2, negatives: int | None = None) -> float:
        if negatives is not None:
            return math.log(negatives + self.positive_in_denominator)
        return math.log(views * items - 1 if self.positive_in_denominator else views * (items - 1))


class KernelInfoNCE(nn.Module):
    """:func:`kernel_info_nce` as a module; learnable settings of the kernel are its parameters."""

    def __init__(
        self, kernel: Kernel | None = None, *, form: SumForm = "kernel-sum", normalize: bool = True, group: Group = None
    ) -> None:
        super().__init__()
        self.kernel = GaussianKernel(0.1) if kernel is None else kernel
        self.settings = learnable_settings(self.kernel)
        self.form, self.normalize, self.group = form, normalize, group

    def forward(self, *views: Tensor) -> Tensor:
        return kernel_info_nce(*views, kernel=self.kernel, form=self.form, normalize=self.normalize, group=self.group)

    def chance_level(self, items: int, *, views: int = 2) -> float:
        level = math.log(views * items - 1)
        if self.form == "kernel-sum":
            return level
        return level * sum(float(torch.as_tensor(weight).detach()) for weight, _, _ in summands(self.kernel, 2))

    def extra_repr(self) -> str:
        return f"{self.kernel!r}, form={self.form!r}"


class SupervisedContrastive(nn.Module):
    """:func:`supervised_contrastive` as a module."""

    def __init__(self, *, temperature: Scalar = 0.1, normalize: bool = True, group: Group = None) -> None:
        super().__init__()
        self.temperature, self.normalize, self.group = temperature, normalize, group

    def forward(self, *views: Tensor, labels: Tensor) -> Tensor:
        return supervised_contrastive(
            *views, labels=labels, temperature=self.temperature, normalize=self.normalize, group=self.group
        )

    def chance_level(self, items: int, *, views: int = 2) -> float:
        return math.log(views * items - 1)
