"""What is trained, as Python users start it: a run, a sweep, and what there is by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from torch import nn

from eigenview.data import Source, StreamSource
from eigenview.errors import SettingError
from eigenview.faces.run import Run
from eigenview.methods import METHODS
from eigenview.names import named_code, printable
from eigenview.nn import ENCODERS, Encoder, build_encoder, is_own_encoder
from eigenview.report import write_report
from eigenview.runs import TrainConfig
from eigenview.sweeps import Results, Worker, gathered
from eigenview.training import Listener, shown_progress
from eigenview.training import train as train_config
from eigenview.training.start import prepare
from eigenview.views import PRESETS


def list_methods() -> list[str]:
    """The methods that ``train(…, method=…)`` knows by name."""
    return list(METHODS)


def list_encoders() -> list[str]:
    """The encoders of our own; ``LIBRARY:NAME`` (timm, torchvision, hf, open_clip), ``module:attribute`` too."""
    return list(ENCODERS)


def list_views() -> list[str]:
    """The published recipes of views that ``train(…, views=…)`` knows by name; ``auto`` chooses by the images."""
    return list(PRESETS)


def create_encoder(name: str, **options: Any) -> Encoder:
    """The encoder called ``name`` with random weights; ``options`` as ``eigenview.nn.build_encoder`` takes them."""
    with named_code(name):
        return build_encoder(name, **options)


def train(
    source: str | Path | Source | StreamSource | TrainConfig | None = None,
    *,
    out: str | Path | None = None,
    method: str | None = None,
    encoder: str | Path | Mapping[str, Any] | nn.Module | None = None,
    views: str | Mapping[str, Any] | None = None,
    images: str | Source | StreamSource | None = None,
    resume: bool = False,
    start: str | None = None,
    look: bool = True,
    listeners: Sequence[Listener] | None = None,
    **settings: Any,
) -> Run:
    """Learn a representation from images; what is not given is chosen for them and this machine (``run.config``).

    ``source`` is a folder, a table, shards, a named set, a source that is open, or a whole ``TrainConfig`` (code of
    your own that it names is run only if it is named again here: ``method``, ``encoder``, and ``images`` for its
    source). ``images``: the source of a config, if it is open. ``settings`` are those of a run: ``minutes=10`` or
    ``epochs=…``, ``batch_size``, ``optimizer={"learning_rate": 0.01}``, ``method_settings={…}``.
    A run to ``resume`` is named by ``out``, and knows its settings and its source; ``start`` is the checkpoint to go on
    from, the last one unless given. ``look``: at the end, diagnose the run and keep a sample for the report.
    A method, encoder, text encoder or source of your own is named ``module:attribute``; an encoder may also be a
    module. Progress is shown unless other ``listeners`` are given.
    """
    told = [shown_progress()] if listeners is None else listeners
    if isinstance(source, (Source, StreamSource)):
        if images is not None:
            raise SettingError("the source is open already: leave images out")
        source, images = source.describe().place, source
    _check_kinds(source, encoder)
    module = encoder if isinstance(encoder, nn.Module) else None
    opened = None if isinstance(images, str) else images
    spec = source.source if isinstance(source, TrainConfig) else source
    if isinstance(images, str) and images != str(spec):
        raise SettingError(f"images are those of the source, {spec}, open or named once more; got {images}")
    if isinstance(source, TrainConfig):  # it may have come from a file, and what it names is not run for that
        others = {"out": out, "views": views, **settings, "method_settings": None}
        others["method"] = None if method == source.method else method
        others["encoder"] = None if module is not None or encoder == source.encoder.name else encoder
        if beside := sorted(name for name, value in others.items() if value is not None):
            raise SettingError(
                f"{beside[0]} is given beside a whole TrainConfig: put it in there, by config.model_copy"
            )
    named = {"source": None if isinstance(source, TrainConfig) else source, "out": out, "method": method}
    given = {**settings, **{name: str(value) for name, value in named.items() if value is not None}}
    for name, value in (("encoder", None if module is not None else encoder), ("views", views)):
        if value is not None:
            short = {"encoder": "name", "views": "preset"}[name]
            given[name] = {short: str(value)} if isinstance(value, (str, Path)) else value
    with named_code(given, images):
        config, seen, started = source, opened, None
        if not isinstance(config, TrainConfig):
            prepared = prepare(given, resume=resume, encoder=module, images=opened)
            config, seen, started = prepared.config, prepared.source, prepared.started
        directory = train_config(
            config,
            source=seen,
            encoder=module,
            resume=resume,
            start=start,
            looks_back=look,
            listeners=told,
            started=started,
        )
    chosen = given.get("encoder", {}).get("name")
    return Run(directory.folder, encoder=module or chosen, text_encoder=_text_encoder(settings))


def _check_kinds(source: object, encoder: object) -> None:
    if not isinstance(source, (str, Path, TrainConfig, NoneType)):
        raise SettingError(
            "images are a folder, a file, a named set or an open source, such as eigenview.data.ArraySource(array); "
            f"got {type(source).__name__}"
        )
    if not isinstance(encoder, (str, Path, Mapping, nn.Module, NoneType)):
        raise SettingError(f"an encoder is a module, a name or module:attribute; got {printable(repr(encoder)):.80}")


def _text_encoder(settings: Mapping[str, Any]) -> str | None:
    """The text encoder of the user's own that settings of a run name."""
    value: object = settings
    for name in ("method_settings", "text", "name"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and is_own_encoder(value) else None


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
