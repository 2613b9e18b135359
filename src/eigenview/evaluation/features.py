"""Features, kept on disk under a hash of encoder, data, view and layer; and what every protocol asks of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenview.batches import Extractor, encode_source
from eigenview.batches.identity import images_identity, settings_identity, weights_identity
from eigenview.data import Source
from eigenview.distributed import Group, from_first_process, rank
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.checks import check_rows
from eigenview.nn import Encoder
from eigenview.tensors import read_sealed, save_sealed
from eigenview.views import CentreView

INDEX = "index"  # in the file, beside the layers
SHOWN = 5  # classes named in a message


@dataclass(frozen=True)
class Features:
    """What an encoder says about the readable images of a source, in the source's order."""

    layers: Mapping[str, Tensor]  # (n, d) float32 by layer; (n, c, h, w) where maps were kept
    index: Tensor  # (n,) which item of the source each row is
    labels: Tensor | None  # (n,), −1 for none; None when no item has one
    classes: tuple[str, ...] | None
    key: str  # hash of everything the rows depend on

    def __getitem__(self, layer: str) -> Tensor:
        if layer not in self.layers:
            raise SettingError(f"no features of layer {layer!r}; there are {', '.join(self.layers)}")
        return self.layers[layer]

    @property
    def labelled(self) -> Tensor:
        """The labels, for protocols that need them."""
        if self.labels is None:
            raise DataError("these images have no labels, and this protocol needs them; give a labelled source")
        return self.labels


def extract(
    encoder: Encoder | Extractor,
    source: Source,
    *,
    view: CentreView,
    cache: str | Path | None = None,
    workers: int | str = "auto",
    title: str | None = "features",
    group: Group = None,
) -> Features:
    """The features of every readable image, in one pass, with the encoder in eval mode.

    An ``Extractor`` says which layers, with which head; an encoder alone gives its pooled features. Modes are restored
    afterwards, and batch statistics do not move. For a module of your own, see ``eigenview.nn.wrap``.

    With a ``cache`` folder, features found there under the same hash are read instead. The hash covers all weights and
    how the modules are built, every image, the view, the layers and this library's version; a file whose
    own checksum does not fit counts as none and is written anew. Labels are the source's own, as they are now. With a
    ``group``, each process computes its share and all get everything.
    """
    extractor = encoder if isinstance(encoder, Extractor) else Extractor(encoder)
    key = _key(extractor, source, view)
    file = None if cache is None else _file(cache, key)
    stored = _read(file, [*extractor.layers, INDEX], len(source), group)
    if stored is None:
        rows = encode_source(extractor, source, view, workers=workers, title=title, group=group)
        stored = {**{name: layer[0] for name, layer in rows.layers.items()}, INDEX: rows.index}
        if file is not None and rank(group) == 0:
            save_sealed(file, stored)
    index = stored.pop(INDEX)
    labels = None if source.labels is None else torch.from_numpy(np.asarray(source.labels)[index.numpy()])
    return Features(stored, index, labels, source.classes, key)


def keep_only(cache: Path, features: Features) -> Path:
    """The file of ``features`` in a ``cache`` folder, from which all that other weights, images or views left go."""
    kept = _file(cache, features.key)
    for file in cache.glob(kept.name.replace(features.key, "*")):
        if file != kept:
            file.unlink(missing_ok=True)
    return kept


def _file(cache: str | Path, key: str) -> Path:
    return Path(cache) / f"features-{key}.safetensors"


def _key(extractor: Extractor, source: Source, view: CentreView) -> str:
    from eigenview import __version__

    return settings_identity(
        {
            "weights": weights_identity(*extractor.modules),
            "images": images_identity(source),
            "view": repr(view),
            "layers": list(extractor.layers),
            "maps": extractor.maps,
            "version": __version__,
        }
    )


def _read(file: Path | None, names: Sequence[str], items: int, group: Group) -> dict[str, Tensor] | None:
    """What the first process finds decides for all; a damaged file counts as none and is written anew."""
    stored: dict[str, Tensor] | None = None
    if file is not None and file.is_file():
        with suppress(DataError):
            sealed, _ = read_sealed(file)
            index = sealed.get(INDEX, torch.empty(0))
            is_index = index.ndim == 1 and len(index) > 0 and int(index.min()) >= 0 and int(index.max()) < items
            fits = is_index and set(sealed) == set(names) and all(len(rows) == len(index) for rows in sealed.values())
            stored = sealed if fits else None
    if not bool(from_first_process(torch.tensor(stored is not None), group)):
        return None
    if stored is None:
        raise DataError(f"{file} is in the first process's cache but not in this one's; give all the same folder")
    return stored


