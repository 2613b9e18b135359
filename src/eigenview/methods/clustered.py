"""DeepCluster-v2 and SeLa-v2: every crop predicts its image's cluster in a memory bank (Caron et al., 2020)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.distributed import gather_rows
from eigenview.graph.clustering import spherical_kmeans
from eigenview.graph.transport import sinkhorn
from eigenview.losses import cluster_assignment
from eigenview.losses.prototypes import IGNORED
from eigenview.methods.method import (
    Method,
    MethodContext,
    MethodParts,
    MethodSettings,
    Pass,
    StepOutput,
    ViewedBatch,
    by_view,
    prototype_parts,
    watched,
)
from eigenview.methods.swav import used_share
from eigenview.nn import Encoder, MemoryBank, Prototypes


class ClusteredSettings(MethodSettings):
    head: str = "swav"
    prototypes: tuple[int, ...] = (3000, 3000, 3000)  # one number per head
    temperature: float = Field(0.1, gt=0)
    iterations: int = Field(10, ge=1)  # of k-means


class DeepClusterV2Method(Method):
    """Centroids of the bank become the prototypes at each epoch; they are never trained."""

    settings_type: ClassVar[type[ClusteredSettings]] = ClusteredSettings
    needs_index: ClassVar = True
    trains_prototypes: ClassVar[bool] = False
    settings: ClusteredSettings
    assignment: Tensor

    def __init__(self, encoder: Encoder, settings: ClusteredSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        assert context.items is not None
        self.head = self.build_head()
        width = self.head.output_width
        self.prototypes = Prototypes(width, settings.prototypes).requires_grad_(self.trains_prototypes)
        self.bank = MemoryBank(context.views[0], context.items, width)
        start = torch.full((len(settings.prototypes), context.items), IGNORED)
        self.register_buffer("assignment", start)

    def start_epoch(self, epoch: int, whole_pass: Pass) -> None:
        if not bool(self.bank.seen.any()):
            self._fill_bank(whole_pass)
        self.assignment.fill_(IGNORED)
        for head in range(len(self.settings.prototypes)):
            index, rows = self.bank.share(head % self.context.views[0], self.context.group)
            labels = self._assign(head, rows, epoch)
            everyone = gather_rows(index, self.context.group)
            self.assignment[head, everyone] = gather_rows(labels, self.context.group)

    @torch.no_grad()
    def _fill_bank(self, whole_pass: Pass) -> None:
        for batch in whole_pass():
            views = by_view(normalize(self.head(self.encode(batch.groups[0])), dim=1), batch.items)
            self.bank.update(batch.indices, views[: self.context.views[0]], self.context.group)

    def _assign(self, head: int, rows: Tensor, epoch: int) -> Tensor:
        """Clusters of this process's share of the bank; the centroids overwrite the head's prototypes."""
        clusters = spherical_kmeans(
            rows,
            self.settings.prototypes[head],
            iterations=self.settings.iterations,
            start="random",
            seed=self.context.seed + 1000 * epoch + head,
            group=self.context.group,
        )
        self.prototypes.set_(head, clusters.centroids)
        return clusters.assignment

    def step(self, batch: ViewedBatch) -> StepOutput:
        self.prototypes.normalize_()
        embeddings = normalize(self.head(self.features(batch)), dim=1)
        per_head = [by_view(scores, batch.items) for scores in self.prototypes(embeddings)]
        losses = [
            cluster_assignment(
                scores,
                self.assignment[head, batch.indices],
                temperature=self.settings.temperature,
                group=self.context.group,
            )
            for head, scores in enumerate(per_head)
        ]
        views = by_view(embeddings, batch.items)
        large = self.context.views[0]
        if self.training:
            self.bank.update(batch.indices, [view.detach() for view in views[:large]], self.context.group)
        sharp = (per_head[0][0].detach() / self.settings.temperature).softmax(dim=1)
        return StepOutput(torch.stack(losses).mean(), watched(views, large), prototypes_used=used_share(sharp))

    def parts(self) -> MethodParts:
        return prototype_parts(super().parts(), self.prototypes)

    def chance_level(self, items: int) -> float:
        return sum(math.log(count) for count in self.settings.prototypes) / len(self.settings.prototypes)


class SeLaSettings(ClusteredSettings):
    epsilon: float = Field(0.05, gt=0)
    sinkhorn_iterations: int = Field(30, ge=1)  # ours: enough to balance a whole bank


class SeLaV2Method(DeepClusterV2Method):
    """Balanced assignments by transport instead of k-means; prototypes are trained, not overwritten.

    Never released; as its maintainer describes it. Labels are the transport's largest entry, as in SeLa.
    """

    settings_type: ClassVar = SeLaSettings
    trains_prototypes: ClassVar = True
    settings: SeLaSettings

    @torch.no_grad()
    def _assign(self, head: int, rows: Tensor, epoch: int) -> Tensor:
        self.prototypes.normalize_()
        scores = rows @ self.prototypes.weight(head).T
        codes = sinkhorn(
            scores,
            epsilon=self.settings.epsilon,
            iterations=self.settings.sinkhorn_iterations,
            group=self.context.group,
        )
        return codes.argmax(dim=1)
