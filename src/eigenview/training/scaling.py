"""Gradients in half precision: scaled up so that small ones survive, and brought back to their size before any use."""

import torch
from torch.optim import Optimizer

INITIAL_SCALE = 2.0**16
LEAST_SCALE = 2.0**-10  # a gradient that is not finite at this scale is so by itself: no lower one mends it


class Scaling:
    """The scaler of precision "16". Without one (None) gradients are what they are, and every step is made.

    A gradient that overflowed is part of the bargain: its step is left out, and the scale lowered.
    """

    def __init__(self, scaler: torch.amp.GradScaler | None) -> None:
        self.scaler = scaler

    @property
    def scale(self) -> float:
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    @property
    def can_overflow(self) -> bool:
        """Whether a gradient that is not finite may be an overflow, which a lower scale mends."""
        return self.scaler is not None and self.scale > LEAST_SCALE

    def unscale(self, optimizer: Optimizer) -> None:
        """Bring the gradients back to their size; once a step, with the optimizer itself, not its wrapper."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def state(self) -> dict[str, float]:
        return {} if self.scaler is None else dict(self.scaler.state_dict())

    def restore(self, state: dict[str, float]) -> None:
        if self.scaler is not None and state:
            self.scaler.load_state_dict(state)
