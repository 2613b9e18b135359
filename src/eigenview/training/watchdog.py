"""The watchdog: says in one line when a run goes wrong, with the likely cause and what to try."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

AT_CHANCE = 1e-3  # of |chance|: a loss this close to it has learned nothing
PATIENCE = 5  # looks in a row before it speaks
LEAST_RANK = 1.5  # effective rank of the embeddings
LEAST_USED = 0.05  # share of the prototypes that a batch could use
NOT_FINITE = (
    "the run stops and its last checkpoint is kept. Likely a learning rate that is too high or half precision that "
    "overflowed: lower optimizer.learning_rate, add warm-up, or use precision 32"
)
SMALL_GRADIENT, LARGE_GRADIENT = 1e-7, 1e4


@dataclass(frozen=True)
class Look:
    """What the watchdog sees every few steps."""

    step: int
    loss: float
    chance: float | None  # None: collapse is a minimum, only the rank tells
    rank: float
    gradient: float | None  # None: it overflowed in half precision, and its step was left out
    prototypes_used: float | None = None


@dataclass(frozen=True)
class Alarm:
    kind: str
    message: str


@dataclass
class Watchdog:
    """Call it with each :class:`Look`; it answers with alarms, each kind once until the trouble has passed."""

    patience: int = PATIENCE
    _recent: dict[str, deque[bool]] = field(default_factory=dict)
    _raised: set[str] = field(default_factory=set)

    def __call__(self, look: Look) -> list[Alarm]:
        alarms = []
        for kind, (is_so, message) in self._troubles(look).items():
            recent = self._recent.setdefault(kind, deque(maxlen=self.patience))
            recent.append(is_so)
            if not is_so:
                self._raised.discard(kind)
            elif kind not in self._raised and len(recent) == self.patience and all(recent):
                self._raised.add(kind)
                alarms.append(Alarm(kind, f"step {look.step}: {message}"))
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
