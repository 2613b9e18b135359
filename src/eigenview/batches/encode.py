"""The one pass that encodes batches: layers of an encoder, perhaps through a head, with names and failures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from eigenview.batches.loader import ViewLoader
from eigenview.data import Batch, Failure, Source
from eigenview.distributed import Group, gather_rows, rank, refuse_together
from eigenview.errors import DataError, EigenviewError, NotFiniteError, SettingError
from eigenview.graph.checks import some_rows
from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import check_layers
from eigenview.progress import progress_bar
from eigenview.views import CentreView, Views

Maps = Literal["average", "flatten", "keep"]

PROJECTION = "projection"  # the layer's name for what a head gives
CACHED_PIXELS = 1 << 17  # of the images that a CPU encodes at a time


@dataclass(frozen=True)
class Extractor:
    """What is computed for each image. ``head`` adds the layer ``projection``: its output for the pooled features.

    Layers with positions (n, c, h, w) are averaged over them, flattened, or kept, by ``maps``. Computed where the
    encoder is, given as float32 on the CPU.
    """

    encoder: Encoder
    layers: tuple[str, ...] = (POOLED,)
    head: nn.Module | None = None
    maps: Maps = "average"

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, Encoder):
            got = type(self.encoder).__name__
            raise SettingError(f"features need an Encoder; got {got}: pass eigenview.nn.wrap(module)")
        if self.maps not in ("average", "flatten", "keep"):
            raise SettingError(f"maps must be average, flatten or keep; got {self.maps!r}")
        if not self.layers:
            raise SettingError("no layer was asked for; 'pooled' is on every encoder")
        if PROJECTION in self.layers and self.head is None:
            raise SettingError("the layer 'projection' is the head's output: give head=")
        check_layers([name for name in self.layers if name != PROJECTION] or [POOLED], self.encoder.layer_names)

    @property
    def modules(self) -> list[nn.Module]:
        return [self.encoder, *([] if self.head is None else [self.head])]

    def __call__(self, images: Tensor) -> dict[str, Tensor]:
        """The layers of a batch of views (n, c, h, w); the modules must be in eval mode (:func:`evaluating`)."""
        device = next(self.encoder.parameters(), images).device
        own = [name for name in self.layers if name != PROJECTION]
        asked = [*own, POOLED] if PROJECTION in self.layers and POOLED not in own else own
        # on a CPU few images at a time: maps that stay in its cache are twice as fast as those of a whole batch
        at_once = max(1, CACHED_PIXELS // images[0, 0].numel()) if device.type == "cpu" else len(images)
        pieces = [
            self.encoder.features(piece.to(device, memory_format=torch.channels_last), asked)
            for piece in torch.split(images, at_once)
        ]
        layers = {name: torch.cat([piece[name] for piece in pieces]) for name in asked}
        if self.head is not None and PROJECTION in self.layers:
            layers[PROJECTION] = self.head(layers[POOLED])
        return {name: self._arranged(layers[name]).float().cpu() for name in self.layers}

    def _arranged(self, rows: Tensor) -> Tensor:
        if rows.ndim == 2 or self.maps == "keep":
            return rows
        return rows.flatten(2).mean(dim=2) if self.maps == "average" else rows.flatten(1)


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Every part of the modules in eval mode, without gradients; afterwards each part is as it was."""
    before = [(child, child.training) for module in modules for child in module.modules()]
    for module in modules:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for child, was_training in before:
            child.training = was_training


@dataclass(frozen=True)
class EncodedBatch:
    """Some items and what the extractor says of each of their views."""

    batch: Batch
    layers: Mapping[str, Tensor]  # (views, n, …) by layer; of an empty batch (0, 0)


@dataclass(frozen=True)
class EncodedRows:
    """What an extractor says about the readable items of a source, in the source's order."""

    layers: Mapping[str, Tensor]  # (views, n, …) by layer
    index: Tensor  # (n,) which item of the source each row is
    unreadable: tuple[Failure, ...]  # met by this process


def encoded_batches(extractor: Extractor, loader: ViewLoader, *, epoch: int = 0) -> Iterator[EncodedBatch]:
    """Batch by batch, all views of the loader's first resolution, in eval mode and without gradients."""
    for seen in loader.epoch(epoch):
        if len(seen) == 0:
            yield EncodedBatch(seen.batch, {name: torch.zeros(0, 0) for name in extractor.layers})
            continue
        group = seen.views.groups[0]
        with evaluating(*extractor.modules):
            layers = extractor(group)
        views = len(group) // len(seen)
        yield EncodedBatch(
            seen.batch, {name: rows.view(views, len(seen), *rows.shape[1:]) for name, rows in layers.items()}
        )


def encode_source(
    extractor: Extractor,
    source: Source,
    views: Views | CentreView,
    *,
    epoch: int = 0,
    batch_size: int = 256,
    workers: int | str = "auto",
    title: str | None = "features",
    group: Group = None,
) -> EncodedRows:
    """All readable items; with a ``group`` each process encodes its share and all get everything.

    ``title`` heads the progress; None shows none. Rows that are not finite are refused by item.
    """
    channels = extractor.encoder.channels
    loader = ViewLoader.in_order(source, views, batch_size=batch_size, workers=workers, channels=channels, group=group)
    rows: dict[str, list[Tensor]] = {name: [] for name in extractor.layers}
    index: list[Tensor] = []
    failures: dict[str, Failure] = {}
    problem: EigenviewError | None = None
    with progress_bar(title or "", total=len(source), shown=title is not None and rank(group) == 0) as advance:
        try:
            for encoded in encoded_batches(extractor, loader, epoch=epoch):
                failures.update({failure.name: failure for failure in encoded.batch.unreadable})
                if len(encoded.batch):
                    index.append(encoded.batch.index)
                    for name, layer in encoded.layers.items():
                        rows[name].append(layer.transpose(0, 1))
                advance(batch_size)
            if not index:
                raise DataError(_none_readable(list(failures.values())))
        except EigenviewError as error:
            problem = error
    refuse_together(problem, group, torch.device("cpu"))
    places = gather_rows(torch.cat(index), group)
    order = places.argsort()
    layers = {
        name: gather_rows(torch.cat(blocks).contiguous(), group)[order].transpose(0, 1).contiguous()
        for name, blocks in rows.items()
    }
    for name, layer in layers.items():
        check_finite_items(layer, places[order].tolist(), name)
    return EncodedRows(layers, places[order], tuple(failures.values()))


def _none_readable(failures: list[Failure]) -> str:
    if not failures:
        return "a process has no image to encode; check the source, or use fewer processes"
    others = f", nor can {len(failures) - 1:,} others" if len(failures) > 1 else ""
    return f"{failures[0].name} cannot be read: {failures[0].reason}{others}; check the source"


def check_finite_items(layer: Tensor, items: Sequence[object], name: str) -> None:
    """Refuse rows (views, n, …) with NaN or Inf, naming their ``items``."""
    wrong = (~layer.transpose(0, 1).flatten(1).isfinite().all(dim=1)).nonzero().flatten().tolist()
    if wrong:
        listed = some_rows([items[row] for row in wrong], len(items), "images")
        raise NotFiniteError(f"layer {name} must be finite; NaN or Inf in {listed}: did its training diverge?")
