"""How a run is watched: figures of a step, online neighbours, a watchdog that says in one line what goes wrong."""

from collections import deque
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.batches import Extractor, encode_source
from eigenview.data import Source, subset
from eigenview.diagnostics import effective_rank
from eigenview.distributed import Group, gather_rows, world_size
from eigenview.evaluation import knn_predict
from eigenview.losses import alignment, uniformity
from eigenview.nn import POOLED, Encoder
from eigenview.views import CentreView

AT_CHANCE = 1e-3  # of |chance|: a loss this close to it has learned nothing
PATIENCE = 5  # looks in a row before it speaks
LEAST_RANK = 1.5  # effective rank of the embeddings
LEAST_USED = 0.05  # share of the prototypes that a batch could use
NOT_FINITE = (
    "the run stops and its last checkpoint is kept. Likely a learning rate that is too high or half precision that "
    "overflowed: lower optimizer.learning_rate, add warm-up, or use precision 32"
)
SMALL_GRADIENT, LARGE_GRADIENT = 1e-7, 1e4
WATCHED_ROWS = 1024  # embeddings that alignment, uniformity and rank are taken of
ITEMS = 5000  # of the source that are looked at, so that a look costs seconds
QUERIES = 0.2  # share of them that ask; the others answer
NEIGHBOURS = 20


@dataclass(frozen=True)
class Look:
    """What the watchdog sees every few steps."""

    step: int
    loss: float
    chance: float | None  # None: collapse is a minimum, only the rank tells
    rank: float
    gradient: float | None  # None: it overflowed in half precision, and its step was left out
    prototypes_used: float | None = None


@dataclass
class Watchdog:
    """Call it with each :class:`Look`; it answers with alarms by their kind, each once until the trouble has passed."""

    patience: int = PATIENCE
    _recent: dict[str, deque[bool]] = field(default_factory=dict)
    _raised: set[str] = field(default_factory=set)

    def __call__(self, look: Look) -> dict[str, str]:
        alarms = {}
        for kind, (is_so, message) in self._troubles(look).items():
            recent = self._recent.setdefault(kind, deque(maxlen=self.patience))
            recent.append(is_so)
            if not is_so:
                self._raised.discard(kind)
            elif kind not in self._raised and len(recent) == self.patience and all(recent):
                self._raised.add(kind)
                alarms[kind] = f"step {look.step}: {message}"
        return alarms

    def _troubles(self, look: Look) -> dict[str, tuple[bool, str]]:
        used, gradient = look.prototypes_used, look.gradient
        near = look.chance is not None and abs(look.loss - look.chance) <= AT_CHANCE * max(1.0, abs(look.chance))
        return {
            "at-chance": (
                near,
                f"the loss {look.loss:.4g} sits at chance ({look.chance or 0:.4g}): the embeddings tell images "
                "no better than constants. Try a lower temperature (or epsilon), a higher learning rate, weaker views",
            ),
            "collapse": (
                look.rank < LEAST_RANK,
                f"the embeddings have collapsed (effective rank {look.rank:.2f}): all images look alike to the "
                "encoder. Check that negatives, the stop-gradient or the decorrelation are on; lower the learning rate",
            ),
            "empty-prototypes": (
                used is not None and used < LEAST_USED,
                f"only {100 * (used or 0):.1f}% of the usable prototypes are used. Lower epsilon, use fewer "
                "prototypes, a larger batch or a queue",
            ),
            "vanishing": (
                gradient is not None and gradient < SMALL_GRADIENT,
                f"the gradient has vanished (norm {gradient or 0:.2g}). The loss may be saturated: raise the "
                "temperature or the learning rate",
            ),
            "exploding": (
                gradient is not None and gradient > LARGE_GRADIENT,
                f"the gradient explodes (norm {gradient or 0:.2g}). Lower the learning rate or add warm-up",
            ),
        }


def embedding_figures(embeddings: Tensor, group: Group) -> dict[str, float | None]:
    """Alignment, uniformity and effective rank of the views (v, n, d) of all processes; rank 0 where not finite."""
    rows = [gather_rows(view, group)[:WATCHED_ROWS].float() for view in embeddings]
    usable = all(bool(view.isfinite().all() & (view.norm(dim=1) > 0).all()) for view in rows)
    return {
        "alignment": float(alignment(*rows)) if usable and len(rows) > 1 else None,
        "uniformity": float(uniformity(rows[0])) if usable and len(rows[0]) > 1 else None,
        "effective_rank": float(effective_rank(normalize(rows[0], dim=1))) if usable else 0.0,
    }


def gradient_norm(module: nn.Module) -> Tensor:
    """The norm of all gradients together."""
    norms = [torch.linalg.vector_norm(p.grad) for p in module.parameters() if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())


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
    ) -> Self | None:
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
