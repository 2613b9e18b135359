"""Views: random crops and colours of whole batches, a pure function of (seed, epoch, item index, view number)."""

from eigenview.views.augment import ViewBatch, Views
from eigenview.views.evaluation import EVALUATIONS, CentreView, centre_view
from eigenview.views.photos import Cropper, Photo
from eigenview.views.picture import show
from eigenview.views.presets import PRESETS, ImageStatistics, auto_recipe, preset
from eigenview.views.recipe import Affine, Blur, Crop, Jitter, Recipe, recipe_from_json, recipe_to_json
from eigenview.views.resample import shrink

__all__ = [
    "EVALUATIONS",
    "PRESETS",
    "Affine",
    "Blur",
    "CentreView",
    "Crop",
    "Cropper",
    "ImageStatistics",
    "Jitter",
    "Photo",
    "Recipe",
    "ViewBatch",
    "Views",
    "auto_recipe",
    "centre_view",
    "preset",
    "recipe_from_json",
    "recipe_to_json",
    "show",
    "shrink",
]
