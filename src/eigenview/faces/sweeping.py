"""A sweep as Python users start it: the verb of that name as a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eigenview.names import named_code
from eigenview.report import write_report
from eigenview.sweeps import Results, Worker, gathered
from eigenview.training import Listener, shown_progress


def sweep(
    file: str | Path | None = None,
    *,
    out: str | Path | None = None,
    search: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    listeners: Sequence[Listener] | None = None,
    **options: Any,
) -> Results:
    """One worker of a sweep, until all its trials are done; ``results.best`` has the settings that got furthest.

    ``file`` is TOML or JSON; what is given here wins. ``search`` has a range or a list for each setting,
    ``{"optimizer.learning_rate": {"low": 1e-4, "high": 0.1, "log": True}, "batch_size": [64, 128]}``; ``settings`` are
    those of every run, ``{"source": "photos/", "minutes": 5}``. ``options``: ``objective``, ``trials``, ``pruner``,
    ``storage`` and whatever else :class:`eigenview.sweeps.SweepConfig` has. The folder also gets a page.
    """
    own = {} if settings is None else settings
    with named_code(own, search, options):
        given = options if out is None else {**options, "out": Path(out)}
        place = None if file is None else Path(file)
        config = gathered(place, given, search=search or {}, settings=own)
        told = [shown_progress()] if listeners is None else listeners
        results = Worker(config, told=lambda message: None, listeners=tuple(told)).run()
    write_report([config.out])
    return results
