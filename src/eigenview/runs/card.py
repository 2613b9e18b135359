"""What goes with exported weights: how the encoder is built, and how images must look when they come in."""

from dataclasses import dataclass, field, fields
from pathlib import Path

from safetensors import SafetensorError, safe_open

from eigenview.errors import DataError
from eigenview.files import from_json
from eigenview.nn import Encoder
from eigenview.nn.settings import EncoderSettings
from eigenview.views import CentreView

KEY = "eigenview"  # of the metadata in a file
GIVEN_AS = "give it as weights (--weights, of train --encoder.weights)"  # what to do with a file that says nothing


@dataclass(frozen=True)
class Build:
    """The options of ``nn.build_encoder``."""

    name: str
    width: float
    stem: str
    normalization: str
    channels: int
    image_size: int
    config: str = ""


@dataclass(frozen=True, kw_only=True)
class Input(CentreView):
    """Images as the encoder knows them: floating (n, channels, size, size), (pixel / 255 − mean) / std.

    Before that, the shorter side (both, if ``is_squashed``) is resized to ``resize`` and the central ``size`` ×
    ``size`` kept; ``rounds_down`` says where it begins if the margin is odd. ``is_exact``: resized by Pillow.
    """

    channels: int


@dataclass(frozen=True)
class Card:
    """Everything beside the weights. ``build`` is None for an encoder that was not built by name."""

    format: str  # safetensors, onnx, torchvision, timm
    run: str
    version: str
    feature_width: int
    input: Input
    build: Build | None
    architecture: str | None  # the name in torchvision or timm, for those formats
    options: dict[str, int] = field(default_factory=dict)  # what timm is told beside the name
    classes: tuple[str, ...] = ()  # of a head that stands on the encoder: it gives their probabilities

    @property
    def view(self) -> CentreView:
        return CentreView(**{each.name: getattr(self.input, each.name) for each in fields(CentreView)})


def card_of(encoder: Encoder, view: CentreView, name: str, settings: EncoderSettings | None, *, format: str) -> Card:
    """``settings``: by which it was built; None for an encoder that has none."""
    from eigenview import __version__

    channels, build = encoder.channels, None
    if settings is not None:
        width, stem, normalization = settings.width, settings.stem, settings.normalization
        build = Build(settings.name, width, stem, normalization, channels, view.size, settings.config)
    mean, std = (values if len(values) == channels else values[:1] * channels for values in (view.mean, view.std))
    return Card(
        format=format,
        run=name,
        version=__version__,
        feature_width=encoder.feature_width,
        input=Input(**{**vars(view), "mean": mean, "std": std}, channels=channels),
        build=build,
        architecture=None,
    )


def read_card(path: str | Path) -> Card:
    """What an exported safetensors file says about itself."""
    place = Path(path)
    if not place.is_file():
        raise DataError(f"no such file: {place}; is the path right?")
    try:
        with safe_open(place, framework="pt") as file:
            notes = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise DataError(f"{place} is not a readable safetensors file ({error}); is it cut short?") from None
    if KEY not in notes:
        raise DataError(f"{place} was not exported by eigenview: name its encoder, and {GIVEN_AS}")
    return from_json(Card, notes[KEY], place)
