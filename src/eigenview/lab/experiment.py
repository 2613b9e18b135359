"""What an experiment is, which there are, and how one becomes files.

An experiment lives in a module of its own with ``run(settings) -> Outcome``. It is imported when it is run, so that
listing experiments costs nothing; to add one, write the module and add its entry to ``LISTED``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from eigenview.errors import SettingError
from eigenview.files import atomic_path, write_json
from eigenview.names import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LabSettings:
    """What every experiment may be told."""

    seed: int = 0
    is_quick: bool = False  # seconds instead of minutes: smaller, so noisier; the exact claims hold all the same
    data: Path | None = None  # folder of the named data sets, for the experiments on real images

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise SettingError(f"an experiment's seed must be a whole number from 0; got {self.seed!r}")


@dataclass(frozen=True)
class Outcome:
    """What an experiment found: figures, the data behind them, and the findings in plain words."""

    data: Mapping[str, object]  # numbers, text, lists and dicts of them; None where a value is infinite or undefined
    figures: Mapping[str, Figure] = field(default_factory=dict)  # "" for the main one, which is named as the experiment
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Experiment:
    """A claim, and the function that puts it to the test."""

    name: str
    title: str
    claim: str
    run: Callable[[LabSettings], Outcome]


def run_module(module: str, settings: LabSettings) -> Outcome:
    """``run`` of ``eigenview.lab.<module>``, imported when called."""
    place = f"{__package__}.{module}"
    try:
        room = import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place:
            raise
        raise SettingError(f"this experiment has no module {place}; is this an incomplete installation?") from None
    outcome: Outcome = room.run(settings)
    return outcome


LISTED = {  # name, which is that of the module too: title, claim
    "graph-coupling": (
        "InfoNCE is graph coupling",
        "Sampled InfoNCE converges to the cross-entropy of two random graphs, which is a Laplacian trace plus "
        "a log-partition.",
    ),
    "planted-graphs": (
        "Free embeddings against spectral clustering",
        "Minimising InfoNCE over free embeddings of a planted graph finds what spectral clustering of it finds.",
    ),
    "spectral-recovery": (
        "The spectral contrastive loss recovers the top eigenspace",
        "Its minimiser is F*·diag(√γ)·R, with the top eigenvectors F* of the normalised adjacency matrix.",
    ),
    "augmentation-graph": (
        "The augmentation graph of real data",
        "The spectral embedding of the graph of views predicts what an encoder trained on them learns.",
    ),
    "temperature-dual": (
        "The temperature is a dual variable",
        "InfoNCE at its best temperature equals a maximum-entropy problem; at any other it is an upper bound.",
    ),
    "alignment-plane": (
        "The alignment-uniformity plane",
        "Encoders that are both aligned and uniform classify best; either alone does not.",
    ),
    "bipartite": (
        "CLIP is spectral clustering of a bipartite graph",
        "Image-text pairs make a bipartite graph, and CLIP's embeddings find its clusters.",
    ),
    "bipartite-towers": (
        "Trained towers and the graph of images and words",
        "The leading directions of the kernel that CLIP learns are those of the graph of images and words.",
    ),
    "random-walk": (
        "The random walk, seen",
        "Training makes the walk on the similarity graph step from each view to its partner.",
    ),
    "projection-head": (
        "The role of the projection head",
        "Features before the head serve better than those after it.",
    ),
    "laplacian-form": (
        "The Laplacian is positive semi-definite",
        "xᵀLx = ½ Σ W_ij (x_i − x_j)², so it is never negative where no weight is.",
    ),
}
EXPERIMENTS = Table(
    "experiment",
    {name: Experiment(name, *said, partial(run_module, name.replace("-", "_"))) for name, said in LISTED.items()},
)


def run_experiment(name: str, out: Path, *, settings: LabSettings | None = None) -> list[Path]:
    """Run one experiment; write ``OUT/NAME.json`` and ``OUT/NAME[-figure].png``. The paths, the JSON first.

    Each file appears whole or not at all. The same settings give the same JSON on one machine.
    """
    experiment = EXPERIMENTS.find(name)
    out, settings = Path(out), settings or LabSettings()
    from eigenview.lab.figures import figure_style, png

    with figure_style():
        outcome = experiment.run(settings)
        images = {f"{name}-{figure}" if figure else name: png(drawn) for figure, drawn in outcome.figures.items()}
    page = {
        "experiment": name,
        "title": experiment.title,
        "claim": experiment.claim,
        "settings": {**asdict(settings), "data": None if settings.data is None else settings.data.name},
        "findings": outcome.lines,
        "data": outcome.data,
    }
    written = [write_json(out / f"{name}.json", page, indent=1)]
    for image, content in images.items():
        written.append(out / f"{image}.png")
        with atomic_path(written[-1]) as file:
            file.write_bytes(content)
    return written
