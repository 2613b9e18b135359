"""Features, computed once for each encoder, data, view and layer, and kept on disk under a hash of all four."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenview.batches import Extractor, encode_source
from eigenview.batches.identity import images_identity, settings_identity, weights_identity
from eigenview.data import Source
from eigenview.distributed import Group, from_first_process, rank
from eigenview.errors import DataError, SettingError
from eigenview.nn import Encoder
from eigenview.tensors import read_sealed, save_sealed
from eigenview.views import CentreView

INDEX = "index"  # in the file, beside the layers


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
    stored = None if file is None or not file.is_file() else _checked(file, names, items)
    if not bool(from_first_process(torch.tensor(stored is not None), group)):
        return None
    if stored is None:
        raise DataError(f"{file} is in the first process's cache but not in this one's; give all the same folder")
    return stored


def _checked(file: Path, names: Sequence[str], items: int) -> dict[str, Tensor] | None:
    """The tensors of a cache file whose checksum and shapes are right, or None."""
    try:
        stored, _ = read_sealed(file)
    except DataError:
        return None
    if set(stored) != set(names):
        return None
    index = stored[INDEX]
    is_index = index.ndim == 1 and len(index) > 0 and int(index.min()) >= 0 and int(index.max()) < items
    return stored if is_index and all(len(rows) == len(index) for rows in stored.values()) else None
