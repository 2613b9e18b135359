"""What the views of an image are: a small frozen description, checked when it is made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from eigenview.errors import SettingError
from eigenview.names import first_mistake

Range = tuple[float, float]
Interpolation = Literal["bilinear", "bicubic"]
ColourModel = Literal["matrix", "steps"]

_STRICT = ConfigDict(extra="forbid", strict=True)  # for recipe_from_json


@dataclass(frozen=True)
class Crop:
    """``count`` views of ``size`` × ``size`` pixels, each a random part covering ``scale`` of the image's area."""

    __pydantic_config__ = _STRICT

    size: int
    count: int = 2
    scale: Range = (0.08, 1.0)

    def __post_init__(self) -> None:
        _need(self.size >= 1, f"a crop's size must be at least 1 pixel; got {self.size}")
        _need(self.count >= 1, f"a crop's count must be at least 1; got {self.count}")
        low, high = _range(self.scale, "a crop's scale")
        _need(low > 0.0 and high <= 1.0, f"a crop's scale is a share of the area in (0, 1]; got {self.scale}")


@dataclass(frozen=True)
class Jitter:
    """Colour jitter: factors from U(1 − x, 1 + x) (not below 0), hue from U(−hue, hue) turns; with ``probability``."""

    __pydantic_config__ = _STRICT

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    probability: float = 1.0

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            _need(getattr(self, name) >= 0, f"jitter's {name} must not be negative; got {getattr(self, name)}")
        _need(0 <= self.hue <= 0.5, f"jitter's hue must lie in [0, 0.5] turns; got {self.hue}")
        _probability(self.probability, "jitter's probability")


@dataclass(frozen=True)
class Blur:
    """Gaussian blur with σ from U(sigma) in pixels of the view, with ``probability``.

    ``kernel`` is the kernel's width as a share of the view's size, made odd (0.1: 23 taps at 224, 9 at 96, 7 at 64);
    None lets the kernel reach 4 σ, for recipes that name only a radius.
    """

    __pydantic_config__ = _STRICT

    probability: float = 0.5
    sigma: Range = (0.1, 2.0)
    kernel: float | None = 0.1

    def __post_init__(self) -> None:
        _probability(self.probability, "blur's probability")
        low, _ = _range(self.sigma, "blur's sigma")
        _need(low > 0, f"blur's sigma must be positive; got {self.sigma}")
        _need(self.kernel is None or 0 < self.kernel <= 1, f"blur's kernel is a share in (0, 1]; got {self.kernel}")

    def radius(self, size: int) -> int:
        """Taps on each side of the centre, at most ``size − 1`` so that the edge can be mirrored."""
        reach = math.ceil(4 * self.sigma[1]) if self.kernel is None else int(self.kernel * size) // 2
        return min(reach, size - 1)


@dataclass(frozen=True)
class Affine:
    """A small rotation (± degrees), shift (± share of the size), zoom and shear (± degrees); black comes in."""

    __pydantic_config__ = _STRICT

    degrees: float = 0.0
    shift: float = 0.0
    zoom: Range = (1.0, 1.0)
    shear: float = 0.0

    def __post_init__(self) -> None:
        for name in ("degrees", "shift", "shear"):
            _need(getattr(self, name) >= 0, f"affine's {name} must not be negative; got {getattr(self, name)}")
        _need(self.shear < 90, f"affine's shear must be under 90 degrees; got {self.shear}")
        _need(_range(self.zoom, "affine's zoom")[0] > 0, f"affine's zoom must be positive; got {self.zoom}")


@dataclass(frozen=True)
class Recipe:
    """Everything random about a view, and how it is normalised: (value − mean) / std of values in [0, 1].

    ``colour`` is "matrix" (one colour matrix a view, hue as a YIQ rotation, clamped once at the end) or "steps"
    (brightness, contrast, saturation and exact HSV hue in random order, clamped after each, as the papers' code does).
    ``ratio`` is the range of a crop's width / height; None gives each crop the shape of its image.
    """

    __pydantic_config__ = _STRICT

    crops: tuple[Crop, ...]
    ratio: Range | None = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: Jitter | None = None
    grey: float = 0.0
    blur: Blur | None = None
    solarise: float = 0.0
    affine: Affine | None = None
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    interpolation: Interpolation = "bilinear"
    colour: ColourModel = "matrix"

    def __post_init__(self) -> None:
        _need(len(self.crops) > 0, "a recipe needs at least one crop; got none")
        low = 1.0 if self.ratio is None else _range(self.ratio, "ratio")[0]
        _need(low > 0, f"ratio (width / height) must be positive; got {self.ratio}")
        for name in ("flip", "grey", "solarise"):
            _probability(getattr(self, name), name)
        check_statistics(self.mean, self.std)
        check_interpolation(self.interpolation)
        _need(self.colour in ("matrix", "steps"), f'colour is "matrix" or "steps"; got {self.colour!r}')

    @property
    def view_count(self) -> int:
        return sum(crop.count for crop in self.crops)

    def with_crops(self, crops: Sequence[Crop]) -> Recipe:
        """The same recipe with another list of crops: how any recipe becomes multi-crop."""
        return replace(self, crops=tuple(crops))


def recipe_to_json(recipe: Recipe) -> dict[str, object]:
    """Every value of a recipe, in what JSON can hold: a dict of numbers, strings, lists and dicts."""
    content: dict[str, object] = json.loads(json.dumps(asdict(recipe)))
    return content


def recipe_from_json(content: Mapping[str, object]) -> Recipe:
    """The recipe that ``recipe_to_json`` described. What is missing takes its default; unknown names are refused."""
    try:
        return TypeAdapter(Recipe).validate_json(json.dumps(content))
    except ValidationError as error:
        raise SettingError(
            f"this does not describe views: {first_mistake(error)}; see recipe_to_json(preset(...))"
        ) from None


def check_statistics(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    _need(len(mean) == len(std) and len(mean) in (1, 3), f"mean and std need 1 or 3 values each; got {mean} and {std}")
    _need(all(math.isfinite(value) for value in mean), f"mean must be finite; got {mean}")
    _need(all(0 < value < math.inf for value in std), f"std must be positive; got {std}")


def check_interpolation(interpolation: str) -> None:
    _need(interpolation in ("bilinear", "bicubic"), f'interpolation is "bilinear" or "bicubic"; got {interpolation!r}')


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise SettingError(message)


def _range(values: Range, name: str) -> Range:
    _need(len(values) == 2 and values[0] <= values[1], f"{name} is a pair (low, high) with low <= high; got {values}")
    return values


def _probability(value: float, name: str) -> None:
    _need(0.0 <= value <= 1.0, f"{name} must lie in [0, 1]; got {value}")
