"""Is a run any good, without labels: its encoder and head on two random views of its own recipe, diagnosed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.data import BatchSource, Loader, Source, subset
from eigenview.diagnostics import Diagnosis, Sampling, diagnose, diagnosed, prototype_usage
from eigenview.diagnostics.clusters import PrototypeUsage
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.features import BATCH, evaluating, evaluation_batches
from eigenview.evaluation.run_head import find_head
from eigenview.evaluation.runs import open_run
from eigenview.files import atomic_path
from eigenview.nn import Encoder
from eigenview.nn.weights import read_weights
from eigenview.views import Cropper, Recipe, Views, centre_view

Where = Literal["projection", "features"]

FILE = "diagnosis.json"  # in a run
UNSEEN_EPOCH = 1_000_003  # views are drawn as of this epoch: none that training has seen
PROTOTYPES = "prototypes.heads."  # of tensors in a checkpoint


@dataclass(frozen=True)
class Progress:
    """Where a run's loss ended. ``has_diverged``: what came after the last finite loss was not finite."""

    loss: float | None = None
    chance: float | None = None
    has_diverged: bool = False


def diagnose_run(
    folder: str | Path,
    source: Source,
    *,
    items: int = 5000,
    checkpoint: str = "last",
    where: Where = "projection",
    seed: int = 0,
    workers: int | str = "auto",
) -> Diagnosis:
    """Figures and a verdict for a run's encoder and head on ``items`` images of ``source``, drawn by ``seed``.

    Two views of each image by the run's own recipe, in eval mode, and one without augmentation for near-duplicates,
    whose pairs are numbered as in ``source``. ``where``: what the loss saw (``projection``), or the features before
    the head, which are judged around their mean; a run without a head has features only. Loss and chance level are
    the last finite ones of ``metrics.jsonl``; prototypes are looked at where the checkpoint holds some; labels serve
    tolerance alone, and no verdict sees them.
    """
    if where not in ("projection", "features"):
        raise SettingError(f"where is projection or features; got {where!r}")
    if len(source) < 2:
        raise DataError(f"a diagnosis compares images: the source must have at least 2; it has {len(source)}")
    run = open_run(folder, source, checkpoint=checkpoint)
    weights = run.folder / "checkpoints" / checkpoint / "weights.safetensors"
    head = None if where == "features" else find_head(run, checkpoint=checkpoint)
    prototypes = () if head is None else _prototypes(weights)
    return _diagnosed(
        _Subject(run.encoder, head, run.recipe, prototypes),
        source,
        progress_of(run.folder),
        _Drawn(items, seed, workers),
        name=f"the checkpoint {checkpoint} of {run.folder}",
    )


def diagnose_encoder(
    encoder: Encoder,
    source: Source,
    *,
    recipe: Recipe,
    head: nn.Module | None = None,
    progress: Progress | None = None,
    items: int = 5000,
    seed: int = 0,
    workers: int | str = "auto",
) -> Diagnosis:
    """The same for any encoder (``eigenview.nn.wrap`` makes one of a module): ``recipe`` draws the two views.

    With a ``head``, its output is judged; without, the features themselves, around their mean.
    """
    subject = _Subject(encoder, head, recipe, ())
    return _diagnosed(subject, source, progress or Progress(), _Drawn(items, seed, workers), name="the encoder")


def save_diagnosis(diagnosis: Diagnosis, folder: str | Path) -> Path:
    """Into ``folder/diagnosis.json``, whole or not at all."""
    place = Path(folder) / FILE
    if not place.parent.is_dir():
        raise DataError(f"cannot write {place}: there is no such folder; does the run exist?")
    with atomic_path(place) as beside:
        beside.write_text(diagnosis.to_json() + "\n", encoding="utf-8")
    return place


def load_diagnosis(folder: str | Path) -> Diagnosis | None:
    """What :func:`save_diagnosis` wrote, or None where there is none."""
    place = Path(folder) / FILE
    return Diagnosis.from_json(place.read_text(encoding="utf-8")) if place.is_file() else None


def progress_of(folder: Path) -> Progress:
    """The last finite loss of ``metrics.jsonl`` and its chance level; nothing where there is no such file."""
    file = folder / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    found, has_diverged = Progress(), False
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            continue  # a last line that a crash cut short
        if "epoch_loss" in line:
            continue  # a look back at an epoch, not at a step
        loss, chance = (_finite(line.get(name)) for name in ("loss", "chance"))
        has_diverged = loss is None
        found = found if has_diverged else Progress(loss, chance)
    return replace(found, has_diverged=has_diverged)


@dataclass(frozen=True)
class _Subject:
    """What is embedded by what. ``prototypes``: (K, d) of each head of them."""

    encoder: Encoder
    head: nn.Module | None
    recipe: Recipe
    prototypes: tuple[Tensor, ...]

    @property
    def modules(self) -> list[nn.Module]:
        return [self.encoder, *([] if self.head is None else [self.head])]

    def embed(self, images: Tensor) -> Tensor:
        device = next(self.encoder.parameters(), images).device
        features = self.encoder(images.to(device, memory_format=torch.channels_last))
        rows: Tensor = features if self.head is None else self.head(features)
        return rows.float().cpu()


