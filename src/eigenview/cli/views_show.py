"""Draw the views that training would see: a row for each image, the original first.

Examples:
  eigenview views show photos/ -o views.png
  eigenview views show cifar10:data/cifar --preset simclr-cifar --count 12
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from eigenview.cli.options import Word, positional
from eigenview.cli.output import Output
from eigenview.settings import Strict


class Options(Strict):
    source: Annotated[str, positional("SOURCE")]  # a folder, a table, shards, a list, arrays or a named set
    out: Annotated[Path, Word("FILE", "-o")] = Path("views.png")  # the picture to write
    preset: str = "auto"  # a published recipe, or auto: by the images' size and channels
    size: Annotated[int | None, Word("PIXELS")] = Field(None, ge=1)  # of the views; the preset's unless given
    count: int = Field(8, ge=1)  # images, evenly spread over the source
    epoch: int = Field(0, ge=0)  # views differ from epoch to epoch
    seed: int = Field(0, ge=0)  # of the views


def run(options: Options, output: Output) -> None:
    import numpy as np

    from eigenview.batches import image_statistics, typical_shape
    from eigenview.data import BatchSource, open_images
    from eigenview.views import show
    from eigenview.views.settings import ViewSettings

    source = open_images(options.source, needs_index=True)
    recipe = ViewSettings(preset=options.preset, size=options.size).recipe(
        typical_shape(source), image_statistics(source)
    )
    places = np.unique(np.linspace(0, len(source) - 1, min(options.count, len(source))).round().astype(np.int64))
    photos = [] if isinstance(source, BatchSource) else [source.image(int(place)) for place in places]
    images = source.batch(places) if isinstance(source, BatchSource) else photos
    options.out.parent.mkdir(parents=True, exist_ok=True)
    file = show(images, recipe, options.out, seed=options.seed, epoch=options.epoch, indices=places.tolist())
    crops = ", ".join(f"{crop.count} of {crop.size} px" for crop in recipe.crops)
    output.say(f"{file}: {len(places)} images with their views ({crops})")
