"""Draw the views that training would see: a row for each image, the original first.

Examples:
  eigenview views show photos/ -o views.png
  eigenview views show cifar10:data/cifar --preset simclr-cifar --count 12
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from eigenview.cli.output import Output
from eigenview.cli.parse import POSITIONAL, parse
from eigenview.errors import SettingError


@dataclass(frozen=True)
class Options:
    source: Annotated[str, POSITIONAL, tyro.conf.arg(metavar="SOURCE")]
    """a folder, a table, shards, a list, arrays or a named set"""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = Path("views.png")
    """the picture to write"""
    preset: str = "auto"
    """a published recipe, or auto: by the images' size and channels"""
    size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    """of the views; the preset's unless given"""
    count: int = 8
    """images, evenly spread over the source"""
    epoch: int = 0
    """views differ from epoch to epoch"""
    seed: int = 0


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="views show", about=__doc__)
    if options.count < 1:
        raise SettingError(f"--count is a number of images, at least 1; got {options.count}")
    import numpy as np

    from eigenview.batches import first_shape, image_statistics
    from eigenview.data import BatchSource, open_images
    from eigenview.views import show
    from eigenview.views.settings import ViewSettings

    source = open_images(options.source, needs_index=True)
    recipe = ViewSettings(preset=options.preset, size=options.size).recipe(
        first_shape(source), image_statistics(source)
    )
    places = np.unique(np.linspace(0, len(source) - 1, min(options.count, len(source))).round().astype(np.int64))
    photos = [] if isinstance(source, BatchSource) else [source.image(int(place)) for place in places]
    images = source.batch(places) if isinstance(source, BatchSource) else photos
    options.out.parent.mkdir(parents=True, exist_ok=True)
    file = show(images, recipe, options.out, seed=options.seed, epoch=options.epoch, indices=places.tolist())
    crops = ", ".join(f"{crop.count} of {crop.size} px" for crop in recipe.crops)
    Output().say(f"{file}: {len(places)} images with their views ({crops})")