@dataclass(frozen=True)
class _Drawn:
    """Which images: so many, by this seed."""

    items: int
    seed: int
    workers: int | str

    def of(self, source: Source) -> NDArray[np.int64]:
        if self.items < 2:
            raise SettingError(f"a diagnosis compares images: items must be at least 2; got {self.items}")
        if len(source) < 2:
            raise DataError(f"a diagnosis compares images: the source must have at least 2; it has {len(source)}")
        return np.sort(np.random.default_rng(self.seed).permutation(len(source))[: self.items])


def _diagnosed(subject: _Subject, source: Source, progress: Progress, drawn: _Drawn, *, name: str) -> Diagnosis:
    _check_weights(subject.modules, name)
    index = drawn.of(source)
    part = subset(source, index)
    with evaluating(*subject.modules), torch.no_grad():
        kept, first, second = _two_views(subject, part, drawn)
        unaugmented = _without_augmentation(subject, part, drawn)
    if len(kept) < 2 or len(unaugmented) != len(kept):
        raise DataError(f"a diagnosis compares images: {len(kept)} of {len(part)} could be read; check the source")
    found = diagnose(
        first,
        second,
        _labels(source, index[kept.numpy()]),
        loss=progress.loss,
        chance=progress.chance,
        usage=_usage(first, subject.prototypes),
        unaugmented=unaugmented,
        centred=subject.head is None,
        has_diverged=progress.has_diverged,
        sampling=Sampling(seed=drawn.seed),
    )
    pairs = tuple((int(index[kept[i]]), int(index[kept[j]])) for i, j in found.figures.duplicate_pairs)
    return diagnosed(replace(found.figures, duplicate_pairs=pairs), seed=drawn.seed)


def _two_views(subject: _Subject, part: Source, drawn: _Drawn) -> tuple[Tensor, Tensor, Tensor]:
    """Which items could be read (n,), and their embeddings (n, d) in each of two large views."""
    recipe = subject.recipe.with_crops([replace(subject.recipe.crops[0], count=2)])
    index: list[Tensor] = []
    rows: list[Tensor] = []
    for numbers, images in _view_batches(part, Views(recipe, seed=drawn.seed), drawn.workers):
        index.append(numbers)
        embeddings = subject.embed(images)
        rows.append(embeddings.view(2, len(numbers), embeddings.shape[1]))
    if not index:
        return torch.zeros(0, dtype=torch.long), torch.zeros(0, 1), torch.zeros(0, 1)
    first, second = torch.cat(rows, dim=1)
    return torch.cat(index), first, second


def _view_batches(part: Source, views: Views, workers: int | str) -> Iterator[tuple[Tensor, Tensor]]:
    stays_whole = isinstance(part, BatchSource)
    prepare = None if stays_whole else Cropper(views.recipe, seed=views.seed)
    loader = Loader(
        part,
        batch_size=BATCH,
        seed=0,
        prepare=prepare,
        workers=workers,
        shuffle=False,
        drop_last=False,
        unreadable="skip",
    )
    loader.set_epoch(UNSEEN_EPOCH)
    for batch in loader:
        if len(batch) == 0:
            continue
        if stays_whole:
            made = views(batch.views[0], batch.index, epoch=UNSEEN_EPOCH)
        else:
            made = views.finish(batch.views, batch.index, epoch=UNSEEN_EPOCH)
        yield batch.index, made.groups[0]


def _without_augmentation(subject: _Subject, part: Source, drawn: _Drawn) -> Tensor:
    """Embeddings (n, d) of the readable items' evaluation view."""
    view = centre_view(subject.recipe)
    rows = [subject.embed(images) for _, images in evaluation_batches(part, view, workers=drawn.workers)]
    return torch.cat(rows) if rows else torch.zeros(0, 1)


def _check_weights(modules: list[nn.Module], name: str) -> None:
    for module in modules:
        wrong = [key for key, tensor in module.state_dict().items() if not bool(torch.isfinite(tensor).all())]
        if wrong:
            raise DataError(
                f"{name} has weights that are not finite ({', '.join(wrong[:3])}): training diverged; "
                "take an earlier checkpoint, or train with a lower learning rate"
            )


def _prototypes(weights: Path) -> tuple[Tensor, ...]:
    return tuple(tensor.float() for name, tensor in read_weights(weights).items() if name.startswith(PROTOTYPES))


def _usage(rows: Tensor, prototypes: tuple[Tensor, ...]) -> PrototypeUsage | None:
    """Of the head of prototypes that is used least evenly; None where there are no prototypes for such rows."""
    fitting = [table for table in prototypes if table.shape[1] == rows.shape[1] and len(table) > 1]
    found = [
        prototype_usage((normalize(rows, dim=1) @ normalize(table, dim=1).T).argmax(dim=1), len(table))
        for table in fitting
    ]
    return min(found, key=lambda usage: usage.entropy, default=None)


def _labels(source: Source, index: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The items' labels, where some label is there twice: tolerance compares items of one class."""
    if source.labels is None:
        return None
    labels = np.asarray(source.labels)[index]
    known, counts = np.unique(labels[labels >= 0], return_counts=True)
    return labels if len(known) and counts.max() > 1 else None


def _finite(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]
