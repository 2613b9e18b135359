"""The settings of views, and the one rule that makes a recipe of them."""

from dataclasses import replace

from pydantic import Field

from eigenview.errors import SettingError
from eigenview.settings import Strict
from eigenview.views.presets import ImageStatistics, auto_recipe, preset
from eigenview.views.recipe import Crop, Recipe

Shape = tuple[int, int, int]  # of an image: height, width, channels


class CropSettings(Strict):
    size: int = Field(ge=1)
    count: int = Field(2, ge=1)
    scale: tuple[float, float] = (0.08, 1.0)


class ViewSettings(Strict):
    preset: str = "auto"  # one of views.PRESETS
    size: int | None = Field(None, ge=1)  # pixels of the views; None: the preset's
    crops: tuple[CropSettings, ...] | None = None  # several resolutions, large ones first
    early_size: int | None = Field(None, ge=1)  # pixels to which views are shrunk in the first part of a run, where
    # they cost less and teach as much; smaller crops in proportion. None: not at all
    early_share: float = Field(0.7, ge=0, le=1)  # of the run, that is its first part

    def recipe(self, shape: Shape, statistics: ImageStatistics | None = None) -> Recipe:
        """The views that these settings name, or that fit images of this shape and with these statistics."""
        if self.crops is not None and self.size is not None:
            raise SettingError("views.size and views.crops exclude each other: the crops have their own sizes")
        recipe = auto_recipe(*shape, statistics=statistics) if self.preset == "auto" else preset(self.preset)
        if shape[2] == 1 and len(recipe.mean) == 3:
            recipe = replace(recipe, mean=recipe.mean[:1], std=recipe.std[:1])
        if self.crops is not None:
            return recipe.with_crops([Crop(crop.size, crop.count, crop.scale) for crop in self.crops])
        if self.size is not None:
            return recipe.with_crops([replace(crop, size=self.size) for crop in recipe.crops])
        return recipe
