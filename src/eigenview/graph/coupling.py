"""The one equation: a coupling of two graphs over views.

The target graph P says which views belong together; the kernel graph k is what the embeddings say. A prior makes k a
probability Q over the partition set, and a divergence compares P with Q. Streamed (:mod:`eigenview.graph.streaming`),
exact, and the same on any number of processes (:mod:`eigenview.distributed`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from eigenview.distributed import (
    Group,
    gather_rows,
    max_over_processes,
    refusing_together,
    row_counts,
    row_offset,
    sum_over_processes,
)
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph import checks
from eigenview.graph.blocks import Mask
from eigenview.graph.eager import eager
from eigenview.graph.edges import Graph
from eigenview.graph.held import EDGES_HELD, HeldGraph
from eigenview.graph.kernels import Kernel
from eigenview.graph.partition import partition_mask, positives_over
from eigenview.graph.targets import PARTITION_SETS, Edges, PartitionSet, Positives, SameItem, Target, WeightedGraph

Prior = Literal["out_degree", "edges", "bernoulli"]
Divergence = Literal["cross_entropy", "absolute", "squared"]


class Terms(NamedTuple):
    """The two halves of a cross-entropy: −Σ P log k, which pulls, and the log-partition, which pushes."""

    attraction: Tensor
    repulsion: Tensor


@dataclass(frozen=True)
class Coupling:
    """An objective: how the kernel graph becomes a probability Q, and how Q is compared with the target P.

    ``prior``: ``out_degree`` (each anchor picks one neighbour, rows of Q sum to 1), ``edges`` (the whole of Q sums
    to 1), ``bernoulli`` (every edge by itself, Q = k/(1+k)). ``divergence``: ``cross_entropy`` with any prior;
    ``absolute`` Σ|P−Q| and ``squared`` Σ(P−Q)² with ``out_degree``. ``partition``: see ``PARTITION_SETS``.
    ``reduction``: ``mean`` over the anchors that have a positive, or ``sum`` (``edges`` has one value either way).
    """

    kernel: Kernel
    prior: Prior = "out_degree"
    divergence: Divergence = "cross_entropy"
    partition: PartitionSet = "others"
    reduction: Literal["mean", "sum"] = "mean"
    normalize: bool = True  # to the unit sphere
    check_values: bool = True  # refuse NaN, Inf and, on the sphere, zero rows: one pass over the embeddings
    block_size: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _require_one_of("prior", self.prior, get_args(Prior))
        _require_one_of("divergence", self.divergence, get_args(Divergence))
        _require_one_of("partition", self.partition, tuple(PARTITION_SETS))
        _require_one_of("reduction", self.reduction, ("mean", "sum"))
        if not isinstance(self.kernel, Kernel):
            raise SettingError(f"kernel must be a Kernel such as GaussianKernel(0.5); got {self.kernel!r}")
        if self.divergence != "cross_entropy" and self.prior != "out_degree":
            raise SettingError(f"the {self.divergence} divergence needs prior out_degree; got {self.prior}")
        if self.divergence != "cross_entropy" and self.partition in ("negatives", "same_view", "extra"):
            raise SettingError(
                f"the {self.divergence} divergence compares Q with positives inside the partition set; "
                f"got partition {self.partition}"
            )
        if self.block_size is not None and self.block_size < 1:
            raise SettingError(f"block_size must be at least 1; got {self.block_size}")

    @eager
    def __call__(
        self,
        anchors: Tensor,
        candidates: Tensor | None = None,
        *,
        target: Target,
        extra: Tensor | None = None,
        group: Group = None,
    ) -> Tensor:
        """The loss. ``anchors`` (n, d) of this process; ``candidates`` (m, d) of this process, None when the anchors
        are their own; ``extra`` (e, d) candidates without positives, the same on every process."""
        bound = _Bound.of(self, anchors, candidates, target, extra, group)
        if self.divergence == "cross_entropy":
            return bound.cross_entropy()
        return bound.distance_to_indicators()

    @eager
    def terms(
        self,
        anchors: Tensor,
        candidates: Tensor | None = None,
        *,
        target: Target,
        extra: Tensor | None = None,
        group: Group = None,
    ) -> Terms:
        """The cross-entropy's two halves apart."""
        if self.divergence != "cross_entropy":
            raise SettingError(f"only cross_entropy falls into two terms; this coupling is {self.divergence}")
        return _Bound.of(self, anchors, candidates, target, extra, group).terms()


