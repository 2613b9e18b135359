"""How many dimensions the embeddings really use: singular values, effective rank, decay, dead dimensions.

All of it is linear in n and exact: one pass sums the d × d moments in float64 (or, with n ≤ d, the n × n ones).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.diagnostics.rows import Embeddings, Rows, open_rows
from eigenview.distributed import Group, gather_rows

DEAD = 1e-3  # a dimension is dead when its standard deviation is below this share of the root mean square of all


def effective_rank(embeddings: Embeddings, *, centred: bool = False, group: Group = None) -> float:
    """RankMe: exp of the entropy of the normalised singular values, exp(−Σ p_k log p_k) with p_k = σ_k/Σσ.

    ``embeddings`` (n, d); between 1 and min(n, d), right also when n ≤ d, and 0 for rows that are all zero. Unchanged
    by rotation, scale and the order of rows. ``centred`` takes the mean row off first, so that a constant offset
    does not count as a dimension. With ``group``, of all processes' rows (a tensor on each).

    Costs one product of min(n, d)² · max(n, d) and an eigenproblem of min(n, d), in float64; singular values below
    about 1e-7 of the largest count as zero. Garrido et al. 2023, without their ε (1e-7) inside the entropy.
    """
    if group is not None and isinstance(embeddings, Tensor):
        embeddings = gather_rows(embeddings.detach(), group)
    rows = open_rows(embeddings, directions=False)
    return rank_of(singular_values(rows, centred=centred))


def singular_values(embeddings: Embeddings, *, centred: bool = False) -> Tensor:
    """The min(n, d) singular values of the rows (less their mean, if ``centred``), descending, float64 on the CPU.

    By the eigenvalues of the smaller of ZᵀZ and ZZᵀ, summed in float64: those below about 1e-7 of the largest, where
    rounding decides, are exactly 0.
    """
    rows = open_rows(embeddings, directions=False)
    gram, size = _gram(rows, centred=centred)
    return roots(gram, size)[: rows.n]


def rank_of(values: Tensor) -> float:
    """exp of the entropy of non-negative ``values`` (k,) divided by their sum; 0 when all are zero."""
    total = values.sum()
    if not total > 0:
        return 0.0
    share = values / total
    return math.exp(float(torch.special.entr(share).sum()))


def _gram(rows: Rows, *, centred: bool) -> tuple[Tensor, float]:
    """The smaller of ZᵀZ (d, d) and ZZᵀ (n, n), float64, and Σ‖z‖² before centring."""
    if rows.n > rows.d:
        moments = Moments.of(rows)
        return moments.scatter if centred else moments.second, moments.size
    whole = rows.block(0, rows.n).double()
    size = float(whole.square().sum())
    whole = whole - whole.mean(dim=0) if centred else whole
    return whole @ whole.T, size


@dataclass(frozen=True)
class Moments:
    """Σ(z−s)(z−s)ᵀ and Σ(z−s) around a row s near the mean, in float64: nearly collapsed rows keep their digits."""

    n: int
    origin: Tensor  # s (d,)
    shifted: Tensor  # Σ(z−s) (d,)
    products: Tensor  # Σ(z−s)(z−s)ᵀ (d, d)

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        origin, shifted, products = torch.empty(0), torch.empty(0), torch.empty(0)
        for start, block in rows.blocks():
            wide = block.double()
            if start == 0:
                origin = wide.mean(dim=0)
                shifted, products = torch.zeros_like(origin), origin.new_zeros(rows.d, rows.d)
            wide = wide - origin
            shifted += wide.sum(dim=0)
            products.addmm_(wide.T, wide)
        return cls(rows.n, origin, shifted, products)

    @property
    def scatter(self) -> Tensor:
        """Σ(z−m)(z−m)ᵀ around the mean m: n times the covariance."""
        return self.products - torch.outer(self.shifted, self.shifted) / self.n

    @property
    def second(self) -> Tensor:
        """Σ z zᵀ."""
        across = torch.outer(self.origin, self.shifted)
        return self.products + across + across.T + self.n * torch.outer(self.origin, self.origin)

    @property
    def size(self) -> float:
        """Σ‖z‖²."""
        return float(self.second.trace())


def roots(gram: Tensor, size: float) -> Tensor:
    """√ of the eigenvalues of a Gram matrix, descending, those within rounding of 0 made 0; ``size`` is Σ‖z‖²."""
    values = torch.linalg.eigvalsh(gram).flip(0).cpu()
    eps = torch.finfo(torch.float64).eps
    noise = max(len(gram) * eps * float(values[0]), (16 * eps) ** 2 * size)  # of the solver; of taking the mean off
    return torch.where(values > noise, values, 0).sqrt()
