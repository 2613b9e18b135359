"""The logistic regressions that folds make of one training set, as problems for L-BFGS, and what their Hessians are."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor

from eigenview.errors import DataError
from eigenview.evaluation.features import some, working_dtype

ROWS = 2048  # at a time: their logits and gradients stay in cache
WIDEST = 3072  # columns, up to which a Hessian of columns × columns is worth its cost
SAMPLE = 4096  # rows that stand for all of them in the Hessian of more columns


class LogisticProblems:
    """One logistic regression for each fold (without its rows) and one for all rows, which comes last.

    ``without_all`` leaves that out. Parameters of a problem are K·d weights, then K biases of the centred rows. With
    fewer rows than columns the weights lie in the rows' span, and are sought there.
    """

    def __init__(
        self, features: Tensor, labels: Tensor, fold: Tensor, folds: int, classes: int, *, without_all: bool = False
    ) -> None:
        dtype = working_dtype(features)
        given = features.detach().to(dtype)
        self.classes, self.labels = classes, labels.long()
        self.mean = given.mean(dim=0)
        self.rows = given - self.mean
        self.basis: Tensor | None = None
        if len(given) < given.shape[1] and len(given) <= WIDEST:
            self.basis = torch.linalg.qr(self.rows.T).Q  # (d, n)
            self.rows = self.rows @ self.basis
        own = torch.arange(folds + (not without_all), device=fold.device)
        is_trained_on = (fold[:, None].to(own) != own).to(dtype)
        if not without_all:
            is_trained_on[:, -1] = 1
        self.sizes = is_trained_on.sum(dim=0).to(features.device)
        self.share = is_trained_on.to(features.device) / self.sizes  # (n, P), what each row counts in each problem
        self._check_folds(fold, folds)
        self.penalise(1.0)
        self.is_wide = self.rows.shape[1] > WIDEST
        self.curvature: _Hessian | _SampledHessian = _SampledHessian(self) if self.is_wide else _Hessian(self)

    def penalise(self, c: float) -> None:
        """Set the penalty ‖W‖²/(2·C) of the summed loss; twice that with two classes, see ``fit_logistic``."""
        factor = 2.0 if self.classes == 2 else 1.0
        self.penalty = factor / (c * self.sizes)  # of the mean loss: penalty/2·‖W‖²

    def start(self) -> Tensor:
        """All problems at zero."""
        return self.rows.new_zeros(len(self.sizes), (self.rows.shape[1] + 1) * self.classes)

    def split(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (p, K, d) and biases (p, K)."""
        weights, biases = flat[:, : -self.classes], flat[:, -self.classes :]
        return weights.reshape(len(flat), self.classes, -1), biases

    def __call__(self, problems: Tensor, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Mean losses with penalty (p,), and their gradients."""
        weights, biases = self.split(flat)
        weight, bias = weights.reshape(-1, self.rows.shape[1]), biases.reshape(-1, 1)
        slope, bias_slope = torch.zeros_like(weight), torch.zeros_like(bias[:, 0])
        loss = flat.new_zeros(len(problems), dtype=torch.float64)
        shares = self.share[:, problems].T
        for start in range(0, len(self.rows), ROWS):
            rows, share = self.rows[start : start + ROWS], shares[:, None, start : start + ROWS]
            own = self.labels[start : start + ROWS].expand(len(problems), 1, -1)
            # (p, K, rows): sums over classes run along rows that lie side by side in memory
            logits = torch.addmm(bias, weight, rows.T).view(len(problems), self.classes, -1)
            logits -= logits.amax(dim=1, keepdim=True)
            picked = logits.gather(1, own)
            total = logits.exp_().sum(dim=1, keepdim=True)
            loss += ((total.log() - picked) * share).sum(dim=(1, 2), dtype=torch.float64)
            change = logits.mul_(share / total).scatter_add_(1, own, -share).view(len(weight), -1)
            slope.addmm_(change, rows)
            bias_slope += change.sum(dim=1)
        penalty = self.penalty[problems]
        loss += penalty / 2 * weights.square().sum(dim=(1, 2))
        slope = slope.view_as(weights) + penalty[:, None, None] * weights
        return loss, torch.cat([slope.view(len(problems), -1), bias_slope.view_as(biases)], dim=1)

    def uncertainty(self, flat: Tensor, rows: Tensor) -> Tensor:
        """(n,) wᵢ = (1 − Σₖ pᵢₖ²)/K of the last problem: the mean over classes of pᵢₖ·(1 − pᵢₖ)."""
        weights, biases = self.split(flat[-1:])
        chance = torch.addmm(biases[0], rows, weights[0].T).softmax(dim=1)
        return (1 - chance.square().sum(dim=1)) / self.classes

    def all_rows(self) -> LogisticProblems:
        """The last problem alone, with its data and curvature."""
        alone = copy(self)
        alone.sizes, alone.share, alone.curvature = self.sizes[-1:], self.share[:, -1:], copy(self.curvature)
        alone.curvature.problems = alone
        return alone

    def solutions(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (p, K, d) and biases (p, K) for rows as they were given."""
        weights, biases = self.split(flat)
        given = weights if self.basis is None else weights @ self.basis.T
        return given, biases - given @ self.mean

    def _check_folds(self, fold: Tensor, folds: int) -> None:
        """Every class must occur in every problem: without rows, its bias would run to minus infinity."""
        for number in (-1, *range(folds)):
            counts = self.labels[(fold != number).to(self.labels.device)].bincount(minlength=self.classes)
            gone = (counts == 0).nonzero().flatten()
            if len(gone):
                where = f"training without fold {number}; use stratified folds" if number >= 0 else "training"
                raise DataError(f"class {some(gone)} is missing in {where}")


class _Hessian:
    """The Hessian has K × K blocks; the mean of its diagonal ones, H = Σᵢ wᵢ·xᵢxᵢᵀ/n + λ, stands for each of them."""

    def __init__(self, problems: LogisticProblems) -> None:
        self.problems = problems

    def renew(self, points: Tensor) -> None:
        problems = self.problems
        count, width = problems.rows.shape
        hessian, total = points.new_zeros(width, width), points.new_zeros(())
        for start in range(0, count, ROWS):
            rows = problems.rows[start : start + ROWS]
            weight = problems.uncertainty(points, rows)
            hessian.addmm_(rows.T, rows * weight[:, None])
            total += weight.sum()
        whole = (hessian / count).double()
        rounding = 10 * torch.finfo(points.dtype).eps * float(whole.trace())  # keeps what is singular positive
        whole.diagonal().add_(float(problems.penalty[-1]) + rounding)
        root = torch.linalg.cholesky(whole)
        identity = torch.eye(width, dtype=root.dtype, device=root.device)
        self.inverse_root = torch.linalg.solve_triangular(root, identity, upper=False).to(points.dtype)
        self.bias_weight = (total / count).clamp_min(1e-12)

    def solve(self, problems: Tensor, slopes: Tensor) -> Tensor:
        weights, biases = self.problems.split(slopes)
        turned = weights.reshape(-1, weights.shape[2]) @ self.inverse_root.T @ self.inverse_root
        return torch.cat([turned.view(len(slopes), -1), biases / self.bias_weight], dim=1)


class _SampledHessian:
    """The same from a sample of the rows, where columns are too many for a matrix of them: AᵀA + δ, with A (m, d).

    (AᵀA + δ)⁻¹·g = (g − Aᵀ(AAᵀ + δ)⁻¹A·g)/δ. What the sample cannot tell apart has about the mean share of the trace,
    which is added to the penalty in δ.
    """

    def __init__(self, problems: LogisticProblems) -> None:
        self.problems = problems
        count = len(problems.rows)
        chosen = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:SAMPLE].sort().values
        self.rows = problems.rows[chosen.to(problems.rows.device)]
        self.products = self.rows @ self.rows.T

    def renew(self, points: Tensor) -> None:
        weight = self.problems.uncertainty(points, self.rows)
        self.scale = (weight / len(self.rows)).sqrt()[:, None]
        inner = (self.scale * self.products * self.scale.T).double()
        self.shift = float(self.problems.penalty[-1]) + float(inner.trace()) / len(self.rows)
        inner.diagonal().add_(self.shift)
        self.root = torch.linalg.cholesky(inner).to(points.dtype)
        self.bias_weight = weight.mean().clamp_min(1e-12)

    def solve(self, problems: Tensor, slopes: Tensor) -> Tensor:
        weights, biases = self.problems.split(slopes)
        given = weights.reshape(-1, weights.shape[2])  # (p·K, d)
        seen = torch.cholesky_solve(self.scale * (self.rows @ given.T), self.root)
        turned = (given - (self.scale * seen).T @ self.rows) / self.shift
        return torch.cat([turned.view(len(slopes), -1), biases / self.bias_weight], dim=1)
