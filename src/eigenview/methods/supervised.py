"""Cross-entropy with labels, in the same loop with the same views: the reference row of every table."""

import math
from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from eigenview.losses.objective import mean_over_items
from eigenview.methods.method import Method, MethodContext, MethodSettings, StepOutput, ViewedBatch, by_view, watched
from eigenview.methods.pairwise import known_labels
from eigenview.nn import Encoder


class SupervisedMethod(Method):
    needs_labels: ClassVar = True
    fewest_views: ClassVar = 1

    def __init__(self, encoder: Encoder, settings: MethodSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        assert context.classes is not None
        self.classifier = nn.Linear(encoder.feature_width, context.classes)

    def step(self, batch: ViewedBatch) -> StepOutput:
        features = self.features(batch)
        scores = by_view(self.classifier(features), batch.items)
        labels = known_labels(batch)
        rows = torch.stack([cross_entropy(view, labels, reduction="none") for view in scores]).mean(dim=0)
        loss = mean_over_items(rows, self.context.group)
        correct = (scores[0].argmax(dim=1) == labels).float().mean()
        embeddings = watched(by_view(features, batch.items), self.context.views[0])
        return StepOutput(loss, embeddings, {"accuracy": correct})

    def chance_level(self, items: int) -> float:
        assert self.context.classes is not None
        return math.log(self.context.classes)