@eager
def log_partition(
    embeddings: Tensor, kernel: Kernel, *, normalize: bool = True, check_values: bool = True, group: Group = None
) -> Tensor:
    """log Σ_{i≠j} k(z_i, z_j) over the ordered pairs of ``embeddings`` (n, d): what the ``edges`` prior pushes with."""
    alone = SameItem(torch.arange(len(embeddings), device=embeddings.device))  # no positives
    spec = Coupling(kernel, prior="edges", normalize=normalize, check_values=check_values)
    return _Bound.of(spec, embeddings, None, alone, None, group).log_partition_of_all()


def log_sum_over_all(rows: Tensor, group: Group) -> Tensor:
    """log Σ exp(rows) over all rows of all processes."""
    highest = max_over_processes(rows.detach().max(), group)
    return sum_over_processes((rows - highest).exp().sum(), group).log() + highest


@dataclass(frozen=True)
class _Bound:
    """A coupling with its data: gathered, scaled, positives found."""

    spec: Coupling
    graph: Graph
    positives: Positives
    mask: Mask
    are_positives_apart: bool  # left out of the streamed sum and added from the list
    group: Group

    @classmethod
    def of(
        cls,
        spec: Coupling,
        anchors: Tensor,
        candidates: Tensor | None,
        target: Target,
        extra: Tensor | None,
        group: Group,
    ) -> _Bound:
        own = anchors if candidates is None else candidates
        with refusing_together(group, anchors.device):
            given = {"anchors": anchors, "candidates": candidates, "extra candidates": extra}
            present = {name: rows for name, rows in given.items() if rows is not None}
            rows = checks.checked(present, normalize=spec.normalize, check_values=spec.check_values)
            spec.kernel.check()
            checks.check_partition(spec.partition, anchors, candidates, extra)
            checks.check_target(target, anchors, candidates)
        counts = row_counts(own, group)
        with refusing_together(group, anchors.device):
            if candidates is None and spec.partition in checks.WITHOUT_ONESELF:
                checks.check_enough(sum(counts))
            expected = (len(anchors), sum(counts))
            if isinstance(target, WeightedGraph) and tuple(target.weights.shape) != expected:
                given_shape = tuple(target.weights.shape)
                raise ShapeError(f"a target graph needs shape (anchors, candidates) = {expected}; got {given_shape}")

        a, y, extra = (rows.get(name) for name in given)
        assert a is not None
        self_column = None
        if candidates is None:
            start = row_offset(counts, group)
            self_column = torch.arange(start, start + len(anchors), device=anchors.device)
        positives = positives_over(target, self_column, counts, group, a.dtype)
        is_held = len(counts) == 1 and spec.block_size is None and extra is None and len(a) * counts[0] <= EDGES_HELD
        are_apart = isinstance(positives, Edges) and spec.partition in ("others", "all") and not is_held
        mask = partition_mask(spec.partition, target, positives, self_column, counts, group, are_apart=are_apart)
        graph: Graph
        if is_held:
            graph = HeldGraph.holding(spec.kernel, a, y, positives, unit=spec.normalize)
        else:
            graph = Graph.of(
                spec.kernel,
                a,
                None if y is None and len(counts) == 1 else gather_rows(a if y is None else y, group, counts=counts),
                extra,
                unit=spec.normalize,
                biased=spec.prior == "bernoulli",
                block_size=spec.block_size,
            )
        return cls(spec, graph, positives, mask, are_apart, group)

    def cross_entropy(self) -> Tensor:
        """The two terms in one sum."""
        is_usual = self.spec.prior == "out_degree" and self.spec.partition in ("others", "all")
        if is_usual and isinstance(self.graph, HeldGraph) and isinstance(self.positives, Edges):
            return self.graph.cross_entropy(self.positives, self.mask, self._scale())
        if self.spec.prior == "edges":
            terms = self.terms()
            return terms.attraction + terms.repulsion
        pull, push, scale = self._pull_and_push()
        return sum_over_processes((push - pull).sum(), self.group) / scale

    def terms(self) -> Terms:
        if self.spec.prior == "edges":
            pull, row_weight = self.graph.weighted_rows(self.positives)
            weight = sum_over_processes(row_weight.sum(), self.group)
            checks.check_positives(weight)
            return Terms(-sum_over_processes(pull.sum(), self.group) / weight, self.log_partition_of_all())
        pull, push, scale = self._pull_and_push()
        pull, push = (sum_over_processes(rows.sum(), self.group) / scale for rows in (pull, push))
        return Terms(-pull, push)

    def _pull_and_push(self) -> tuple[Tensor, Tensor, Tensor | int]:
        """Σ_j P_ij log k_ij and what normalises it, each (n,), and the number to divide by."""
        pull, row_weight = self.graph.weighted_rows(self.positives)
        if self.spec.prior == "bernoulli":
            push = self._over_partition("softplus_sum")
        else:
            push = self._over_partition("log_sum")
            push = push if self._is_one_each else row_weight * push
        return pull, push, self._scale()

    def distance_to_indicators(self) -> Tensor:
        """Σ|T−Q| or Σ(T−Q)² over the partition set. Only the positives need visiting: elsewhere T is 0 and each row of
        Q sums to 1."""
        log_partition = self._over_partition("log_sum")
        is_squared = self.spec.divergence == "squared"
        rows = self.graph.distance_rows(self.positives, log_partition, is_squared=is_squared)
        if is_squared:
            of_squares = replace(self, graph=self.graph.squared())._over_partition("log_sum")
            rows = rows + (of_squares - 2 * log_partition).exp()  # Σ Q²
        else:
            rows = rows + 1  # Σ Q
        return sum_over_processes(rows.sum(), self.group) / self._scale()

    def _over_partition(self, reduction: Literal["log_sum", "softplus_sum"]) -> Tensor:
        """(n,) log Σ k or Σ log(1+k) over each anchor's partition set.

        Listed positives enter with the very log k that pulls them: taken from a matrix product they would differ by
        its rounding, and close to the optimum, where pull and push cancel, that difference would be the gradient.
        """
        per_anchor = []
        if self.spec.partition not in ("extra", "positives_and_extra"):
            per_anchor.append(self.graph.rows(reduction, self.mask))
        if self.are_positives_apart or self.spec.partition == "positives_and_extra":
            per_anchor.append(self.graph.rows_over_positives(self.positives, reduction))
        if self.graph.extra is not None:
            per_anchor.append(self.graph.rows_over_extra(reduction))
        if reduction == "softplus_sum":
            return sum(per_anchor[1:], per_anchor[0])
        total = reduce(torch.logaddexp, per_anchor)
        if self.spec.check_values and self.spec.partition not in ("others", "all"):
            with refusing_together(self.group, total.device):
                isolated = int((total.detach() == -torch.inf).sum())
                if isolated:
                    raise DataError(
                        f"every anchor needs a candidate in its partition set ({PARTITION_SETS[self.spec.partition]}); "
                        f"{isolated} of {len(total)} anchors have none"
                    )
        return total

    def log_partition_of_all(self) -> Tensor:
        return log_sum_over_all(self._over_partition("log_sum"), self.group)

    @property
    def _is_one_each(self) -> bool:
        return isinstance(self.positives, Edges) and self.positives.is_one_each

    def _scale(self) -> Tensor | int:
        """How many anchors have a positive, over all processes; 1 when the reduction is a sum."""
        if self._is_one_each:
            return len(self.graph.anchors) if self.spec.reduction == "mean" else 1
        _, row_weight = self.graph.row_weights(self.positives)
        anchors = sum_over_processes((row_weight > 0).sum(), self.group)
        checks.check_positives(anchors)
        return anchors if self.spec.reduction == "mean" else torch.ones_like(anchors)


def _require_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
