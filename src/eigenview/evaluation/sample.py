"""A sample of images as a run sees them: features, projections of two views, clusters, thumbnails. For the report."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from eigenview.data import BatchSource, LazyImage, Loader, Source, subset
from eigenview.diagnostics import cluster_count
from eigenview.errors import DataError, EigenviewError, SettingError
from eigenview.evaluation.clustering import cluster
from eigenview.evaluation.features import evaluating, extract
from eigenview.evaluation.run_head import find_head
from eigenview.evaluation.runs import EvaluatedRun, open_run
from eigenview.nn import POOLED
from eigenview.nn.weights import read_weights
from eigenview.views import Cropper, Recipe, Views
from eigenview.views.show import view_pixels

FOLDER, SUMMARY = "sample", "sample.json"
MOST_ITEMS = 20_000
LARGEST_SIDE = 48  # pixels of a thumbnail; smaller images keep their own size
SHEET_CELLS = 32  # thumbnails along a side of a sheet
SHOWN_IMAGES, SHOWN_VIEWS, VIEW_SIDE = 6, 8, 96  # of the picture of the views
LEAST_CLUSTERS, UNLABELLED_CLUSTERS = 2, 10  # where the graph suggests one cloud, so many parts of it are shown
ARRAYS = ("features", "first_view", "second_view", "index", "labels", "clusters", "prototypes")

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Sheets:
    """Square pictures of one size, packed row by row into files."""

    files: tuple[Path, ...]
    side: int  # pixels of a picture
    columns: int  # pictures in a row of a sheet
    rows: int  # rows of a full sheet


@dataclass(frozen=True)
class Sample:
    """What ``write_sample`` stored: n items, in the source's order. None: the run or the source has no such thing."""

    features: Floats  # (n, d), before the head
    first_view: Floats | None  # (n, p), the head's output for one augmented view
    second_view: Floats | None  # (n, p), for another
    index: Ints  # (n,), which item of the source
    names: tuple[str, ...]
    labels: Ints | None  # (n,), −1 where an item has none
    classes: tuple[str, ...] | None
    clusters: Ints  # (n,), by spherical k-means on the features
    prototypes: Ints | None  # (n,), the most similar of the run's own prototypes
    thumbnails: Sheets
    views: Sheets | None  # one sheet: a row an image, the original first, then its views
    source: str
    seed: int
    checkpoint: str


