"""What a recipe is: the settings of a published experiment, what it costs, and what came out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from eigenview.runs import TrainConfig

Evidence = Literal["paper", "authors' code", "third party", "recalled", "measured here"]


@dataclass(frozen=True)
class Result:
    """A figure and where it comes from. "recalled" is from the paper but was not checked against it."""

    what: str  # protocol and data
    value: str  # percent, unless it says otherwise
    source: str
    evidence: Evidence


def by_epochs(values: Mapping[int, str], source: str, evidence: Evidence) -> tuple[Result, ...]:
    """The linear probe after so many epochs each."""
    return tuple(Result(f"linear probe, {epochs} epochs", value, source, evidence) for epochs, value in values.items())


@dataclass(frozen=True)
class Recipe:
    """``settings`` are a TrainConfig's, without ``source`` and ``out``.

    ``differs`` says where this is not the published experiment to the letter: settings nobody published, or that have
    another form here.
    """

    name: str
    title: str
    source: str  # what to train on, as data.open_source reads it; named sets are looked for in $EIGENVIEW_DATA
    test: str
    images: int  # in the source
    protocol: str  # of evaluation
    settings: Mapping[str, Any]
    results: tuple[Result, ...]
    differs: tuple[str, ...] = ()
    cost: str = "not run here; an accelerator is needed"
    layers: tuple[str, ...] = field(default=("pooled",))  # that the protocol is measured on

    def config(self, *, source: str | None = None, out: str | None = None) -> TrainConfig:
        """The settings as a run would have them."""
        from eigenview.runs import read_config

        given = {"source": source or self.source, "out": out or f"runs/{self.name}", **self.settings}
        return read_config(given)

    @property
    def views(self) -> int | None:
        """Views that go through the encoder in all, the large and the small ones; None for a run in minutes."""
        from eigenview.views import PRESETS

        config = self.config()
        if config.epochs is None:
            return None
        crops, preset = config.views.crops, PRESETS.get(config.views.preset)
        each = (2 if preset is None else preset.view_count) if crops is None else sum(crop.count for crop in crops)
        return config.epochs * self.images * each

    def commands(self) -> tuple[str, str]:
        """Train, then evaluate, on the command line."""
        run = f"runs/{self.name}"
        if self.protocol in ("captions", "zero-shot"):
            measured = f"eigenview evaluate {run} '{self.test}' --protocol {self.protocol}"
            return f"eigenview recipes run {self.name} --out {run}", measured
        layers = "" if self.layers == ("pooled",) else f" --layers {' '.join(self.layers)}"
        return (
            f"eigenview recipes run {self.name} --out {run}",
            f"eigenview evaluate {run} '{self.source}' --test '{self.test}' --protocol knn {self.protocol}{layers}",
        )


CIFAR10: dict[str, Any] = {"source": "cifar10", "test": "cifar10?split=test", "images": 50_000}
IMAGENET: dict[str, Any] = {"source": "imagenet", "test": "imagenet?split=val", "images": 1_281_167}
SIMSIAM_SGD = {"name": "sgd", "learning_rate": 0.03, "scaling": "linear", "weight_decay": 5e-4, "exclude": []}
