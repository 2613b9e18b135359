"""Training as Python users start it: the verb of that name as a function, which returns the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from eigenview.errors import SettingError
from eigenview.faces.run import Run
from eigenview.names import named_code
from eigenview.nn import is_own_encoder
from eigenview.runs import TrainConfig
from eigenview.training import Listener, shown_progress
from eigenview.training import train as train_config
from eigenview.training.start import prepare


def train(
    source: str | Path | TrainConfig,
    *,
    out: str | Path | None = None,
    method: str | None = None,
    encoder: str | Mapping[str, Any] | nn.Module | None = None,
    views: str | Mapping[str, Any] | None = None,
    resume: bool = False,
    start: str | None = None,
    listeners: Sequence[Listener] | None = None,
    **settings: Any,
) -> Run:
    """Learn a representation from images; what is not given is chosen for them and this machine (``run.config``).

    ``source`` is a folder, a table, shards, a named set, or a whole ``TrainConfig`` (code of your own that it names is
    run only if it is named again here). ``settings`` are those of a run:
    ``minutes=10`` or ``epochs=…``, ``batch_size``, ``optimizer={"learning_rate": 0.01}``, ``method_settings={…}``.
    ``start`` is the checkpoint to ``resume`` from, the last one unless given.
    A method, encoder, text encoder or source of your own is named ``module:attribute``; an encoder may also be a
    module. Progress is shown unless other ``listeners`` are given.
    """
    told = [shown_progress()] if listeners is None else listeners
    module = encoder if isinstance(encoder, nn.Module) else None
    text = _text_encoder(settings)
    if isinstance(source, TrainConfig) and set(settings) - {"method_settings"}:
        name = min(set(settings) - {"method_settings"})
        raise SettingError(f"{name} is given beside a whole TrainConfig: put it in there, by config.model_copy")
    if isinstance(source, TrainConfig):  # it may have come from a file, and what it names is not run for that
        with named_code(method, encoder, settings):
            directory = train_config(source, encoder=module, resume=resume, start=start, listeners=told)
            return Run(directory.folder, encoder=encoder if isinstance(encoder, str) else module, text_encoder=text)
    given = {**settings, "source": str(source)}
    named = {"out": None if out is None else str(out), "method": method}
    given |= {name: value for name, value in named.items() if value is not None}
    for name, value in (("encoder", None if module is not None else encoder), ("views", views)):
        if value is not None:
            short = {"encoder": "name", "views": "preset"}[name]
            given[name] = {short: value} if isinstance(value, str) else value
    chosen = given.get("encoder", {}).get("name")
    with named_code(given):
        prepared = prepare(given, resume=resume, encoder=module)
        directory = train_config(
            prepared.config,
            source=prepared.source,
            encoder=module,
            resume=resume,
            start=start,
            listeners=told,
            started=prepared.started,
        )
    return Run(directory.folder, encoder=module or chosen, text_encoder=text)


def _text_encoder(settings: Mapping[str, Any]) -> str | None:
    """The text encoder of the user's own that settings of a run name."""
    value: object = settings
    for name in ("method_settings", "text", "name"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and is_own_encoder(value) else None
