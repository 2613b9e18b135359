"""Labels of stored images from a few: which to label, what the rest are with how sure that is, and what later ones are.

What the command line and Python share. The head that labels later pictures is kept in a file of its own with the
classes, with which encoder's vectors it reads, and with the view that its pictures were seen through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenview.data import Source
from eigenview.data.source import NO_LABEL
from eigenview.errors import DataError, SettingError
from eigenview.files import atomic_path, from_json, to_json
from eigenview.graph.principal import Projection
from eigenview.labels.choosing import choose
from eigenview.labels.graph import GraphEngine, kept_graph
from eigenview.labels.label_files import Column, GivenLabels, check_place, write_table
from eigenview.labels.live import Head, LiveLabels, graph_and_head
from eigenview.labels.spreading import harmonic, label_spreading, poisson
from eigenview.names import Table, did_you_mean, printable
from eigenview.nn import POOLED
from eigenview.search.approximate import Recall
from eigenview.search.makers import views_apart
from eigenview.search.stored import Embeddings
from eigenview.tensors import read_sealed, save_tensors, sealed

Spreader = Callable[..., Tensor]
SPREADERS: Table[Spreader] = Table(
    "way",
    {
        "graph-and-head": graph_and_head,
        "label-spreading": label_spreading,
        "harmonic": harmonic,
        "poisson": poisson,
    },
)
HEAD = ".safetensors"  # of the file of a head
MAKER = ("encoder", "run", "layer", "view")  # what a head knows about how its vectors were made


@dataclass(frozen=True)
class Chosen:
    """Images to label next, the most useful first."""

    rows: tuple[int, ...]
    names: tuple[str, ...]
    stored: Embeddings
    recall: Recall | None  # of an approximate graph; None: exact

    def write(self, out: str | Path, *, overwrite: bool = False) -> Path:
        """A table with the names, and the column ``label`` to fill in."""
        return write_table(out, {"name": self.names, "label": [""] * len(self.names)}, overwrite=overwrite)

    def sheet(self, out: str | Path, *, source: Source | None = None, overwrite: bool = False) -> Path:
        """A PNG of them, numbered."""
        from eigenview.labels.sheets import Shown, labels_sheet  # which imports this module

        shown = Shown("", [(row, (f"{number}",)) for number, row in enumerate(self.rows, start=1)])
        title = f"{len(self.rows):,} of {len(self.stored):,} pictures, to label"
        return labels_sheet(title, [shown], self.stored, out, source=source, overwrite=overwrite)


@dataclass(frozen=True)
class Labeller:
    """What a picture is, by its vector: the head that labels made, and what it needs to know about vectors."""

    head: Head
    projection: Projection
    classes: tuple[str, ...]
    encoder: str = ""  # hash of the one whose vectors it reads; empty where nobody knows
    run: str = ""  # what that was called
    layer: str = POOLED
    view: str = ""  # that pictures were seen through; empty where nobody knows, as in files of before

    def probabilities(self, vectors: Tensor) -> Tensor:
        """(n, K) of vectors (n, d), rows summing to 1."""
        width = len(self.projection.mean)
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise DataError(f"this head reads vectors of {width} numbers; got {tuple(vectors.shape)}")
        return self.head.probabilities(self.projection(vectors)).float()

    def predict(self, stored: Embeddings, *, certain: float = 0.0) -> Suggestions:
        """Labels of pictures that had no part in making the head."""
        about = stored.about
        if self.encoder and about is not None and (about.encoder, about.layer) != (self.encoder, self.layer):
            raise DataError(
                f"this head reads vectors of {self.run} ({self.encoder}); {printable(stored.place)} was made by "
                f"another, {about.run} ({about.encoder}): embed with the first"
            )
        if self.view and about is not None and (apart := views_apart(self.view, about.view)):
            raise DataError(
                f"this head reads pictures seen at {apart[0]}; {printable(stored.place)} was made at {apart[1]}: embed "
                "as the first (--size, or the same run)"
            )
        _check_certain(certain)
        given = torch.zeros(len(stored), dtype=torch.bool)
        return Suggestions(stored, self.classes, self.probabilities(stored.vectors), given, certain, self)

    def save(self, out: str | Path, *, overwrite: bool = False) -> Path:
        """One safetensors file, sealed; :func:`read_labeller` opens it under any name."""
        place = Path(out)
        check_place(place, overwrite=overwrite, suffixes=(HEAD,))
        tensors = {"weight": self.head.weight, "bias": self.head.bias, "mean": self.projection.mean}
        if self.projection.centre is not None and self.projection.directions is not None:
            tensors |= {"centre": self.projection.centre, "directions": self.projection.directions}
        said = _Notes(self.classes, self.projection.least, self.encoder, self.run, self.layer, view=self.view)
        notes = {"labels": to_json(said)}
        with atomic_path(place) as file:
            save_tensors(file, tensors, metadata=sealed(tensors, notes))
        return place


@dataclass(frozen=True)
class _Notes:
    classes: tuple[str, ...]
    least: float
    encoder: str = ""
    run: str = ""
    layer: str = POOLED
    version: int = 1
    view: str = ""


@dataclass(frozen=True)
class Suggestions:
    """A label for every image and how sure it is; below ``certain``, or between two as likely, none."""

    stored: Embeddings
    classes: tuple[str, ...]
    probabilities: Tensor  # (n, K), rows summing to 1
    given: Tensor  # (n,) whether the label was given, not found
    certain: float
    labeller: Labeller  # for pictures that come later
    recall: Recall | None = None  # of an approximate graph; None: exact, or none was needed

    def __repr__(self) -> str:
        said, given = int((self.numbers >= 0).sum()), int(self.given.sum())
        return f"Suggestions({self.stored}, labels={said}, given={given}, certain={self.certain:g})"

    @cached_property
    def probability(self) -> Tensor:
        """(n,) of the likeliest class."""
        return self.probabilities.amax(dim=1)

    @cached_property
    def numbers(self) -> Tensor:
        """(n,) classes by number, −1 where nothing is said."""
        best = self.probabilities.topk(min(2, len(self.classes)), dim=1)
        is_said = (best.values[:, 0] >= self.certain) & (best.values[:, 0] > best.values[:, -1])
        return torch.where(is_said, best.indices[:, 0], NO_LABEL)

    @property
    def labels(self) -> list[str | None]:
        """(n,) classes by name, None where nothing is said."""
        return [None if number == NO_LABEL else self.classes[number] for number in self.numbers.tolist()]

    def columns(self, *, per_class: bool = False) -> dict[str, Column]:
        """name, label (empty: none), probability, given; and the probability of each class."""
        columns: dict[str, Column] = {
            "name": list(self.stored.paths),
            "label": [label or "" for label in self.labels],
            "probability": self.probability.numpy().astype(np.float64),
            "given": ["yes" if is_given else "no" for is_given in self.given.tolist()],
        }
        if per_class:
            columns |= {
                f"probability of {name}": self.probabilities[:, k].numpy() for k, name in enumerate(self.classes)
            }
        return columns

    def write(self, out: str | Path, *, overwrite: bool = False) -> Path:
        """A table, one line an image; in Parquet with a column for each class."""
        return write_table(out, self.columns(per_class=Path(out).suffix == ".parquet"), overwrite=overwrite)

    def sheet(self, out: str | Path, *, source: Source | None = None, overwrite: bool = False) -> Path:
        """A PNG: of every class the pictures that are surest, and then those that are least sure."""
        from eigenview.labels.sheets import labels_sheet, suggested_groups  # which imports this module

        groups = suggested_groups(self)
        return labels_sheet("Suggested labels", groups, self.stored, out, source=source, overwrite=overwrite)


def choose_images(
    stored: Embeddings,
    count: int,
    *,
    given: GivenLabels | None = None,
    way: str = "coverage",
    seed: int = 0,
    engine: GraphEngine = "auto",
) -> Chosen:
    """The ``count`` images to label next, knowing what was ``given`` so far; see :func:`eigenview.labels.choose`."""
    kept = kept_graph(stored, engine=engine)
    rows = choose(kept.graph, count, labels=None if given is None else given.labels, way=way, seed=seed).tolist()
    return Chosen(tuple(rows), tuple(stored.paths[row] for row in rows), stored, kept.recall)


def spread_labels(
    stored: Embeddings,
    given: GivenLabels,
    *,
    sizes: Mapping[str, float] | None = None,
    way: str = "graph-and-head",
    certain: float = 0.0,
    engine: GraphEngine = "auto",
) -> Suggestions:
    """Labels of all images from those ``given``. ``sizes`` are shares or numbers of images, where they are known.

    Later pictures are labelled by a head in any case, whichever ``way`` these were.
    """
    spreader = SPREADERS.find(way)
    _check_certain(certain)
    if len(given.classes) == 1:
        raise DataError(f"{given}; label an image of another class")
    kept = kept_graph(stored, engine=engine)
    shares = None if sizes is None else _shares(sizes, given.classes)
    live = LiveLabels(kept.graph, given.labels, classes=len(given.classes), sizes=shares)
    if spreader is graph_and_head:
        probabilities = live.probabilities()
    else:
        probabilities = spreader(kept.graph, given.labels, classes=len(given.classes), sizes=shares)
    told = {} if stored.about is None else {name: getattr(stored.about, name) for name in MAKER}
    labeller = Labeller(live.head(), kept.projection, given.classes, **told)
    is_given = given.labels != NO_LABEL
    return Suggestions(stored, given.classes, probabilities, is_given, certain, labeller, kept.recall)


def read_labeller(file: str | Path) -> Labeller:
    """The head that :meth:`Labeller.save` kept."""
    place = Path(file)
    if not place.is_file():
        raise DataError(f"no such file: {printable(place)}; eigenview spread writes a head beside the labels")
    tensors, held = read_sealed(place, from_anywhere=True)
    if "labels" not in held or not {"weight", "bias", "mean"} <= tensors.keys():
        raise DataError(f"{printable(place)} holds no head for labels; eigenview spread writes one")
    notes = from_json(_Notes, held["labels"], place)
    directions = tensors.get("directions")
    width = len(tensors["mean"]) if directions is None else directions.shape[1]
    shapes = {"weight": (len(notes.classes), width), "bias": (len(notes.classes),)}
    if any(tuple(tensors[name].shape) != shape for name, shape in shapes.items()):
        raise DataError(f"{printable(place)} does not fit together: it was edited or damaged")
    projection = Projection(tensors["mean"], notes.least, tensors.get("centre"), directions)
    head = Head(tensors["weight"], tensors["bias"])
    return Labeller(head, projection, notes.classes, **{name: getattr(notes, name) for name in MAKER})


def head_beside(out: Path) -> Path:
    """``labels.csv`` → ``labels.head.safetensors``."""
    return out.with_name(f"{out.stem}.head{HEAD}")


def _check_certain(certain: float) -> None:
    if not 0 <= certain <= 1:
        raise SettingError(f"certain is a probability, 0 to 1; got {certain}")


def _shares(sizes: Mapping[str, float], classes: Sequence[str]) -> Tensor:
    """(K,) summing to 1, in the order of the classes."""
    for name in sizes:
        if name not in classes:
            meant = did_you_mean(name, classes)
            raise SettingError(f"class {name} has a size, but no image is labelled so{meant}; label at least one")
    if missing := [name for name in classes if name not in sizes]:
        raise SettingError(f"sizes are needed of all classes or of none; that of {', '.join(missing[:5])} is missing")
    shares = torch.tensor([float(sizes[name]) for name in classes])
    if not bool((shares.isfinite() & (shares > 0)).all()):
        raise SettingError(f"class sizes must be numbers above 0; got {dict(sizes)}")
    return shares / shares.sum()
