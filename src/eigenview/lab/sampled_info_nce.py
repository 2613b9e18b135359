"""InfoNCE on batches of pairs drawn from a graph π, against H_π^k(Z), the cross-entropy of the two random graphs.

A batch is B pairs (i, i') ~ π, 2B views. Each view's log-partition runs over the other 2B − 1, so it grows as
log(2B − 1) where H's grows as log(n − 1): the loss is compared after adding log((n−1)/(2B−1)). What remains is
- a bias of order 1/B: log of a mean of few negatives is too small (Jensen), while the positive, one of 2B − 1 terms
  instead of one of n − 1, makes it too large;
- oneself: on a finite set of objects a batch may hold an object twice, and a copy of oneself counts as a negative.
  H leaves oneself out. ``copies="apart"`` leaves copies out too, and converges to H; ``copies="count"`` is the loss
  that everybody computes, and converges to H with oneself in the partition. The difference falls as 1/n;
- weights: anchors are drawn as often as π says, so H weights rows by π's row sums (equal in a balanced graph).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from eigenview.errors import DataError
from eigenview.graph import Kernel
from eigenview.lab.descent import drawn_pairs
from eigenview.lab.figures import Interval, interval
from eigenview.lab.planted import row_normalised

Copies = Literal["apart", "count"]


@dataclass(frozen=True)
class Population:
    """A finite set of objects with π (n, n), symmetric, total 1, no self-edges; and embeddings (n, d) of them."""

    pairs: Tensor
    embeddings: Tensor
    kernel: Kernel

    @cached_property
    def log_kernel(self) -> Tensor:
        return self.kernel(self.embeddings, self.embeddings)

    @cached_property
    def similarities(self) -> Tensor:
        """k (n, n) with a diagonal of 0."""
        return self.log_kernel.exp().fill_diagonal_(0)

    @cached_property
    def own(self) -> Tensor:
        """(n,) k(z_i, z_i)."""
        return self.log_kernel.diagonal().exp()

    @property
    def weight(self) -> Tensor:
        """(n,) how often an object is drawn: π's row sums."""
        return self.pairs.sum(dim=1)

    def cross_entropy(self, copies: Copies = "apart") -> float:
        """The limit, per anchor: −Σ_i w_i Σ_j P_ij log k_ij + Σ_i w_i log((n−1) E_l[k_il]), l drawn by weight.

        For a balanced π, w_i = 1/n, and ``copies="apart"`` this is H_π^k(Z)/n exactly.
        """
        attraction = -(self.pairs * self.log_kernel).sum()
        average = self._average(copies)
        return float(attraction + self.weight @ (average * (len(self.pairs) - 1)).log())

    def first_order(self, copies: Copies = "apart") -> float:
        """c in E[InfoNCE] ≈ limit + c/(2B−1), by the delta method.

        Per anchor i with the limit's mean m = E[k_il]: (E_P[k_ii'] − m)/m from the positive, and with g = k − m
        −E[g_l² + g_l·g_l']/2m² from the sampled negatives, which come in pairs (l, l') ~ π and so vary together.
        With copies apart g_i = 0, and both are divided by (1 − w_i)², the share of views that are no copies.
        """
        mean, excess, present = self._excess(copies)
        positive = (row_normalised(self.pairs) * excess).sum(dim=1) / mean
        squares = excess.square() @ self.weight + torch.einsum("il,lm,im->i", excess, self.pairs, excess)
        return float(self.weight @ ((positive - squares / (2 * mean.square())) / present.square()))

    def _average(self, copies: Copies) -> Tensor:
        """(n,) E[k_il] over l drawn by weight; with copies apart, given l ≠ i."""
        if copies == "count":
            return self.similarities @ self.weight + self.own * self.weight
        return (self.similarities @ self.weight) / (1 - self.weight)

    def _excess(self, copies: Copies) -> tuple[Tensor, Tensor, Tensor]:
        """The means m (n,), k − m (n, n), and the share of views that count (n,): all but copies, if they are apart."""
        mean = self._average(copies)
        excess = self.similarities + torch.diag(self.own) - mean[:, None]
        if copies == "count":
            return mean, excess, torch.ones_like(mean)
        return mean, excess.fill_diagonal_(0), 1 - self.weight

    def info_nce(self, first: Tensor, second: Tensor, copies: Copies = "apart") -> float:
        """InfoNCE of one batch, + log((n−1)/m), m the number of terms in an anchor's partition.

        By counts of objects: a product with k (n, n), whatever the size of the batch.
        """
        nodes = len(self.pairs)
        both = torch.cat([first, second])
        counts = torch.bincount(both, minlength=nodes).to(self.similarities)
        partition, terms = self.similarities @ counts, len(both) - counts
        if copies == "count":
            partition, terms = partition + self.own * (counts - 1).clamp_min(0), torch.full_like(counts, len(both) - 1)
        rows = (partition * (nodes - 1) / terms).log()
        return float(rows[both].mean() - self.log_kernel[first, second].mean())

    def noise(self, first: Tensor, second: Tensor, copies: Copies = "apart") -> float:
        """What sampling adds to first order, with an expectation of exactly 0: taken off, few batches show the bias.

        Three averages over the batch less their expectations: of −log k over the pairs, of the log-partition over the
        anchors, and of what each view adds to all partitions.
        """
        weight, both, (mean, excess, present) = self.weight, torch.cat([first, second]), self._excess(copies)
        partition, added = mean.log(), (weight / (mean * present)) @ excess
        attraction = (self.pairs * self.log_kernel).sum() - self.log_kernel[first, second].mean()
        return float(attraction + partition[both].mean() - weight @ partition + added[both].mean())


def balanced(weights: Tensor, *, iterations: int = 5000) -> Tensor:
    """A symmetric graph scaled to equal row sums and total 1: D·W·D with the D that Sinkhorn's iteration finds.

    Not every pattern of zeros allows it (a star does not); such a graph is refused.
    """
    scale = torch.ones(len(weights), dtype=weights.dtype)
    for _ in range(iterations):
        degree = scale * (weights @ scale)
        if bool((degree - 1).abs().max() < 1e-14):
            break
        scale = scale / degree.sqrt()  # both sides at once: no oscillation
    error = float((scale * (weights @ scale) - 1).abs().max())
    if not error < 1e-10:
        raise DataError(f"this graph's zeros keep its rows from equal sums; {error:.1e} is left: add edges")
    pairs = scale[:, None] * weights * scale
    return pairs / pairs.sum()


@dataclass(frozen=True)
class BatchSize:
    """Many batches of one size: InfoNCE on the scale of H/n."""

    copies: Copies
    batch: int  # pairs
    value: Interval
    spread: float  # standard deviation from batch to batch
    bias: Interval  # less the limit, the noise of first order taken off
    foretold: float  # c/(2B−1)


def measured(
    population: Population, batch: int, copies: Copies, *, batches: int, generator: torch.Generator
) -> BatchSize:
    """Draw ``batches`` batches of ``batch`` pairs and compare them with the limit."""
    limit = population.cross_entropy(copies)
    values, quiet = [], []
    for _ in range(batches):
        draw = drawn_pairs(population.pairs, batch, generator)
        values.append(population.info_nce(*draw, copies))
        quiet.append(values[-1] - population.noise(*draw, copies) - limit)
    spread = float(torch.tensor(values).std())
    foretold = population.first_order(copies) / (2 * batch - 1)
    return BatchSize(copies, batch, interval(values), spread, interval(quiet), foretold)
