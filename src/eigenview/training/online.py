"""Online k-nearest neighbours: how features fare while they are trained. Labels are looked at, never learnt from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from eigenview.data import Source, subset
from eigenview.distributed import Group, gather_rows, world_size
from eigenview.evaluation import knn_predict
from eigenview.evaluation.features import evaluating, evaluation_batches
from eigenview.nn import Encoder
from eigenview.views import CentreView

ITEMS = 5000  # of the source that are looked at, so that a look costs seconds
QUERIES = 0.2  # share of them that ask; the others answer
NEIGHBOURS = 20


class OnlineKnn:
    """20-NN accuracy of the features before the head on a fixed sample of the labelled training items."""

    def __init__(self, source: Source, view: CentreView, *, seed: int, workers: int | str, group: Group) -> None:
        labels = np.asarray(source.labels)
        labelled = np.flatnonzero(labels >= 0)
        chosen = np.random.default_rng(seed).permutation(labelled)[:ITEMS]
        queries = round(QUERIES * len(chosen))
        self._asking = torch.from_numpy(np.isin(np.sort(chosen), chosen[:queries]))
        self._sample, self._view = subset(source, np.sort(chosen)), view
        self._workers, self._group = workers, group

    @classmethod
    def if_possible(
        cls, source: Source, view: CentreView, *, seed: int, workers: int | str, group: Group
    ) -> OnlineKnn | None:
        """None where too few labels are known to answer with."""
        labels = source.labels
        known = 0 if labels is None else int((np.asarray(labels) >= 0).sum())
        if known < 2 * NEIGHBOURS or known < 5 * world_size(group):
            return None
        return cls(source, view, seed=seed, workers=workers, group=group)

    @torch.no_grad()
    def __call__(self, encoder: Encoder, device: torch.device) -> float:
        """The accuracy; a collective call. Batch statistics, modes and generators stay as they were."""
        rows: list[Tensor] = []
        index: list[Tensor] = []
        labels: list[Tensor] = []
        with evaluating(encoder):
            for batch, images in evaluation_batches(self._sample, self._view, workers=self._workers, group=self._group):
                rows.append(encoder(images.to(device, memory_format=torch.channels_last)).float().cpu())
                index.append(batch.index)
                labels.append(batch.label if batch.label is not None else torch.full((len(batch),), -1))
        found, where, known = (gather_rows(torch.cat(parts), self._group) for parts in (rows, index, labels))
        asking = self._asking[where]
        predicted = knn_predict(
            found[~asking], known[~asking], found[asking], k=[NEIGHBOURS], weights="exponential", temperature=0.1
        )[NEIGHBOURS]
        return float((predicted == known[asking]).double().mean())
