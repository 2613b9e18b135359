"""What follows a run: it is diagnosed, and a sample of its images is kept, so that report and diagnose work at once."""

from __future__ import annotations

from torch import nn

from eigenview.data import Source
from eigenview.errors import EigenviewError, WriteError
from eigenview.evaluation import diagnose_run
from eigenview.runs import RunDirectory, open_run
from eigenview.training.listeners import Listener

LOOKED_AT = 2000  # images: seconds, not minutes


def look_back(directory: RunDirectory, source: Source, listener: Listener, *, encoder: nn.Module | None) -> None:
    """The run's diagnosis and its sample; what cannot be had is said, and ends nothing but a full disk."""
    try:
        run = open_run(directory, encoder=encoder)
        seed, workers = directory.config.seed, directory.config.workers
        diagnosis = diagnose_run(run, source, items=LOOKED_AT, seed=seed, workers=workers, keeps=True)
    except WriteError as error:
        raise WriteError(f"the run is trained, but its diagnosis cannot be kept: {error}") from None
    except EigenviewError as error:
        listener.told(f"the result could not be looked at: {error}")
        return
    listener.diagnosed(diagnosis)