def write_sample(
    folder: str | Path, source: Source, *, items: int = 2000, seed: int = 0, checkpoint: str = "last"
) -> Path:
    """Embed up to ``items`` images of ``source``, drawn by ``seed``, into ``folder/sample``: whole or not there.

    Unreadable images are left out. Projections need the run's head in ``config.json`` and the checkpoint; a run
    without one has none. Clusters: as many as there are classes; without labels, what the eigengap suggests.
    """
    if not 3 <= items <= MOST_ITEMS:
        raise SettingError(f"a sample has 3 to {MOST_ITEMS:,} items; got {items}")
    if len(source) < 3:
        raise DataError(f"a sample needs at least 3 images; the source has {len(source)}")
    folder = Path(folder)
    run = open_run(folder, source, checkpoint=checkpoint)
    drawn = np.sort(np.random.default_rng(seed).permutation(len(source))[:items])
    found = extract(run.encoder, subset(source, drawn), view=run.view, shows_progress=False)
    chosen = drawn[found.index.numpy()]
    part = subset(source, chosen)  # the readable ones
    features = found[POOLED]
    arrays: dict[str, Tensor | None] = {"features": features, "index": torch.from_numpy(chosen)}
    arrays |= {"labels": found.labels, "clusters": _clusters(features, found.labels, seed)}
    recipe = run.recipe
    weights = folder / "checkpoints" / checkpoint / "weights.safetensors"
    head = _head(run, checkpoint)
    if head is not None:
        first, second = _projections(run, head, part, recipe)
        arrays |= {"first_view": first, "second_view": second, "prototypes": _prototypes(weights, first)}
    beside = folder / f".{FOLDER}.{os.getpid()}"
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        for name, values in arrays.items():
            if values is not None:
                np.save(beside / f"{name}.npy", values.numpy())
        summary = {
            "names": [part.image(place).name for place in range(len(part))],
            "classes": None if found.labels is None else found.classes,
            "thumbnails": _write_thumbnails(part, beside),
            "views": _write_views(part, recipe, run, beside),
            "source": str(source.describe()),
            "seed": seed,
            "checkpoint": checkpoint,
        }
        (beside / SUMMARY).write_text(json.dumps(summary, ensure_ascii=False), encoding="utf-8")
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        beside.rename(folder / FOLDER)
    except OSError as error:
        raise DataError(f"cannot write the sample to {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder / FOLDER


def read_sample(folder: str | Path) -> Sample | None:
    """The sample of a run, or None where none was written; a damaged one is refused."""
    place = Path(folder) / FOLDER
    if not (place / SUMMARY).is_file():
        return None
    try:
        summary = json.loads((place / SUMMARY).read_text(encoding="utf-8"))
        found = {
            name: np.load(place / f"{name}.npy", allow_pickle=False) if (place / f"{name}.npy").exists() else None
            for name in ARRAYS
        }
        names, classes = summary["names"], summary["classes"]
        lengths = {len(names), *(len(values) for values in found.values() if values is not None)}
        if len(lengths) != 1 or found["features"] is None or found["clusters"] is None:
            raise ValueError(f"its parts have {sorted(lengths)} rows")
        return Sample(
            **found,  # type: ignore[arg-type]
            names=tuple(map(str, names)),
            classes=None if classes is None else tuple(map(str, classes)),
            thumbnails=_sheets(place, summary["thumbnails"]),
            views=None if summary["views"] is None else _sheets(place, summary["views"]),
            source=str(summary["source"]),
            seed=int(summary["seed"]),
            checkpoint=str(summary["checkpoint"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the sample in {place} cannot be read: {error}; delete it and write it again") from None


def _sheets(place: Path, stored: Mapping[str, object]) -> Sheets:
    files = stored["files"]
    assert isinstance(files, list)
    inside = tuple(place / Path(str(name)).name for name in files)  # never a file elsewhere
    side, columns, rows = (int(str(stored[name])) for name in ("side", "columns", "rows"))
    return Sheets(inside, side, columns, rows)


def _clusters(features: Tensor, labels: Tensor | None, seed: int) -> Tensor:
    known = 0 if labels is None else int((torch.unique(labels) >= 0).sum())
    neighbours = min(10, len(features) - 1)
    count = known if known > 1 else cluster_count(features, neighbours=neighbours, seed=seed).clusters
    if count < LEAST_CLUSTERS:
        count = UNLABELLED_CLUSTERS
    return cluster(features, min(count, len(features) // 2 + 1), seed=seed)


def _head(run: EvaluatedRun, checkpoint: str) -> nn.Module | None:
    """The run's head, or None where its settings or its checkpoint hold none that can be built."""
    try:
        return find_head(run, checkpoint=checkpoint)
    except EigenviewError:
        return None


def _projections(run: EvaluatedRun, head: nn.Module, part: Source, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """The head's output for two large views of every image."""
    pair = recipe.with_crops([replace(recipe.crops[0], count=2)])
    stays_whole = isinstance(part, BatchSource)
    prepare = None if stays_whole else Cropper(pair, seed=0)
    loader = Loader(part, batch_size=256, seed=0, prepare=prepare, shuffle=False, drop_last=False)
    views, rows = Views(pair, seed=0), []
    device = next(run.encoder.parameters()).device
    with evaluating(run.encoder, head), torch.no_grad():
        head.to(device)
        for batch in loader:
            made = views(batch.views[0], batch.index, epoch=0) if stays_whole else None
            made = made or views.finish(batch.views, batch.index, epoch=0)
            rows.append(head(run.encoder(made.groups[0].to(device))).float().cpu().view(2, len(batch), -1))
    first, second = torch.cat(rows, dim=1)
    return first.contiguous(), second.contiguous()


def _prototypes(weights: Path, projections: Tensor) -> Tensor | None:
    """The prototype that each projection is most similar to, for runs that learn prototypes."""
    table = read_weights(weights).get("prototypes.heads.0.weight")
    if table is None or table.shape[1] != projections.shape[1]:
        return None
    return (projections @ nn.functional.normalize(table.float(), dim=1).T).argmax(dim=1)


def _write_thumbnails(part: Source, folder: Path) -> dict[str, object]:
    """JPEG sheets. Sides are multiples of 8 without chroma subsampling, so that no thumbnail bleeds into the next."""
    shorter = min(part.image(0).size)
    side = min(LARGEST_SIDE, 8 * -(-shorter // 8))
    pictures = (square(part.image(place), side) for place in range(len(part)))
    columns = min(SHEET_CELLS, max(1, round(len(part) ** 0.5)))
    rows = min(SHEET_CELLS, -(-len(part) // columns))
    files = []
    for number in range(-(-len(part) // (columns * rows))):
        count = min(columns * rows, len(part) - number * columns * rows)
        sheet = packed([next(pictures) for _ in range(count)], side, columns)
        sheet.save(folder / f"thumbnails-{number}.jpg", quality=85, subsampling=0)
        files.append(f"thumbnails-{number}.jpg")
    return {"files": files, "side": side, "columns": columns, "rows": rows}


def _write_views(part: Source, recipe: Recipe, run: EvaluatedRun, folder: Path) -> dict[str, object]:
    """One PNG: a row an image, the original first, then up to eight of its views, as training drew them in epoch 0."""
    step = max(1, len(part) // SHOWN_IMAGES)
    photos = [part.image(place) for place in range(0, len(part), step)][:SHOWN_IMAGES]
    seed = run.config.get("seed")
    cropper = Cropper(recipe, seed=seed if isinstance(seed, int) else 0)
    cuts = [cropper(photo, 0, place) for place, photo in enumerate(photos)]
    stacked = [torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2) for crops in zip(*cuts, strict=True)]
    batch = Views(recipe, seed=cropper.seed).finish(stacked, list(range(len(photos))), epoch=0)
    views = view_pixels(batch, recipe)[:SHOWN_VIEWS]
    pictures = []
    for place, photo in enumerate(photos):
        pictures += [square(photo, VIEW_SIDE), *(_fitted(view[place], VIEW_SIDE) for view in views)]
    packed(pictures, VIEW_SIDE, len(views) + 1).save(folder / "views.png", optimize=True)
    return {"files": ["views.png"], "side": VIEW_SIDE, "columns": len(views) + 1, "rows": len(photos)}


def square(photo: LazyImage, side: int) -> Image.Image:
    """The central square of a photo, ``side`` pixels wide."""
    width, height = photo.size
    pixels = photo.pixels(
        reduce=next(factor for factor in (8, 4, 2, 1) if factor == 1 or factor * side <= min(width, height))
    )
    tall, wide = pixels.shape[:2]
    short = min(tall, wide)
    top, left = (tall - short) // 2, (wide - short) // 2
    return _fitted(pixels[top : top + short, left : left + short], side)


def packed(pictures: Sequence[Image.Image], side: int, columns: int) -> Image.Image:
    """Pictures of one size in rows of ``columns``."""
    sheet = Image.new("RGB", (columns * side, -(-len(pictures) // columns) * side))
    for place, picture in enumerate(pictures):
        sheet.paste(picture, (place % columns * side, place // columns * side))
    return sheet


def _fitted(pixels: NDArray[np.uint8], side: int) -> Image.Image:
    """A square array as an RGB picture; pixels stay visible when it is enlarged."""
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).convert("RGB")
    smaller = picture.width > side
    return picture.resize((side, side), Image.Resampling.LANCZOS if smaller else Image.Resampling.NEAREST)
