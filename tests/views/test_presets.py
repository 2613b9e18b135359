import json
from dataclasses import replace

import pytest

from eigenview.errors import SettingError
from eigenview.views import (
    PRESETS,
    Affine,
    Blur,
    Crop,
    ImageStatistics,
    Jitter,
    Recipe,
    auto_recipe,
    preset,
    recipe_from_json,
    recipe_to_json,
)

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
NONE = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
CLRW = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
KERNEL_CIFAR = (tuple(v / 255 for v in (125.3, 123.0, 113.9)), tuple(v / 255 for v in (63.0, 62.1, 66.7)))
FULL, HALF, ALWAYS = (0.8, 0.8, 0.8, 0.2, 0.8), (0.4, 0.4, 0.4, 0.1, 0.8), (0.4, 0.4, 0.4, 0.4, 1.0)

# crops, jitter (brightness, contrast, saturation, hue, probability), taps of the blur at the first size, statistics
TABLE = {
    "simclr-imagenet": ([(224, 2, (0.08, 1))], FULL, 23, NONE),
    "simclr-cifar": ([(32, 2, (0.08, 1))], HALF, None, NONE),
    "moco-v1": ([(224, 2, (0.2, 1))], ALWAYS, None, IMAGENET),
    "moco-v2": ([(224, 2, (0.2, 1))], HALF, 17, IMAGENET),
    "simsiam-imagenet": ([(224, 2, (0.2, 1))], HALF, 17, IMAGENET),
    "simsiam-cifar": ([(32, 2, (0.2, 1))], HALF, None, CLRW),
    "random-walk-cifar": ([(32, 2, (0.2, 1))], HALF, None, CLRW),
    "spectral-cifar": ([(32, 2, (0.2, 1))], HALF, None, IMAGENET),
    "kernel-infonce-cifar": ([(32, 2, (0.08, 1))], HALF, None, KERNEL_CIFAR),
    "kernel-infonce-tiny-imagenet": ([(64, 2, (0.08, 1))], FULL, 7, IMAGENET),
    "kernel-infonce-imagenet": ([(224, 2, (0.08, 1))], FULL, 23, IMAGENET),
    "kernel-infonce-stl": ([(96, 2, (0.08, 1))], FULL, 9, ((0.43, 0.42, 0.39), (0.27, 0.26, 0.27))),
    "wang-isola-stl": (
        [(64, 2, (0.08, 1))],
        ALWAYS,
        None,
        ((0.4409, 0.4279, 0.3868), (0.2683, 0.2610, 0.2687)),
    ),
    "swav": ([(224, 2, (0.14, 1)), (96, 6, (0.05, 0.14))], FULL, 17, (IMAGENET[0], (0.228, 0.224, 0.225))),
    "swav-160": ([(160, 2, (0.08, 1)), (96, 4, (0.05, 0.14))], FULL, 17, (IMAGENET[0], (0.228, 0.224, 0.225))),
    "swav-two-crops": ([(224, 2, (0.08, 1))], FULL, 17, (IMAGENET[0], (0.228, 0.224, 0.225))),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_preset_has_the_published_values(name):
    crops, jitter, taps, (mean, std) = TABLE[name]
    recipe = preset(name)
    assert [(crop.size, crop.count, crop.scale) for crop in recipe.crops] == crops
    assert recipe.jitter is not None
    ours = recipe.jitter
    assert (ours.brightness, ours.contrast, ours.saturation, ours.hue, ours.probability) == jitter
    assert (recipe.flip, recipe.grey, recipe.solarise, recipe.ratio) == (0.5, 0.2, 0.0, (3 / 4, 4 / 3))
    assert (recipe.mean, recipe.std) == (mean, std)
    assert recipe.interpolation == ("bicubic" if name == "simclr-imagenet" else "bilinear")
    if taps is None:
        assert recipe.blur is None
    else:
        assert (recipe.blur.probability, recipe.blur.sigma) == (0.5, (0.1, 2.0))
        assert 2 * recipe.blur.radius(recipe.crops[0].size) + 1 == taps


def test_only_three_are_not_in_the_table_and_laclip_only_crops():
    assert set(PRESETS) - set(TABLE) == {"laclip", "digits", "none"}
    assert preset("laclip") == Recipe((Crop(224, 1, (0.5, 1.0)),), flip=0.0, mean=IMAGENET[0], std=IMAGENET[1])
    assert preset("digits").flip == 0.0


def test_a_size_changes_the_pixels_of_one_resolution_only():
    assert preset("moco-v2", size=64).crops == (Crop(64, 2, (0.2, 1.0)),)
    with pytest.raises(SettingError, match="several resolutions"):
        preset("swav", size=64)


def test_any_list_of_crops_makes_any_recipe_multi_crop():
    recipe = preset("simclr-cifar").with_crops([Crop(32, 2, (0.3, 1.0)), Crop(16, 4, (0.1, 0.3)), Crop(8, 1)])
    assert recipe.view_count == 7


@pytest.mark.parametrize(
    ("shape", "size", "least", "has_blur", "jitter"),
    [
        ((32, 32, 3), 32, 0.2, False, 0.4),
        ((96, 96, 3), 96, 0.08, True, 0.8),
        ((120, 160, 3), 120, 0.08, True, 0.8),
    ],
)
def test_auto_fits_the_images(shape, size, least, has_blur, jitter):
    recipe = auto_recipe(*shape)
    assert recipe.crops == (Crop(size, 2, (least, 1.0)),)
    assert (recipe.blur is not None) == has_blur
    assert recipe.jitter.brightness == jitter


def test_auto_caps_photos_at_224_and_knows_grey_images():
    assert auto_recipe(3000, 4000, 3).crops[0].size == 224
    assert auto_recipe(28, 28, 1) == preset("digits", size=28)
    with pytest.raises(SettingError, match="1 or 3 channels"):
        auto_recipe(28, 28, 4)


def test_an_unknown_preset_is_refused_with_the_names():
    with pytest.raises(
        SettingError, match=r"'simclr' is no preset; did you mean simclr-cifar.* It must be one of simclr-imagenet, "
    ):
        preset("simclr")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Crop(0), "at least 1 pixel"),
        (lambda: Crop(8, 0), "count must be at least 1"),
        (lambda: Crop(8, 2, (0.0, 1.0)), r"share of the area in \(0, 1\]"),
        (lambda: Crop(8, 2, (0.5, 1.5)), r"share of the area in \(0, 1\]"),
        (lambda: Crop(8, 2, (0.9, 0.5)), "low <= high"),
        (lambda: Jitter(brightness=-0.1), "must not be negative"),
        (lambda: Jitter(hue=0.6), r"\[0, 0.5\] turns"),
        (lambda: Jitter(probability=1.5), r"\[0, 1\]"),
        (lambda: Blur(sigma=(0.0, 1.0)), "must be positive"),
        (lambda: Blur(kernel=2.0), r"share in \(0, 1\]"),
        (lambda: Affine(degrees=-1), "must not be negative"),
        (lambda: Affine(zoom=(0.0, 1.0)), "zoom must be positive"),
        (lambda: Affine(shear=90), "under 90 degrees"),
        (lambda: Recipe(()), "at least one crop"),
        (lambda: Recipe((Crop(8),), flip=2.0), r"flip must lie in \[0, 1\]"),
        (lambda: Recipe((Crop(8),), ratio=(0.0, 1.0)), "must be positive"),
        (lambda: Recipe((Crop(8),), mean=(0.5, 0.5), std=(1.0, 1.0)), "1 or 3 values"),
        (lambda: Recipe((Crop(8),), std=(1.0, 0.0, 1.0)), "std must be positive"),
        (lambda: replace(preset("moco-v2"), interpolation="nearest"), "got 'nearest'"),
        (lambda: replace(preset("moco-v2"), colour="hsv"), "got 'hsv'"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(SettingError, match=message):
        make()


@pytest.mark.parametrize("name", PRESETS)
def test_a_recipe_survives_json(name):
    recipe = preset(name)
    assert recipe_from_json(json.loads(json.dumps(recipe_to_json(recipe)))) == recipe
    assert recipe_from_json({"crops": [{"size": 8}]}) == Recipe((Crop(8),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flipp": 0.5}, "flipp: Unexpected keyword argument; got 0.5"),
        ({"flip": "0.5"}, "flip: Input should be a valid number; got '0.5'"),
        ({"flip": 2}, r"views: flip must lie in \[0, 1\]; got 2.0; see"),
        ({"crops": [{"size": 8.5}]}, "crops.0.size: Input should be a valid integer; got 8.5"),
        ({"crops": [{"size": 8, "scale": [0.5]}]}, "crops.0.scale.1 is missing"),
        ({"crops": None}, "crops: Input should be a valid array; got None"),
        ({"jitter": {"hue": 0.7}}, r"hue must lie in \[0, 0.5\] turns; got 0.7"),
        ({"mean": [0.0, float("nan"), 0.0]}, "mean must be finite"),
        ({"colour": "hsv"}, "colour: Input should be 'matrix' or 'steps'; got 'hsv'"),
    ],
)
def test_json_that_describes_no_views_is_refused(change, message):
    with pytest.raises(SettingError, match=message):
        recipe_from_json({**recipe_to_json(preset("moco-v2")), **change})
    with pytest.raises(SettingError, match="all of it: Input should be an object; got 7"):
        recipe_from_json(7)


def test_auto_goes_easy_on_images_far_from_photographs():
    photos = ImageStatistics((0.48, 0.45, 0.4), (0.24, 0.23, 0.22))
    assert auto_recipe(64, 64, 3, statistics=photos) == auto_recipe(64, 64, 3)
    dark = auto_recipe(64, 64, 3, statistics=ImageStatistics((0.1, 0.12, 0.08), (0.06, 0.05, 0.001)))
    assert dark.jitter.brightness == auto_recipe(64, 64, 3).jitter.brightness / 4
    assert dark.mean == (0.1, 0.12, 0.08)
    assert dark.std == (0.06, 0.05, 0.02)  # a constant channel is not blown up
    for level, contrast in ((0.9, 0.2), (0.5, 0.05)):
        assert not ImageStatistics((level,) * 3, (contrast,) * 3).is_like_photographs