def check_features(features: Tensor, name: str) -> None:
    """Refuse anything but finite floating rows (n, d) with n, d >= 1; rows that are not finite are named."""
    if features.ndim != 2 or 0 in features.shape or not features.is_floating_point():
        raise ShapeError(f"{name} must be floating rows (n, d); got {tuple(features.shape)}, {features.dtype}")
    if not torch.isfinite(features.sum(dtype=torch.float64)):  # one pass in the usual case; inf and NaN do not cancel
        check_rows(name, [(0, features)])


def check_labels(labels: Tensor, rows: int, name: str, *, classes: int | None = None) -> int:
    """The number of classes: ``classes`` if given, otherwise the largest label + 1.

    Labels are whole numbers 0 … classes − 1, one a row. −1 (no label) is refused: a protocol measures on labelled data.
    """
    if labels.shape != (rows,) or labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ShapeError(f"{name} must be {rows} whole numbers, one a row; got {tuple(labels.shape)}, {labels.dtype}")
    low, high = int(labels.min()), int(labels.max())
    if low == -1:
        without = int((labels == -1).sum())
        raise DataError(f"{without} of {rows} {name} are -1, which means unlabelled; leave those items out")
    if low < 0 or (classes is not None and high >= classes):
        wanted = f"0 … {classes - 1}" if classes is not None else "0 or more"
        raise DataError(f"{name} must lie in {wanted}; they run from {low} to {high}")
    return classes if classes is not None else high + 1


def check_several_classes(labels: Tensor, name: str) -> None:
    if int(labels.min()) == int(labels.max()):
        raise DataError(f"{name} hold one class only, {int(labels[0])}; a classifier needs at least two")


def check_same_width(a: Tensor, b: Tensor, names: tuple[str, str]) -> None:
    if a.shape[1] != b.shape[1]:
        raise ShapeError(f"{names[0]} and {names[1]} need rows of one width; got {a.shape[1]} and {b.shape[1]}")


def check_no_class_is_new(train: Tensor, test: Tensor) -> None:
    """Refuse test labels that never occur in training: no classifier could get them right."""
    new = torch.unique(test)[~torch.isin(torch.unique(test), torch.unique(train))]
    if len(new):
        what = "classes" if len(new) > 1 else "class"
        raise DataError(f"{what} {some(new)} of the test labels never occur in training; is it the same label order?")


def column_statistics(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of each column and its deviation, infinite where it is constant: standardised, such a column is 0."""
    deviation = rows.std(dim=0)
    return rows.mean(dim=0), torch.where(deviation > 0, deviation, torch.inf)


@dataclass(frozen=True)
class TrainTest:
    """Rows to learn from, of several classes, and others to be tested on, of no new class."""

    train: Tensor  # (n, d)
    train_labels: Tensor  # (n,)
    test: Tensor  # (m, d)
    test_labels: Tensor  # (m,)

    def __post_init__(self) -> None:
        check_features(self.train, "training features")
        check_features(self.test, "test features")
        check_same_width(self.train, self.test, ("training features", "test features"))
        check_labels(self.train_labels, len(self.train), "training labels")
        check_labels(self.test_labels, len(self.test), "test labels")
        check_several_classes(self.train_labels, "training labels")
        check_no_class_is_new(self.train_labels, self.test_labels)

    def standardised(self) -> TrainTest:
        """Both parts with the training columns' mean 0 and deviation 1; constant columns become 0."""
        mean, scale = column_statistics(self.train)
        train, test = ((rows - mean) / scale for rows in (self.train, self.test))
        return TrainTest(train, self.train_labels, test, self.test_labels)


def some(numbers: Tensor) -> str:
    """The first few of some whole numbers, for a message."""
    return ", ".join(str(int(number)) for number in numbers[:SHOWN]) + (", …" if len(numbers) > SHOWN else "")


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """float64 if any of them is, otherwise float32: half precision is for storing."""
    return torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
