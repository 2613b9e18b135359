"""The random-walk loss: a walk on the similarity graph should step to the other view (Moummad et al., 2023)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from eigenview.distributed import Group
from eigenview.errors import SettingError
from eigenview.graph.coupling import Coupling
from eigenview.graph.kernels import CosineKernel, InnerProductKernel, Kernel
from eigenview.graph.scalars import Scalar
from eigenview.losses.module import Objective
from eigenview.losses.views import couple_views

Form = Literal["absolute", "squared"]


def random_walk_laplacian(
    *views: Tensor,
    form: Form = "absolute",
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
    for two views).
    """
    if form not in ("absolute", "squared"):
        raise SettingError(f"form must be absolute (the paper) or squared (the authors' code); got {form!r}")
    walk = kernel if kernel is not None else (CosineKernel if normalize else InnerProductKernel)(temperature)
    coupling = Coupling(walk, divergence=form, reduction=reduction, normalize=normalize, check_values=check_values)
    return couple_views(coupling, views, group, as_indicators=True)


class RandomWalkLaplacian(Objective, of=random_walk_laplacian):
    """:func:`random_walk_laplacian` as a module."""

    form: Form = "absolute"
    temperature: Scalar = 1.0
    kernel: Kernel | None = None
    reduction: Literal["sum", "mean"] = "sum"
    normalize: bool = True
    group: Group = None

    def chance_level(self, items: int, *, views: int = 2) -> float:
        """On constant embeddings P is 1/(N−1) everywhere, and each view has V−1 positives."""
        nodes, positives = views * items, views - 1
        step = 1 / (nodes - 1)
        row = positives + (1 if self.form == "absolute" else step) - 2 * positives * step
        return row * (nodes if self.reduction == "sum" else 1)
