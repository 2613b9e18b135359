from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from eigenview.errors import SettingError, ShapeError
from eigenview.views import PRESETS, Affine, Blur, Crop, Jitter, Recipe, ViewBatch, Views, preset
from eigenview.views import augment as augment_module
from eigenview.views.parameters import draw_boxes, draw_colours, view_keys
from tests.processes import run_processes
from tests.views import oracle


def photos(count, height=40, width=36):
    return torch.from_numpy(np.stack([oracle.smooth_photo(height, width, seed) for seed in range(count)])).permute(
        0, 3, 1, 2
    )


IMAGES = photos(12)
INDICES = torch.arange(100, 112)
EVERYTHING = Recipe(
    (Crop(24, 2), Crop(12, 3, (0.05, 0.3))),
    jitter=Jitter(0.8, 0.8, 0.8, 0.2, probability=0.8),
    grey=0.2,
    blur=Blur(0.5, kernel=0.2),
    solarise=0.3,
    affine=Affine(5.0, 0.05, (0.9, 1.1), 3.0),
    mean=(0.5, 0.4, 0.3),
    std=(0.2, 0.3, 0.4),
)


def test_a_view_equals_pillow_and_plain_colour_operations_on_one_image():
    """Crop, flip and resize by Pillow, colour without clamping, one clamp, normalise: for each image on its own."""
    recipe = Recipe(
        (Crop(16, 2),), jitter=Jitter(0.8, 0.8, 0.8, 0.2), grey=0.3, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)
    )
    batch = Views(recipe, seed=5)(IMAGES, INDICES, epoch=2)
    keys = view_keys(5, 2, INDICES.numpy(), [0, 1])
    boxes = draw_boxes(recipe.crops[0], recipe, keys, width=36, height=40)
    colours = draw_colours(recipe, keys)
    for view in range(2):
        for row in range(len(IMAGES)):
            left, top, wide, high = (
                int(side[view, row]) for side in (boxes.left, boxes.top, boxes.width, boxes.height)
            )
            picture = Image.fromarray(IMAGES[row].permute(1, 2, 0).contiguous().numpy())
            crop = picture.crop((left, top, left + wide, top + high)).resize((16, 16), Image.Resampling.BILINEAR)
            image = np.asarray(crop).astype(float)[:, :: -1 if boxes.flip[view, row] else 1] / 255
            image = oracle.brightness(image, colours.brightness[view, row])
            image = oracle.contrast(image, colours.contrast[view, row])
            image = oracle.saturation(image, colours.saturation[view, row])
            image = oracle.yiq_hue(image, colours.hue[view, row])
            image = oracle.saturation(image, 0.0) if colours.grey[view, row] else image
            expected = (image.clip(0, 1) - recipe.mean) / recipe.std
            ours = batch.views[view][row].permute(1, 2, 0).numpy()
            gain = 1.8 * 1.8 * 1.8 * 2 / 255 / min(recipe.std)  # of the one grey level that Pillow rounds by
            assert np.abs(ours - expected).max() < gain
            assert np.abs(ours - expected).mean() < 0.02


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_gives_normalised_views_of_its_sizes(name):
    recipe = preset(name)
    images = IMAGES[:2, :1] if len(recipe.mean) == 1 else IMAGES[:2]
    batch = Views(recipe, seed=1)(images, [0, 1], epoch=0)
    assert [tuple(group.shape) for group in batch.groups] == [
        (crop.count * 2, images.shape[1], crop.size, crop.size) for crop in recipe.crops
    ]
    assert len(batch.views) == recipe.view_count
    low, high = -max(recipe.mean) / min(recipe.std), 1 / min(recipe.std)
    for view in batch.views:
        assert view.dtype == torch.float32
        assert torch.isfinite(view).all()
        assert low - 1e-5 <= view.min() < view.max() <= high + 1e-5
        assert view.std() > 1e-3


def test_groups_hold_view_after_view():
    batch = ViewBatch((torch.arange(12).view(6, 2), torch.arange(3).view(3, 1)), images=3)
    assert [view.flatten().tolist() for view in batch.views] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [0, 1, 2]]


@pytest.mark.parametrize("colour", ["matrix", "steps"])
def test_views_do_not_depend_on_the_rest_of_the_batch(colour):
    views = Views(replace(EVERYTHING, colour=colour), seed=9)
    whole = views(IMAGES, INDICES, epoch=3)
    shuffled = [7, 0, 11, 3, 7]
    some = views(IMAGES[shuffled], INDICES[shuffled], epoch=3)
    for ours, theirs in zip(some.views, whole.views, strict=True):
        torch.testing.assert_close(ours, theirs[shuffled], atol=2e-5, rtol=1e-5)


def test_views_do_not_depend_on_how_many_images_are_taken_together(monkeypatch):
    views = Views(EVERYTHING, seed=9)
    whole = views(IMAGES, INDICES, epoch=3)
    monkeypatch.setattr(augment_module, "CROP_NUMBERS", 5000)
    for ours, theirs in zip(views(IMAGES, INDICES, epoch=3).views, whole.views, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-5)


