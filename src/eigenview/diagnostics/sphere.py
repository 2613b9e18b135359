"""Where the embeddings lie on the sphere: alignment, uniformity with its floor, mean cosine, tolerance.

Alignment, mean cosine and tolerance are linear in n and exact; uniformity compares all pairs and is estimated from
sampled anchors, each against every row, once there are more rows than anchors. Rows are put on the unit sphere.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.diagnostics.estimates import Estimate, log_mean_of_sample
from eigenview.diagnostics.rows import Embeddings, open_pair, open_rows, sampled_rows
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.blocks import Mask
from eigenview.graph.kernels import InnerProductKernel
from eigenview.graph.streaming import reduce_rows

ANCHORS = 2048  # sampled for what is quadratic in n; the interval narrows by their square root

Labels = Tensor | NDArray[np.integer]


def alignment_figure(z_a: Embeddings, z_b: Embeddings, *, alpha: float = 2.0) -> float:
    """How close positives are: mean_i ‖x_i − y_i‖₂^alpha (Wang & Isola 2020). In [0, 2^alpha]; exact.

    ``z_a``, ``z_b`` (n, d): two views, row by row.
    """
    if not alpha > 0:
        raise SettingError(f"alpha must be positive; got {alpha}")
    first, second = (view.on_sphere() for view in open_pair(z_a, z_b, least=1))
    total = 0.0
    for start, x in first.blocks():
        difference = x.double() - second.block(start, start + len(x)).double()
        total += float(torch.linalg.vector_norm(difference, dim=1).pow(alpha).sum())
    return total / first.n


def uniformity_figure(embeddings: Embeddings, *, t: float = 2.0, anchors: int = ANCHORS, seed: int = 0) -> Estimate:
    """How evenly rows cover the sphere: log mean_{i≠j} exp(−t‖x_i − x_j‖²) (Wang & Isola 2020), from sampled i.

    ``embeddings`` (n, d), n ≥ 2. Each anchor is compared with all other rows, so the only error is that of a mean
    over sampled anchors. 0 when collapsed; :func:`uniformity_floor` when uniform.
    """
    if not 0 < t < math.inf:
        raise SettingError(f"t must be positive and finite; got {t}")
    rows = open_rows(embeddings, least=2).on_sphere()
    chosen = sampled_rows(rows.n, anchors, seed)
    scaled = 2 * t * rows.take(chosen)  # −t‖x − y‖² = 2t·cos − 2t
    log_sums = torch.full((len(chosen),), -math.inf, dtype=torch.float64)
    for start, block in rows.blocks():
        here = torch.nonzero((chosen >= start) & (chosen < start + len(block))).flatten()
        own = (here.to(rows.device), (chosen[here] - start).to(rows.device))
        sums = reduce_rows(scaled, block, InnerProductKernel(), mask=Mask(excluded=own))
        log_sums = torch.logaddexp(log_sums, sums.cpu().double())
    return log_mean_of_sample(log_sums - 2 * t - math.log(rows.n - 1), rows.n)


def mean_cosine(embeddings: Embeddings) -> float:
    """The mean cosine of distinct rows, (‖Σu‖² − n)/(n(n−1)): 1 when collapsed, about 0 when spread. Exact, linear."""
    rows = open_rows(embeddings, least=2).on_sphere()
    total = rows.mean() * rows.n
    return (float(total.square().sum()) - rows.n) / (rows.n * (rows.n - 1))


def unrelated_alignment(z_a: Embeddings, z_b: Embeddings) -> float:
    """What alignment (alpha 2) would be for views of different items: mean_{i≠j} ‖x_i − y_j‖², exact and linear."""
    first, second = (view.on_sphere() for view in open_pair(z_a, z_b))
    same = 1 - alignment_figure(first, second) / 2  # the mean of x_i·y_i; of x_i·y_j over all pairs it is the next
    across = float(first.mean() @ second.mean())
    return 2 - 2 * (first.n * across - same) / (first.n - 1)


def tolerance(embeddings: Embeddings, labels: Labels) -> float:
    """The mean cosine of distinct rows with the same label (Wang & Liu 2021): high when a class holds together.

    ``labels`` (n,) whole numbers; rows labelled below 0 are left out. Exact and linear, by the sum of each class:
    Σ_c (‖s_c‖² − n_c) / Σ_c n_c(n_c − 1).
    """
    rows = open_rows(embeddings, least=2).on_sphere()
    numbers = checked_labels(labels, rows.n)
    names, member = torch.unique(numbers, return_inverse=True)
    sums = torch.zeros(len(names), rows.d, dtype=torch.float64)
    for start, block in rows.blocks():
        sums.index_add_(0, member[start : start + len(block)], block.cpu().double())
    sums, counts = sums[names >= 0], torch.bincount(member)[names >= 0].double()
    pairs = float((counts * (counts - 1)).sum())
    if not pairs:
        raise DataError(f"tolerance needs a label that two rows share; got {len(counts)} labels for {rows.n} rows")
    return float(sums.square().sum() - counts.sum()) / pairs


def checked_labels(labels: Labels, n: int) -> Tensor:
    """Labels as an integer tensor (n,) on the CPU."""
    numbers = torch.as_tensor(np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels))
    if numbers.shape != (n,):
        raise ShapeError(f"labels must have shape ({n},), one per row; got {tuple(numbers.shape)}")
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise ShapeError(f"labels must be whole numbers; got {numbers.dtype}")
    return numbers.long()
