"""Methods of prototypes (Caron et al., 2020).

SwAV: each crop predicts the code of another, codes balanced by transport.
DeepCluster-v2 and SeLa-v2: every crop predicts its image's cluster in a memory bank.
"""

import math
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.distributed import gather_rows
from eigenview.graph.clustering import spherical_kmeans
from eigenview.graph.transport import sinkhorn
from eigenview.losses import SwappedAssignment, cluster_assignment
from eigenview.losses.prototypes import IGNORED
from eigenview.methods.method import (
    Method,
    MethodContext,
    MethodSettings,
    Pass,
    StepOutput,
    ViewedBatch,
    by_view,
    objective_from,
    watched,
)
from eigenview.nn import CropQueue, Encoder, MemoryBank, Prototypes


class SwAVSettings(MethodSettings):
    head: str = "swav"
    prototypes: int = Field(3000, ge=2)
    temperature: float = Field(0.1, gt=0)
    form: Literal["averaged", "summed"] = "averaged"  # over pairs of crops: the authors' code, or the paper
    epsilon: float = Field(0.05, gt=0)  # lower (0.01 to 0.03) on CIFAR
    sinkhorn_iterations: int = Field(3, ge=0)  # 0: codes by softmax alone, which may all fall on one prototype
    queue: int = Field(0, ge=0)  # rows over all processes; 3840 for batches of 256, 0 for none
    queue_from_epoch: int = Field(15, ge=0)
    frozen_steps: int | None = Field(None, ge=0)  # prototypes stay put so long; None: one epoch


class SwAVMethod(Method):
    settings_type: ClassVar = SwAVSettings
    settings: SwAVSettings

    def __init__(self, encoder: Encoder, settings: SwAVSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        self.head = self.build_head()
        width = self.head.output_width
        self.prototypes = Prototypes(width, settings.prototypes)
        self.objective = objective_from(SwappedAssignment, settings, context.group)
        self.queue = CropQueue(context.views[0], settings.queue, width) if settings.queue else None

    def step(self, batch: ViewedBatch) -> StepOutput:
        self.prototypes.normalize_()
        embeddings = normalize(self.head(self.features(batch)), dim=1)
        scores = by_view(self.prototypes(embeddings)[0], batch.items)
        views = by_view(embeddings, batch.items)
        large = self.context.views[0]
        codes = self._codes([score.detach() for score in scores[:large]], views[:large], batch.epoch)
        return StepOutput(self.objective(scores, codes), watched(views, large), prototypes_used=used_share(codes[0]))

    @torch.no_grad()
    def _codes(self, scores: list[Tensor], views: list[Tensor], epoch: int) -> list[Tensor]:
        """Balanced codes of the large crops; earlier embeddings in the queue help small batches to be balanced."""
        group = self.context.group
        before: list[list[Tensor]] = [[] for _ in scores]
        if self.queue is not None and epoch >= self.settings.queue_from_epoch:
            if self.queue.is_full:
                weight = self.prototypes.weight()
                before = [[self.queue.share(crop, group) @ weight.T] for crop in range(len(scores))]
            if self.training:
                self.queue.enqueue(views, group)
        if self.settings.sinkhorn_iterations == 0:
            return [(score / self.settings.epsilon).softmax(dim=1) for score in scores]
        return [
            sinkhorn(
                torch.cat([*earlier, score]),
                epsilon=self.settings.epsilon,
                iterations=self.settings.sinkhorn_iterations,
                group=group,
            )[-len(score) :]
            for earlier, score in zip(before, scores, strict=True)
        ]

    def before_update(self, step: int) -> None:
        frozen = self.settings.frozen_steps
        if step < (self.context.steps_per_epoch if frozen is None else frozen):
            self.prototypes.freeze_gradients()

    def chance_level(self, items: int) -> float:
        views = self.context.views
        return self.objective.chance_level(self.settings.prototypes, crops=sum(views), code_crops=views[0])


def used_share(codes: Tensor) -> Tensor:
    """exp(entropy) of the prototypes' mean usage, as a share of their number (at most the batch can use)."""
    usage = codes.double().mean(dim=0)
    entropy = -torch.special.xlogy(usage, usage).sum()
    share: Tensor = entropy.exp() / min(codes.shape)
    return share.float()


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
