"""All that a checkpoint holds of a run, and the only way into and out of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import torch
from torch.optim import Optimizer

from eigenview.devices import GeneratorStates, generator_states, set_generator_states
from eigenview.errors import DataError, EigenviewError
from eigenview.methods import Method
from eigenview.names import reason_of
from eigenview.runs import Checkpoint
from eigenview.training.feed import Feed
from eigenview.training.scaling import Scaling


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0  # optimizer steps done
    epoch: int = 0  # the one under way
    seconds: float = 0.0  # trained before this process
    loss_sum: float = 0.0  # over the steps of this epoch
    loss_count: int = 0
    best: float | None = None  # of what best_by names; larger is better
    skipped: int = 0  # steps left out because the gradient overflowed in half precision


@dataclass
class RunState:
    """The method with its state, the optimizer, the position in the data, the generators, the scale, the progress."""

    method: Method
    optimizer: Optimizer
    feed: Feed
    scaling: Scaling
    device: torch.device
    progress: Progress = field(default_factory=Progress)

    def checkpoint(self, *, seconds: float) -> Checkpoint:
        """The run as it stands after so many seconds of training."""
        generators = generator_states(self.device)
        state = {
            "optimizer": self.optimizer.state_dict(),
            "feed": self.feed.loader.state(),
            "progress": {**asdict(self.progress), "seconds": seconds},
            "generator": generators.processor,
            "device_generator": generators.device,
            "scaling": self.scaling.state(),
        }
        return Checkpoint(dict(self.method.state_dict()), state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Bring everything to where it was."""
        state = checkpoint.state
        try:
            self.method.load_state_dict(checkpoint.weights)
            self.optimizer.load_state_dict(state["optimizer"])
            self.progress = Progress(**state["progress"])
            self.feed.loader.restore(state["feed"])
            self.scaling.restore(state.get("scaling", {}))
            set_generator_states(self.device, GeneratorStates(state["generator"], state.get("device_generator")))
        except EigenviewError:  # another number of images, say
            raise
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise DataError(f"the checkpoint does not fit this method and encoder: {reason_of(error)}") from None
