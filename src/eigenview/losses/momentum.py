"""Momentum contrast: a query against its own key and a queue of earlier keys (He et al., 2020)."""

import math
from typing import Literal

import torch
from torch import Tensor

from eigenview.distributed import Group, refusing_together, row_counts
from eigenview.errors import SettingError
from eigenview.graph.checks import check_embeddings, check_same_shape, checked
from eigenview.graph.coupling import Coupling, log_partition, log_sum_over_all
from eigenview.graph.geometry import at_least_float32
from eigenview.graph.kernels import CosineKernel, GaussianKernel, Kernel
from eigenview.graph.scalars import Scalar
from eigenview.graph.streaming import reduce_rows
from eigenview.graph.targets import from_captions
from eigenview.losses.objective import Objective, mean_over_items, own_ids

Denominator = Literal["key_and_queue", "queue"]


def momentum_contrast(
    query: Tensor,
    key: Tensor,
    queue: Tensor,
    *,
    temperature: Scalar = 0.2,
    kernel: Kernel | None = None,
    denominator: Denominator = "key_and_queue",
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """mean_i −log[ exp(q_i·k_i/τ) / (exp(q_i·k_i/τ) + Σ_m exp(q_i·u_m/τ)) ], u the queue.

    ``query``, ``key`` (n, d); ``queue`` (K, d), the same on every process. No gradient reaches key or queue; other keys
    of the batch are not negatives; one direction. ``kernel`` replaces the cosine at τ (v1 0.07, v2 0.2).
    ``denominator="queue"`` leaves the key out, as Kernel-InfoNCE's MoCo script does: the loss may then be negative.
    Enqueue the keys *after* the loss. Chance (constant embeddings and queue): ln(K+1), or ln K for ``queue``.
    """
    if denominator not in ("key_and_queue", "queue"):
        raise SettingError(f"denominator must be key_and_queue or queue; got {denominator!r}")
    query, key, queue = (at_least_float32(rows) for rows in (query, key.detach(), queue.detach()))
    with refusing_together(group, query.device):
        check_same_shape({"query": query, "key": key})
        check_embeddings({"query": query, "key": key}, normalize=False, check_values=False)
    ids = own_ids(query, group)
    coupling = Coupling(
        CosineKernel(temperature) if kernel is None else kernel,
        partition="positives_and_extra" if denominator == "key_and_queue" else "extra",
        normalize=normalize,
        check_values=check_values,
    )
    return coupling(query, key, target=from_captions(ids, ids), extra=queue, group=group)


def momentum_align_uniform(
    query: Tensor,
    key: Tensor,
    queue: Tensor,
    *,
    align_weight: float = 3.0,
    uniform_weight: float = 1.0,
    t: float = 3.0,
    within_batch: bool = True,
    normalize: bool = True,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """w_a·mean_i‖q_i − k_i‖² + w_u·log mean exp(−t·d²) over all query–queue pairs and, ``within_batch``, the distinct
    pairs of queries.

    Wang & Isola's MoCo variant: shapes and gradients as :func:`momentum_contrast`; their defaults 3·align(2) +
    1·unif(3). Chance (constant embeddings and queue): 0.
    """
    if not t > 0 or not min(align_weight, uniform_weight) >= 0:
        raise SettingError(f"t must be positive and weights not negative; got {t}, {align_weight}, {uniform_weight}")
    given = {"query": query, "key": key.detach(), "queue": queue.detach()}
    given = {name: at_least_float32(rows) for name, rows in given.items()}
    with refusing_together(group, query.device):
        check_same_shape({"query": query, "key": key})
        q, k, bank = checked(given, normalize=normalize, check_values=check_values).values()
    potential = GaussianKernel(1 / (2 * t))
    items = sum(row_counts(q, group))
    push, pairs = log_sum_over_all(reduce_rows(q, bank, potential), group), float(items * len(bank))
    if within_batch and items > 1:
        ordered = log_partition(q, potential, normalize=False, check_values=False, group=group)
        push, pairs = torch.logaddexp(push, ordered - math.log(2)), pairs + items * (items - 1) / 2
    pull = mean_over_items((q - k).square().sum(dim=1), group, count=items)
    return align_weight * pull + uniform_weight * (push - math.log(pairs))


class MomentumContrast(Objective, of=momentum_contrast):
    """:func:`momentum_contrast` as a module. The queue is the caller's."""

    temperature: Scalar = 0.2
    kernel: Kernel | None = None
    denominator: Denominator = "key_and_queue"
    normalize: bool = True

    def chance_level(self, queue: int) -> float:
        return math.log(queue + (self.denominator == "key_and_queue"))


class MomentumAlignUniform(Objective, of=momentum_align_uniform):
    """:func:`momentum_align_uniform` as a module."""

    align_weight: float = 3.0
    uniform_weight: float = 1.0
    t: float = 3.0
    within_batch: bool = True
    normalize: bool = True

    def chance_level(self) -> float:
        return 0.0
