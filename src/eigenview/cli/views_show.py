"""Draw the views that training would see: a row for each image, the original first.

Examples:
  eigenview views show photos/ -o views.png
  eigenview views show cifar10:data/cifar --preset simclr-cifar --count 12
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from eigenview.cli.options import Word, positional
from eigenview.cli.output import Output
from eigenview.errors import DataError
from eigenview.names import counted
from eigenview.settings import Strict


class Options(Strict):
    source: Annotated[str, positional("SOURCE")]  # a folder, a table, shards, a list, arrays or a named set
    out: Annotated[Path, Word("FILE", "-o")] = Path("views.png")  # the picture to write
    preset: str = "auto"  # a published recipe, or auto: by the images' size and channels
    size: Annotated[int | None, Word("PIXELS")] = Field(None, ge=1)  # of the views; as train would choose unless given
    count: int = Field(8, ge=1)  # images, evenly spread over the source
    epoch: int = Field(0, ge=0)  # views differ from epoch to epoch
    seed: int = Field(0, ge=0)  # of the views


def run(options: Options, output: Output) -> None:
    import numpy as np

    from eigenview.batches import image_statistics, typical_shape
    from eigenview.data import BatchSource, UnreadableImage, open_images
    from eigenview.devices import find_device
    from eigenview.training.choices import view_wishes
    from eigenview.views import show
    from eigenview.views.settings import ViewSettings

    source = open_images(options.source, needs_index=True)
    shape, device = typical_shape(source), "cpu" if find_device("auto").type == "cpu" else "cuda"
    # as ``train`` would choose for such images on this machine, and draw
    chosen = {wish.name: wish.value for wish in view_wishes({"views": {"preset": options.preset}}, shape, device)}
    settings = ViewSettings(preset=options.preset, size=options.size or chosen.get("views.size"))
    recipe = settings.recipe(shape, image_statistics(source))
    places = np.unique(np.linspace(0, len(source) - 1, min(options.count, len(source))).round().astype(np.int64))
    if not isinstance(source, BatchSource):
        readable = []
        for place in places:
            try:
                source.image(int(place)).pixels()
                readable.append(place)
            except UnreadableImage as error:
                output.say(f"left out: {error.name} ({error.reason})", style="yellow")
        places = np.array(readable, dtype=np.int64)
        if not len(places):
            raise DataError(f"none of the {options.count} images can be read; `eigenview data check` says why")
    images = source.batch(places) if isinstance(source, BatchSource) else [source.image(int(at)) for at in places]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    file = show(images, recipe, options.out, seed=options.seed, epoch=options.epoch, indices=places.tolist())
    crops = ", ".join(f"{crop.count} of {crop.size} px" for crop in recipe.crops)
    output.say(f"{file}: {counted(len(places), 'image')} with their views ({crops})")
