"""Features, computed once for each encoder, data, view and layer, and kept on disk under a hash of all four."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from eigenview.data import Batch, BatchSource, Loader, Source
from eigenview.distributed import Group, from_first_process, gather_rows, rank, refuse_together, world_size
from eigenview.errors import DataError, EigenviewError, SettingError
from eigenview.evaluation.checks import some
from eigenview.evaluation.identity import images_identity, settings_identity, weights_identity
from eigenview.files import atomic_path
from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import check_layers
from eigenview.progress import progress_bar
from eigenview.views import CentreView

Maps = Literal["average", "flatten", "keep"]

PROJECTION = "projection"  # the layer's name for what the head gives
BATCH = 256  # images at a time
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
    encoder: Encoder,
    source: Source,
    *,
    view: CentreView,
    layers: Sequence[str] = (POOLED,),
    head: nn.Module | None = None,
    maps: Maps = "average",
    cache: str | Path | None = None,
    workers: int | str = "auto",
    shows_progress: bool = True,
    group: Group = None,
) -> Features:
    """The features of every readable image, all ``layers`` in one pass, with the encoder in eval mode.

    ``head`` adds the layer ``projection``: its output for the pooled features. Layers with positions (n, c, h, w) are
    averaged over them, flattened, or kept, by ``maps``. Computed on the encoder's device, given on the CPU. Modes are
    restored afterwards, and batch statistics do not move. For a module of your own, see ``eigenview.nn.wrap``.

    With a ``cache`` folder, features found there under the same hash are read instead. The hash covers all weights and
    how the modules are built, every image, the view, the layers, ``maps`` and this library's version. Labels are the
    source's own, as they are now. With a ``group``, each process computes its share and all get everything.
    """
    work = _Work(encoder, view, tuple(layers), head, maps)
    key = work.key(source)
    file = None if cache is None else Path(cache) / f"features-{key}.safetensors"
    found = _read(file, [*layers, INDEX], group)
    if found is None:
        with evaluating(*work.modules), torch.no_grad():
            found = _compute(work, source, workers, shows_progress, group)
        if file is not None and rank(group) == 0:
            _write(file, found)
    index = found.pop(INDEX)
    labels = None if source.labels is None else torch.from_numpy(np.asarray(source.labels)[index.numpy()])
    return Features(found, index, labels, source.classes, key)


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Every part of the modules in eval mode; afterwards each part is as it was."""
    before = [(part, part.training) for module in modules for part in module.modules()]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for part, was_training in before:
            part.training = was_training


def evaluation_batches(
    source: Source, view: CentreView, *, batch_size: int = BATCH, workers: int | str = "auto", group: Group = None
) -> Iterator[tuple[Batch, Tensor]]:
    """Every readable item once, in order, with its evaluation view (n, c, size, size)."""
    stays_whole = isinstance(source, BatchSource)
    loader = Loader(
        source,
        batch_size=max(batch_size, world_size(group)),
        seed=0,
        prepare=None if stays_whole else view.prepare,
        workers=workers,
        shuffle=False,
        drop_last=False,
        unreadable="skip",
        group=group,
    )
    for batch in loader:
        if len(batch) == 0:
            continue
        yield batch, view(batch.views[0]) if stays_whole else view.finish(batch.views)


@dataclass(frozen=True)
class _Work:
    """What is computed for each image."""

    encoder: Encoder
    view: CentreView
    layers: tuple[str, ...]
    head: nn.Module | None
    maps: Maps

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, Encoder):
            got = type(self.encoder).__name__
            raise SettingError(f"features need an Encoder; got {got}: pass eigenview.nn.wrap(module)")
        if self.maps not in ("average", "flatten", "keep"):
            raise SettingError(f"maps must be average, flatten or keep; got {self.maps!r}")
        if PROJECTION in self.layers and self.head is None:
            raise SettingError("the layer 'projection' is the head's output: give head=")
        check_layers([name for name in self.layers if name != PROJECTION] or [POOLED], self.encoder.layer_names)
        if not self.layers:
            raise SettingError("no layer was asked for; 'pooled' is on every encoder")

    @property
    def modules(self) -> list[nn.Module]:
        return [self.encoder, *([] if self.head is None else [self.head])]

    def key(self, source: Source) -> str:
        from eigenview import __version__

        return settings_identity(
            {
                "weights": weights_identity(*self.modules),
                "images": images_identity(source),
                "view": repr(self.view),
                "layers": list(self.layers),
                "maps": self.maps,
                "version": __version__,
            }
        )

    def __call__(self, images: Tensor) -> dict[str, Tensor]:
        """The layers of a batch of views, on the CPU."""
        device = next(self.encoder.parameters(), images).device
        own = [name for name in self.layers if name != PROJECTION]
        asked = [*own, POOLED] if PROJECTION in self.layers and POOLED not in own else own
        images = images.to(device, memory_format=torch.channels_last)
        found = self.encoder.features(images, asked)
        if self.head is not None and PROJECTION in self.layers:
            found[PROJECTION] = self.head(found[POOLED])
        return {name: self._arranged(found[name]).float().cpu() for name in self.layers}

    def _arranged(self, rows: Tensor) -> Tensor:
        if rows.ndim == 2 or self.maps == "keep":
            return rows
        return rows.flatten(2).mean(dim=2) if self.maps == "average" else rows.flatten(1)


def _compute(work: _Work, source: Source, workers: int | str, shows_progress: bool, group: Group) -> dict[str, Tensor]:
    parts: dict[str, list[Tensor]] = {name: [] for name in (*work.layers, INDEX)}
    problem: EigenviewError | None = None
    with progress_bar("features", total=len(source), shown=shows_progress and rank(group) == 0) as advance:
        try:
            for batch, images in evaluation_batches(source, work.view, workers=workers, group=group):
                for name, rows in {**work(images), INDEX: batch.index}.items():
                    parts[name].append(rows)
                advance(BATCH)
            if not parts[INDEX]:
                raise DataError("a process found no readable image; check the source, or use fewer processes")
        except EigenviewError as error:
            problem = error
    refuse_together(problem, group, torch.device("cpu"))
    whole = {name: gather_rows(torch.cat(rows), group) for name, rows in parts.items()}
    order = whole[INDEX].argsort()
    found = {name: rows[order].contiguous() for name, rows in whole.items()}
    for name in work.layers:
        wrong = ~torch.isfinite(found[name].flatten(1)).all(dim=1)
        if wrong.any():
            items = found[INDEX][wrong]
            raise DataError(f"features of layer {name} are not finite for {len(items)} images: items {some(items)}")
    return found


def _read(file: Path | None, names: Sequence[str], group: Group) -> dict[str, Tensor] | None:
    """What the first process finds decides for all; a damaged file counts as none and is written anew."""
    found = None
    if file is not None and file.is_file():
        try:
            found = load_file(file)
        except (SafetensorError, OSError):
            found = None
    has_all = found is not None and set(found) == set(names)
    if not bool(from_first_process(torch.tensor(has_all), group)):
        return None
    if found is None or not has_all:
        raise DataError(f"{file} is in the first process's cache but not in this one's; give all the same folder")
    return found


def _write(file: Path, found: Mapping[str, Tensor]) -> None:
    """Written beside and renamed: a cache file is whole or not there."""
    with atomic_path(file) as beside:
        save_file(dict(found), beside)
