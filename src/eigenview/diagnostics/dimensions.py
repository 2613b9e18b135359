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
from eigenview.errors import SettingError

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
    moments = Moments.of(rows)
    return roots(moments.scatter if centred else moments.second, moments.size)


def rank_of(values: Tensor) -> float:
    """exp of the entropy of non-negative ``values`` (k,) divided by their sum; 0 when all are zero."""
    total = values.sum()
    if not total > 0:
        return 0.0
    share = values / total
    return math.exp(float(torch.special.entr(share).sum()))


@dataclass(frozen=True)
class Moments:
    """Second moments of the rows, float64: ZᵀZ (d, d), or ZZᵀ (n, n) where that is smaller; both have the same roots.

    Summed around a row s near the mean, so that nearly collapsed rows keep their digits.
    """

    second: Tensor  # of the rows as they are
    scatter: Tensor  # of the rows less their mean
    size: float  # Σ‖z‖²
    variances: Tensor  # (d,) of each dimension

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        if rows.n <= rows.d:
            whole = rows.block(0, rows.n).double()
            off = whole - whole.mean(dim=0)
            return cls(whole @ whole.T, off @ off.T, float(whole.square().sum()), off.square().mean(dim=0))
        origin = rows.block(0, min(rows.n, 1024)).double().mean(dim=0)
        shifted, products = torch.zeros_like(origin), origin.new_zeros(rows.d, rows.d)
        for _, block in rows.blocks():
            off = block.double() - origin
            shifted += off.sum(dim=0)
            products.addmm_(off.T, off)
        across = torch.outer(origin, shifted)
        second = products + across + across.T + rows.n * torch.outer(origin, origin)
        scatter = products - torch.outer(shifted, shifted) / rows.n
        return cls(second, scatter, float(second.trace()), scatter.diagonal() / rows.n)


def roots(gram: Tensor, size: float) -> Tensor:
    """√ of the eigenvalues of a Gram matrix, descending, those within rounding of 0 made 0; ``size`` is Σ‖z‖²."""
    values = torch.linalg.eigvalsh(gram).flip(0).cpu()
    eps = torch.finfo(torch.float64).eps
    noise = max(len(gram) * eps * float(values[0]), (16 * eps) ** 2 * size)  # of the solver; of taking the mean off
    return torch.where(values > noise, values, 0).sqrt()


@dataclass(frozen=True)
class Spectrum:
    """What one pass says about the dimensions of (n, d) embeddings; everything float64 on the CPU."""

    n: int
    d: int
    raw: Tensor  # (min(n, d),) singular values of Z, descending
    centred: Tensor  # (min(n, d),) singular values of Z less its mean row; their squares / n are the covariance's
    variances: Tensor  # (d,) of each dimension

    def effective_rank(self, *, centred: bool = False) -> float:
        return rank_of(self.centred if centred else self.raw)

    def stable_rank(self, *, centred: bool = False) -> float:
        """Σσ²/σ₁²: how many dimensions as strong as the first would hold as much; 0 when nothing varies."""
        squares = (self.centred if centred else self.raw).square()
        return float(squares.sum() / squares[0]) if squares[0] > 0 else 0.0

    def decay(self, *, first: int = 1, last: int | None = None) -> float:
        """α-ReQ: the power law λ_i ∝ i^−α of the covariance's eigenvalues, λ_i = σ_i²/n (Agrawal et al. 2022).

        The slope of log λ over log i by least squares from rank ``first`` to ``last``, weighted by 1/i so that every
        octave counts the same. Eigenvalues of 0 are left out; NaN when fewer than two are left. About 1 is what they
        found best; 0 is white, above 2 a few directions hold nearly everything.
        """
        last = len(self.centred) if last is None else last
        if not 1 <= first < last <= len(self.centred):
            if len(self.centred) < 2:
                return math.nan
            raise SettingError(f"ranks must run upwards within 1 to {len(self.centred)}; got {first} to {last}")
        rank = torch.arange(first, last + 1, dtype=torch.float64)
        value = self.centred[first - 1 : last].square() / self.n
        rank, value = rank[value > 0], value[value > 0]
        if len(value) < 2:
            return math.nan
        weight = (1 / rank) / (1 / rank).sum()
        x, y = rank.log(), value.log()
        x = x - weight @ x
        return -float((weight * x) @ (y - weight @ y) / ((weight * x) @ x))

    def dead(self) -> list[int]:
        """Dimensions whose standard deviation is below 1/1000 of the root mean square over all; all when none vary."""
        return torch.nonzero(self.variances <= DEAD**2 * self.variances.mean()).flatten().tolist()


def spectrum(embeddings: Embeddings) -> Spectrum:
    """Singular values, raw and centred, and the variance of each dimension, of (n, d) embeddings: one pass, exact."""
    rows = open_rows(embeddings, directions=False)
    moments = Moments.of(rows)
    noise = (16 * torch.finfo(torch.float64).eps) ** 2 * moments.size / (rows.n * rows.d)  # of taking the mean off
    return Spectrum(
        rows.n,
        rows.d,
        roots(moments.second, moments.size),
        roots(moments.scatter, moments.size),
        torch.where(moments.variances > noise, moments.variances, 0).cpu(),
    )
