"""Online k-nearest neighbours: how features fare while they are trained. Labels are looked at, never learnt from."""

from __future__ import annotations

import numpy as np
import torch

from eigenview.batches import Extractor, encode_source
from eigenview.data import Source, subset
from eigenview.distributed import Group, world_size
from eigenview.evaluation import knn_predict
from eigenview.nn import POOLED, Encoder
from eigenview.views import CentreView

ITEMS = 5000  # of the source that are looked at, so that a look costs seconds
QUERIES = 0.2  # share of them that ask; the others answer
NEIGHBOURS = 20


class OnlineKnn:
    """20-NN accuracy of the features before the head on a fixed sample of the labelled training items."""

    def __init__(self, source: Source, view: CentreView, *, seed: int, workers: int | str, group: Group) -> None:
        labels = np.asarray(source.labels)
        chosen = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))[:ITEMS]
        asking = chosen[: round(QUERIES * len(chosen))]
        chosen = np.sort(chosen)
        self._asks = torch.from_numpy(np.isin(chosen, asking))
        self._labels = torch.from_numpy(labels[chosen])
        self._sample, self._view = subset(source, chosen), view
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

    def __call__(self, encoder: Encoder) -> float:
        """The accuracy; a collective call. Batch statistics, modes and generators stay as they were."""
        encoded = encode_source(
            Extractor(encoder), self._sample, self._view, workers=self._workers, title=None, group=self._group
        )
        rows, asks, labels = encoded.layers[POOLED][0], self._asks[encoded.index], self._labels[encoded.index]
        predicted = knn_predict(rows[~asks], labels[~asks], rows[asks], k=[NEIGHBOURS], temperature=0.1)[NEIGHBOURS]
        return float((predicted == labels[asks]).double().mean())
