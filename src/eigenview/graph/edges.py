"""A kernel graph over given embeddings, and the row sums that a coupling asks of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eigenview.errors import SettingError
from eigenview.graph.blocks import Mask
from eigenview.graph.kernels import BARE, Kernel, ProductKernel
from eigenview.graph.scalars import Scalar
from eigenview.graph.streaming import Reduction, edge_similarities, reduce_rows, softplus
from eigenview.graph.targets import DenseWeights, Edges, EqualIds, Positives, SoftWeights


@dataclass(frozen=True)
class Graph:
    """log k = kernel(anchors, candidates) + bias. ``candidates`` None: the anchors are their own, on this process."""

    kernel: Kernel
    anchors: Tensor
    candidates: Tensor | None
    extra: Tensor | None
    bias: Scalar
    block_size: int | None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        anchors: Tensor,
        candidates: Tensor | None,
        extra: Tensor | None,
        *,
        unit: bool,
        biased: bool,
        block_size: int | None,
    ) -> Graph:
        """Kernels that are inner products are folded into the embeddings, so that blocks are bare matrix products.

        ``biased``: the bias must stand inside log k, because a softplus is taken of it; it then becomes a column.
        """
        form = kernel.inner_form(unit=unit)
        if form is None or (biased and candidates is None):
            return cls(kernel, anchors, candidates, extra, 0.0, block_size)
        if candidates is None:
            root = form.scale**0.5
            extra = None if extra is None else extra * root
            return cls(BARE, anchors * root, None, extra, form.bias, block_size)
        anchors = anchors * form.scale
        if not biased:
            return cls(BARE, anchors, candidates, extra, form.bias, block_size)
        anchors = torch.cat([anchors, torch.ones_like(anchors[:, :1]) * form.bias], dim=1)
        candidates, extra = _with_ones(candidates), None if extra is None else _with_ones(extra)
        return cls(BARE, anchors, candidates, extra, 0.0, block_size)

    def squared(self) -> Graph:
        """The graph of k²."""
        if self.kernel is not BARE:
            return replace(self, kernel=ProductKernel((self.kernel, self.kernel)), bias=2 * self.bias)
        scale = 2.0 if self.candidates is not None else 2.0**0.5
        extra = self.extra
        if extra is not None and self.candidates is None:
            extra = extra * scale
        return replace(self, anchors=self.anchors * scale, extra=extra, bias=2 * self.bias)

    def rows(self, reduction: Reduction, mask: Mask) -> Tensor:
        return self._reduced(self.candidates, reduction, mask)

    def rows_over_extra(self, reduction: Reduction) -> Tensor:
        assert self.extra is not None
        return self._reduced(self.extra, reduction, None)

    def _reduced(self, candidates: Tensor | None, reduction: Reduction, mask: Mask | None) -> Tensor:
        size = self.block_size
        reduced = reduce_rows(self.anchors, candidates, self.kernel, reduction=reduction, mask=mask, block_size=size)
        return self._with_bias(reduced, reduction)

    def _with_bias(self, reduced: Tensor, reduction: Reduction) -> Tensor:
        is_zero = isinstance(self.bias, float) and self.bias == 0
        return reduced if is_zero or reduction != "log_sum" else reduced + self.bias

    def along(self, edges: Edges) -> Tensor:
        """log k on listed edges."""
        similarities = edge_similarities(self.anchors, self.candidates, self.kernel, (edges.row, edges.column))
        return self._with_bias(similarities, "log_sum")

    def weighted_rows(self, positives: Positives) -> tuple[Tensor, Tensor]:
        """Σ_j P_ij log k_ij and Σ_j P_ij, each (n,)."""
        _, row_weight = self.row_weights(positives)
        if isinstance(positives, Edges):
            along = self.along(positives)
            return along if positives.is_one_each else self._added(positives, positives.weight * along), row_weight
        if isinstance(positives, DenseWeights | SoftWeights):
            pull = self._over_weights(positives)
        else:
            pull = self._over_equal_ids(positives, "sum") * positives.row_weight
        return pull + row_weight * self.bias, row_weight

    def row_weights(self, positives: Positives) -> tuple[Tensor, Tensor]:
        """How many positives each anchor has, and the sum of their weights."""
        if isinstance(positives, Edges):
            return self._added(positives, torch.ones_like(positives.weight)), self._added(positives, positives.weight)
        if isinstance(positives, DenseWeights):
            return (positives.weights > 0).sum(dim=1), positives.weights.sum(dim=1)
        if isinstance(positives, SoftWeights):
            ones = torch.ones_like(positives.log_sum)
            return ones * len(positives.columns), ones
        return positives.row_count, positives.row_count * positives.row_weight

    def rows_over_positives(self, positives: Positives, reduction: Reduction) -> Tensor:
        """log Σ k or Σ log(1+k) over each anchor's positives."""
        if isinstance(positives, DenseWeights | SoftWeights):
            raise SettingError("a partition over positives needs listed ones: give the graph as a sparse tensor")
        if isinstance(positives, EqualIds):
            return self._with_bias(self._over_equal_ids(positives, reduction), reduction)
        similarities = self.along(positives)
        if reduction == "softplus_sum":
            return self._added(positives, softplus(similarities))
        if positives.is_one_each:
            return similarities
        highest = torch.full_like(self.anchors[:, 0], -torch.inf).detach()
        highest = highest.scatter_reduce(0, positives.row, similarities.detach(), "amax")
        shift = highest.nan_to_num(neginf=0.0)
        return self._added(positives, (similarities - shift[positives.row]).exp()).log() + shift

    def distance_rows(self, positives: Positives, log_partition: Tensor, *, is_squared: bool) -> Tensor:
        """Σ over positives of |T − Q| − Q, or of T² − 2 T·Q if squared, (n,)."""
        if isinstance(positives, EqualIds):
            if bool((positives.row_weight != 1).any()):
                raise SettingError(
                    "with many positives an anchor, this divergence needs a target with as_indicators=True"
                )
            return positives.row_count - 2 * (self.rows_over_positives(positives, "log_sum") - log_partition).exp()
        if not isinstance(positives, Edges):
            raise SettingError("this divergence needs listed positives: give the graph as a sparse tensor")
        t, q = positives.weight, (self.along(positives) - log_partition[positives.row]).exp()
        return self._added(positives, t.square() - 2 * t * q if is_squared else (t - q).abs() - q)

    def _added(self, edges: Edges, values: Tensor) -> Tensor:
        if edges.is_one_each:
            return values
        return values.new_zeros(len(self.anchors)).index_add(0, edges.row, values)

    def _over_weights(self, positives: DenseWeights | SoftWeights) -> Tensor:
        return reduce_rows(
            self.anchors,
            self.anchors if self.candidates is None else self.candidates,
            self.kernel,
            reduction="sum",
            weights=positives.weights if isinstance(positives, DenseWeights) else positives,
            block_size=self.block_size,
        )

    def _over_equal_ids(self, positives: EqualIds, reduction: Reduction) -> Tensor:
        """A reduction over positives found by id. Sorted by id they form blocks on the diagonal: only those are
        visited."""
        row_order = torch.argsort(positives.row_ids, stable=True)
        row_ids = positives.row_ids[row_order]
        own = self.candidates is None
        column_order = row_order if own else torch.argsort(positives.column_ids, stable=True)
        excluded = None
        if positives.self_column is not None:
            place = torch.empty_like(column_order)
            place[column_order] = torch.arange(len(place), device=place.device)
            excluded = (torch.arange(len(row_ids), device=place.device), place[positives.self_column[row_order]])
        reduced = reduce_rows(
            self.anchors[row_order],
            None if self.candidates is None else self.candidates[column_order],
            self.kernel,
            reduction=reduction,
            mask=Mask(excluded=excluded, same=(row_ids, positives.column_ids[column_order])),
            block_size=self.block_size,
        )
        return torch.zeros_like(reduced).index_add(0, row_order, reduced)


def _with_ones(embeddings: Tensor) -> Tensor:
    return torch.cat([embeddings, torch.ones_like(embeddings[:, :1])], dim=1)