def test_the_same_call_gives_the_same_bits_and_another_seed_epoch_index_or_view_other_ones():
    first = Views(EVERYTHING, seed=9)(IMAGES, INDICES, epoch=3)
    again = Views(EVERYTHING, seed=9)(IMAGES, INDICES, epoch=3)
    assert all(torch.equal(a, b) for a, b in zip(first.views, again.views, strict=True))
    others = (
        Views(EVERYTHING, seed=10)(IMAGES, INDICES, epoch=3),
        Views(EVERYTHING, seed=9)(IMAGES, INDICES, epoch=4),
        Views(EVERYTHING, seed=9)(IMAGES, INDICES + 1, epoch=3),
    )
    for other in others:
        assert all(
            (a - b).abs().amax(dim=(1, 2, 3)).min() > 1e-3 for a, b in zip(first.views, other.views, strict=True)
        )
    assert (first.views[0] - first.views[1]).abs().amax(dim=(1, 2, 3)).min() > 1e-3


def shard(rank, group, images, indices):
    half = slice(6 * rank, 6 * rank + 6)
    batch = Views(EVERYTHING, seed=9)(torch.from_numpy(images[half]), torch.from_numpy(indices[half]), epoch=3)
    return batch.views


def test_two_processes_with_half_the_images_each_make_the_views_of_one():
    whole = Views(EVERYTHING, seed=9)(IMAGES, INDICES, epoch=3).views
    first, second = run_processes(2, shard, IMAGES.numpy(), INDICES.numpy())
    for view, parts in zip(whole, zip(first, second, strict=True), strict=True):
        np.testing.assert_allclose(np.concatenate(parts), view.numpy(), atol=2e-5, rtol=1e-5)


def test_views_of_an_untouched_recipe_are_the_images():
    recipe = Recipe((Crop(40, 1, (1.0, 1.0)),), ratio=(1.0, 1.0), flip=0.0)
    images = photos(3, 40, 40)
    torch.testing.assert_close(Views(recipe)(images, [0, 1, 2], epoch=0).views[0], images / 255.0, atol=1e-6, rtol=0)


@pytest.mark.parametrize("colour", ["matrix", "steps"])
def test_solarise_inverts_the_brighter_half_before_normalising(colour):
    recipe = Recipe((Crop(40, 1, (1.0, 1.0)),), ratio=(1.0, 1.0), flip=0.0, solarise=1.0, colour=colour)
    recipe = replace(recipe, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    images = photos(3, 40, 40)
    values = images.double() / 255.0
    values = torch.where(values >= 0.5, 1 - values, values).permute(0, 2, 3, 1)
    expected = ((values - torch.tensor(recipe.mean)) / torch.tensor(recipe.std)).permute(0, 3, 1, 2).float()
    torch.testing.assert_close(Views(recipe)(images, [0, 1, 2], epoch=0).views[0], expected, atol=1e-5, rtol=0)


def test_grey_images_keep_one_channel_and_equal_the_colour_path_on_equal_channels():
    recipe = replace(EVERYTHING, mean=(0.4,), std=(0.25,))
    grey = IMAGES[:, :1]
    grey_views = Views(recipe, seed=2)(grey, INDICES, epoch=0)
    three = Views(recipe, seed=2)(grey.expand(-1, 3, -1, -1), INDICES, epoch=0)
    for single, triple in zip(grey_views.views, three.views, strict=True):
        assert single.shape[1] == 1
        torch.testing.assert_close(single.expand(-1, 3, -1, -1), triple, atol=2e-5, rtol=1e-4)


def test_three_statistics_serve_one_channel_by_their_average():
    recipe = Recipe((Crop(8, 1),), mean=(0.3, 0.4, 0.5), std=(0.1, 0.2, 0.3))
    same = replace(recipe, mean=(0.4,), std=(0.2,))
    grey = IMAGES[:, :1]
    ours, theirs = (Views(r)(grey, INDICES, epoch=0).views[0] for r in (recipe, same))
    torch.testing.assert_close(ours, theirs)


def test_an_image_of_one_pixel_and_a_view_larger_than_its_image_work():
    image = torch.full((1, 3, 1, 1), 51, dtype=torch.uint8)
    view = Views(Recipe((Crop(5, 1),), interpolation="bicubic"))(image, [0], epoch=0).views[0]
    torch.testing.assert_close(view, torch.full((1, 3, 5, 5), 0.2))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.rand(2, 3, 8, 8), "uint8"),
        (torch.zeros(2, 4, 8, 8, dtype=torch.uint8), "1 or 3 channels"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), r"\(n, c, h, w\)"),
        (torch.zeros(0, 3, 8, 8, dtype=torch.uint8), "non-empty"),
        (torch.zeros(2, 3, 0, 8, dtype=torch.uint8), "non-empty"),
    ],
)
def test_images_that_are_not_uint8_batches_are_refused(images, message):
    with pytest.raises(ShapeError, match=message):
        Views(EVERYTHING)(images, list(range(len(images))), epoch=0)


def test_indices_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="12 whole numbers"):
        Views(EVERYTHING)(IMAGES, [1, 2], epoch=0)
    with pytest.raises(ShapeError, match="whole numbers"):
        Views(EVERYTHING)(IMAGES, torch.rand(12), epoch=0)
    with pytest.raises(SettingError, match="from 0; got -1"):
        Views(EVERYTHING)(IMAGES, INDICES - 101, epoch=0)


def test_the_none_preset_only_resizes_and_normalises():
    recipe = preset("none", size=40)
    square = photos(3, 40, 40)
    batch = Views(recipe, seed=3)(square, [4, 5, 6], epoch=7)
    expected = (square / 255 - torch.tensor(recipe.mean)[:, None, None]) / torch.tensor(recipe.std)[:, None, None]
    for view in batch.views:
        torch.testing.assert_close(view, expected)
    first, second = Views(preset("none", size=16))(IMAGES, INDICES, epoch=0).views
    torch.testing.assert_close(first, second, rtol=0, atol=0)
