"""MoCo: a query against its key, encoded by a slow copy, and a queue of earlier keys (He et al., 2020)."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.distributed import world_size
from eigenview.losses import MomentumAlignUniform, MomentumContrast
from eigenview.losses.objective import Objective
from eigenview.methods.method import (
    Method,
    MethodContext,
    MethodSettings,
    StepOutput,
    ViewedBatch,
    by_view,
    objective_from,
    watched,
)
from eigenview.nn import Encoder, MomentumEncoder, Queue, in_micro_batches, shuffle_rows, split_batch_norm


class MoCoSettings(MethodSettings):
    """v1: ``head="moco-v1", temperature=0.07``. v2 is the default. ``symmetric`` lets each view be query once."""

    head: str = "moco-v2"
    temperature: float = Field(0.2, gt=0)
    kernel: str | None = None  # as text; None: cosine at the temperature
    denominator: Literal["key_and_queue", "queue"] = "key_and_queue"
    objective: Literal["contrast", "align-uniform"] = "contrast"
    align_weight: float = Field(3.0, ge=0)
    uniform_weight: float = Field(1.0, ge=0)
    t: float = Field(3.0, gt=0)
    within_batch: bool = True  # uniformity over the pairs of queries, too
    queue: int = Field(4096, ge=1)  # 65,536 for ImageNet
    momentum: float = Field(0.99, ge=0, le=1)  # 0.999 for ImageNet's long runs
    symmetric: bool = False
    batch_norm: Literal["shuffled", "synchronised"] = "shuffled"  # shuffled: split in parts on one process
    splits: int = Field(8, ge=1)  # parts of a batch that are normalised apart, on one process


class Embedder(nn.Module):
    """Encoder, in micro-batches if there are to be some, and head as one module."""

    def __init__(self, encoder: Encoder, head: nn.Module, micro_batch: int | None) -> None:
        super().__init__()
        self.encoder, self.head, self.micro_batch = encoder, head, micro_batch

    def forward(self, images: Tensor) -> Tensor:
        embeddings: Tensor = self.head(in_micro_batches(self.encoder, images, self.micro_batch))
        return embeddings


class MoCoMethod(Method):
    settings_type: ClassVar = MoCoSettings
    settings: MoCoSettings

    def __init__(self, encoder: Encoder, settings: MoCoSettings, context: MethodContext) -> None:
        if settings.batch_norm == "shuffled" and world_size(context.group) == 1:
            split_batch_norm(encoder, settings.splits)
        super().__init__(encoder, settings, context)
        self.head = self.build_head()
        self.key = MomentumEncoder(Embedder(encoder, self.head, context.micro_batch))
        kind: type[Objective] = MomentumContrast if settings.objective == "contrast" else MomentumAlignUniform
        self.objective = objective_from(kind, settings, context.group)
        self.queue = Queue(settings.queue, self.head.output_width, seed=context.seed)

    @property
    def synchronises_batch_norm(self) -> bool:
        return self.settings.batch_norm == "synchronised"

    def step(self, batch: ViewedBatch) -> StepOutput:
        images = by_view(batch.groups[0], batch.items)[:2]
        directions = [(0, 1), (1, 0)] if self.settings.symmetric else [(0, 1)]
        queries = {q: normalize(self.head(self.encode(images[q])), dim=1) for q, _ in directions}
        if self.training:
            self.key.update(self.settings.momentum)
        keys = {k: normalize(self._encode_key(images[k], batch.step), dim=1) for _, k in directions}
        queue = self.queue.snapshot()
        loss = torch.stack([self.objective(queries[q], keys[k], queue) for q, k in directions]).mean()
        if self.training:
            for _, k in directions:
                self.queue.enqueue(keys[k], self.context.group)
        return StepOutput(loss, watched([queries[0], keys[1]], 2))

    def _encode_key(self, images: Tensor, step: int) -> Tensor:
        """Keys in another company than their queries, so that batch statistics cannot give them away."""
        shuffled, back = shuffle_rows(images, self.context.group, generator=self.generator(step))
        return back(self.key(shuffled))

    def chance_level(self, items: int) -> float:
        objective = self.objective
        return objective.chance_level(self.settings.queue) if isinstance(objective, MomentumContrast) else 0.0
