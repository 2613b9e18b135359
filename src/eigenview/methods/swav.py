"""SwAV: each crop predicts the code of another, codes balanced by transport (Caron et al., 2020)."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.graph.transport import sinkhorn
from eigenview.losses import SwappedAssignment
from eigenview.methods.method import (
    Method,
    MethodContext,
    MethodParts,
    MethodSettings,
    StepOutput,
    ViewedBatch,
    by_view,
    objective_from,
    prototype_parts,
    watched,
)
from eigenview.nn import CropQueue, Encoder, Prototypes


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

    def parts(self) -> MethodParts:
        return prototype_parts(super().parts(), self.prototypes)

    def chance_level(self, items: int) -> float:
        views = self.context.views
        return self.objective.chance_level(self.settings.prototypes, crops=sum(views), code_crops=views[0])


def used_share(codes: Tensor) -> Tensor:
    """exp(entropy) of the prototypes' mean usage, as a share of their number (at most the batch can use)."""
    usage = codes.double().mean(dim=0)
    entropy = -torch.special.xlogy(usage, usage).sum()
    share: Tensor = entropy.exp() / min(codes.shape)
    return share.float()
