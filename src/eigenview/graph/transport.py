"""Optimal transport between samples and prototypes: the only Sinkhorn of the project."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from eigenview.distributed import (
    Group,
    any_process,
    max_over_processes,
    refuse_together,
    row_counts,
    sum_over_processes,
)
from eigenview.errors import DataError, EigenviewError, SettingError, ShapeError

BLOCK_ELEMENTS = 1 << 19  # scores handled at a time: 2 MB in float32, which stays in cache


@torch.no_grad()
def sinkhorn(
    scores: Tensor,
    *,
    epsilon: float = 0.05,  # SwAV's; its CIFAR users report 0.01 to 0.03
    iterations: int | None = None,
    tolerance: float | None = None,
    row_marginal: Tensor | None = None,
    column_marginal: Tensor | None = None,
    group: Group = None,
) -> Tensor:
    """Codes Q_ik = exp(s_ik/ε + u_i + v_k): each sample shared out over prototypes that must all be used.

    ``scores`` (n, K) are samples × prototypes; across the processes of ``group``, the rows of this process (uneven
    numbers, even none on some, are allowed). The codes (n, K) have rows that sum to 1 and carry no gradient. They are
    float32, or float64 for float64 scores. The transport plan itself, whose rows sum to the sample marginal, is
    ``codes * row_marginal[:, None]`` with the marginal normalised.

    One iteration scales the prototypes to their marginal, then the samples to theirs. Either ``iterations`` of them
    (3 unless told, which is SwAV's result), or as many as bring the error of the prototype marginal,
    Σ_k|Σ_i r_i Q_ik − c_k|, to ``tolerance``; ``iterations`` is then the most allowed (1000 unless told), and not
    getting there is a :class:`DataError`.

    ``row_marginal`` (n,) says how much each sample weighs, ``column_marginal`` (K,) how much each prototype receives;
    both positive, uniform unless given, each divided by its own total. Across processes the first holds this process's
    rows and the second is the same everywhere.

    Log-domain: only the ratio max|s|/ε limits it. In float32 the codes differ from float64's by about
    1e-7 · max|s|/ε, that is 1e-4 for cosines at ε = 0.001, and a tolerance below 1e-6 may be out of reach. Costs one
    softmax over the scores an iteration and memory for the codes alone.

    SeLa (Asano et al. 2020) raises probabilities to the power λ: pass log-probabilities with ``epsilon=1/λ`` in
    float64. Its stopping rule, Σ_i|a_i/a_i' − 1| < 0.1 over the sample scalings, is implied by ``tolerance=0.1/n``.

    Cuturi 2013; Caron et al. 2020 (SwAV).
    """
    iterations = _checked_iterations(epsilon, iterations, tolerance)
    dtype = torch.float64 if scores.dtype == torch.float64 else torch.float32
    refuse_together(_problem(scores, epsilon, dtype, row_marginal, column_marginal), group, scores.device)
    total = sum(row_counts(scores, group))
    if total == 0 or scores.shape[1] == 0:
        raise ShapeError(f"sinkhorn needs at least one sample and one prototype; got {total} and {scores.shape[1]}")
    weights, shares = _marginals(scores, total, dtype, row_marginal, column_marginal, group)
    with torch.autocast(scores.device.type, enabled=False):
        potential = shares.log() - _column_log_sum(scores, epsilon, dtype, group)  # v; u follows from it by softmax
        for done in range(1, iterations + (tolerance is not None)):
            mass = _prototype_mass(scores, epsilon, potential, weights, group)
            if tolerance is not None and _is_close(mass, shares, tolerance, done, iterations, group):
                break
            potential += shares.log() - mass.clamp_min(torch.finfo(dtype).tiny).log()
        codes = torch.empty(scores.shape, dtype=dtype, device=scores.device)
        for start, block in _blocks(scores, dtype):
            _softmax_block(block, epsilon, potential, codes[start : start + len(block)])
        return codes


def _is_close(mass: Tensor, shares: Tensor, tolerance: float, done: int, iterations: int, group: Group) -> bool:
    """Whether the prototypes have their shares, on every process; after the last iteration that must be so."""
    error = float((mass - shares).abs().sum())
    if not any_process(not error <= tolerance, group, mass.device):
        return True
    if done == iterations:
        raise DataError(
            f"sinkhorn reached an error of {error:.2g} in {iterations} iterations, not the tolerance {tolerance:.2g}; "
            "allow more iterations, a larger epsilon or tolerance, or use float64"
        )
    return False


def _softmax_block(block: Tensor, epsilon: float, potential: Tensor, out: Tensor) -> None:
    """Rows of the codes under potential v: softmax over prototypes of s/ε + v."""
    torch.add(potential, block, alpha=1 / epsilon, out=out)
    torch.softmax(out, dim=1, out=out)


def _prototype_mass(scores: Tensor, epsilon: float, potential: Tensor, weights: Tensor, group: Group) -> Tensor:
    """(K,) Σ_i r_i Q_ik over all processes' rows.

    Never underflows for reasonable marginals: the potential was just set so that column k held c_k, and scaling a row
    to r_i multiplies it by at least r_i, so the mass is at least c_k · min r.
    """
    mass = torch.zeros_like(potential)
    buffer = torch.empty(_block_rows(scores), scores.shape[1], dtype=potential.dtype, device=scores.device)
    for start, block in _blocks(scores, potential.dtype):
        rows = buffer[: len(block)]
        _softmax_block(block, epsilon, potential, rows)
        mass += weights[start : start + len(block)] @ rows
    return sum_over_processes(mass, group)


def _column_log_sum(scores: Tensor, epsilon: float, dtype: torch.dtype, group: Group) -> Tensor:
    """(K,) log Σ_i exp(s_ik/ε) over all processes' rows: maximum first, then the sum."""
    highest = torch.full((scores.shape[1],), -torch.inf, dtype=dtype, device=scores.device)
    if len(scores):
        highest = torch.maximum(highest, scores.amax(dim=0).to(dtype))
    highest = max_over_processes(highest, group)
    total = torch.zeros_like(highest)
    buffer = torch.empty(_block_rows(scores), scores.shape[1], dtype=dtype, device=scores.device)
    for _, block in _blocks(scores, dtype):
        below = torch.sub(block, highest, out=buffer[: len(block)])  # at most 0, whatever the rounding of 1/ε
        total += below.mul_(1 / epsilon).exp_().sum(dim=0)
    return highest / epsilon + sum_over_processes(total, group).log()


def _block_rows(scores: Tensor) -> int:
    return max(1, BLOCK_ELEMENTS // scores.shape[1])


def _blocks(scores: Tensor, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
    """(first row, rows) of consecutive blocks, in the precision of the computation."""
    step = _block_rows(scores)
    for start in range(0, len(scores), step):
        yield start, scores[start : start + step].to(dtype)


def _marginals(
    scores: Tensor, total: int, dtype: torch.dtype, row: Tensor | None, column: Tensor | None, group: Group
) -> tuple[Tensor, Tensor]:
    """Both marginals with total 1: this process's share of the samples' (n,), and the prototypes' (K,)."""
    (n, prototypes), device = scores.shape, scores.device
    if row is None:
        weights = torch.full((n,), 1 / total, dtype=dtype, device=device)
    else:
        weights = row.to(device, dtype)
        weights = weights / sum_over_processes(weights.sum(), group)
    if column is None:
        return weights, torch.full((prototypes,), 1 / prototypes, dtype=dtype, device=device)
    shares = column.to(device, dtype)
    return weights, shares / shares.sum()


def _checked_iterations(epsilon: float, iterations: int | None, tolerance: float | None) -> int:
    if not 0 < epsilon < math.inf:
        raise SettingError(f"epsilon must be positive and finite; got {epsilon}")
    if tolerance is not None and not 0 < tolerance < math.inf:
        raise SettingError(f"tolerance must be positive and finite; got {tolerance}")
    if iterations is None:
        return 3 if tolerance is None else 1000
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise SettingError(f"iterations must be a whole number of at least 1; got {iterations}")
    return iterations


def _problem(
    scores: Tensor, epsilon: float, dtype: torch.dtype, row: Tensor | None, column: Tensor | None
) -> EigenviewError | None:
    """What is wrong with this process's rows, if anything."""
    if scores.ndim != 2 or not scores.is_floating_point():
        return ShapeError(f"scores must be a floating (n, K) matrix; got {tuple(scores.shape)}, {scores.dtype}")
    if scores.numel():
        lowest, highest = (float(extreme) for extreme in torch.aminmax(scores))  # both are NaN if any score is
        largest = max(-lowest, highest)
        if not math.isfinite(largest):
            return DataError(f"scores must be finite; got values from {lowest} to {highest}")
        if largest / epsilon > torch.finfo(dtype).max / 8:
            return DataError(
                f"scores / epsilon overflows {dtype}: scores reach {largest:.2g}, epsilon is {epsilon:.2g}; "
                "normalise embeddings and prototypes, or use a larger epsilon"
            )
    for name, marginal, length in (("row", row, scores.shape[0]), ("column", column, scores.shape[1])):
        if marginal is None:
            continue
        if marginal.shape != (length,):
            return ShapeError(
                f"{name}_marginal must have shape ({length},) for these scores; got {tuple(marginal.shape)}"
            )
        if not bool(((marginal > 0) & marginal.isfinite()).all()):
            return DataError(f"{name}_marginal must be positive and finite; the smallest is {float(marginal.min()):g}")
    return None
