import random
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from eigenview.views import Affine, Blur, Crop, Jitter, Recipe, preset
from eigenview.views.parameters import draw_boxes, draw_colours, draw_sigmas, draw_turns, view_keys
from tests.views import oracle

KEYS = view_keys(7, 1, np.arange(20_000), [0])[0]


@pytest.mark.parametrize(
    ("width", "height", "scale"),
    [
        (32, 32, (0.08, 1.0)),
        (500, 375, (0.08, 1.0)),
        (224, 224, (0.05, 0.14)),
        (96, 96, (0.2, 1.0)),
        (90, 30, (0.5, 1.0)),
    ],
)
def test_crop_boxes_are_distributed_as_torchvisions(width, height, scale):
    recipe = Recipe((Crop(32, scale=scale),))
    boxes = draw_boxes(recipe.crops[0], recipe, KEYS, width=width, height=height)
    generator = random.Random(0)
    expected = np.array([oracle.crop_box(generator, width, height, scale, recipe.ratio) for _ in range(20_000)])
    left, top, wide, high = expected.T
    for ours, theirs in (
        (boxes.width * boxes.height, wide * high),
        (boxes.width / boxes.height, wide / high),
        (boxes.left, left),
        (boxes.top, top),
        (boxes.left + boxes.width, left + wide),
    ):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-3


def test_crop_boxes_stay_inside_and_keep_scale_and_ratio():
    recipe = Recipe((Crop(32, scale=(0.2, 0.5)),))
    boxes = draw_boxes(recipe.crops[0], recipe, KEYS, width=640, height=480)
    assert boxes.left.min() >= 0
    assert boxes.top.min() >= 0
    assert (boxes.left + boxes.width).max() <= 640
    assert (boxes.top + boxes.height).max() <= 480
    share = boxes.width * boxes.height / (640 * 480)
    ratio = boxes.width / boxes.height
    assert 0.195 < share.min() < 0.21
    assert 0.49 < share.max() < 0.505
    assert 0.74 < ratio.min() < 0.77
    assert 1.30 < ratio.max() < 1.35


def test_without_a_ratio_a_crop_has_the_shape_of_its_image():
    recipe = Recipe((Crop(32, scale=(0.25, 0.25)),), ratio=None)
    boxes = draw_boxes(recipe.crops[0], recipe, KEYS, width=640, height=120)
    assert set(zip(boxes.width, boxes.height, strict=True)) == {(320, 60)}
    assert (boxes.left.min(), boxes.left.max(), boxes.top.min(), boxes.top.max()) == (0, 320, 0, 60)


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (500, 375), (3, 1000), (1999, 7)])
def test_no_augmentation_keeps_the_whole_image(size):
    recipe = preset("none")
    boxes = draw_boxes(recipe.crops[0], recipe, KEYS, width=size[0], height=size[1])
    whole = {(0, 0, *size, False)}
    assert set(zip(boxes.left, boxes.top, boxes.width, boxes.height, boxes.flip, strict=True)) == whole


def test_crop_places_reach_both_edges_evenly():
    recipe = Recipe((Crop(32, scale=(0.25, 0.25)),), ratio=(1.0, 1.0))
    boxes = draw_boxes(recipe.crops[0], recipe, KEYS, width=8, height=8)
    assert set(boxes.width) == {4}
    assert stats.chisquare(np.bincount(boxes.left, minlength=5)).pvalue > 1e-3
    assert stats.chisquare(np.bincount(boxes.top, minlength=5)).pvalue > 1e-3


@pytest.mark.parametrize(("width", "height", "expected"), [(1000, 10, (13, 10)), (10, 1000, (10, 13)), (1, 1, (1, 1))])
def test_an_image_too_narrow_for_any_try_gives_its_central_part(width, height, expected):
    recipe = Recipe((Crop(32, scale=(0.9, 1.0)),))
    boxes = draw_boxes(recipe.crops[0], recipe, KEYS[:50], width=width, height=height)
    assert {(w, h) for w, h in zip(boxes.width.tolist(), boxes.height.tolist(), strict=True)} == {expected}
    assert set(boxes.left.tolist()) == {(width - expected[0]) // 2}
    assert set(boxes.top.tolist()) == {(height - expected[1]) // 2}


def test_each_image_may_have_its_own_size():
    recipe = preset("moco-v2")
    widths, heights = np.array([500, 40, 3000]), np.array([375, 90, 2000])
    together = draw_boxes(recipe.crops[0], recipe, KEYS[:3], width=widths, height=heights)
    for row in range(3):
        alone = draw_boxes(
            recipe.crops[0], recipe, KEYS[row : row + 1], width=int(widths[row]), height=int(heights[row])
        )
        assert (alone.left[0], alone.top[0], alone.width[0], alone.height[0]) == (
            together.left[row],
            together.top[row],
            together.width[row],
            together.height[row],
        )


def rate_holds(chosen, probability):
    spread = max(1e-9, (probability * (1 - probability) / len(chosen)) ** 0.5)
    return abs(chosen.mean() - probability) <= 4 * spread


@pytest.mark.parametrize("probability", [0.0, 0.2, 0.5, 1.0])
def test_flip_grey_solarise_and_blur_happen_as_often_as_asked(probability):
    recipe = Recipe((Crop(8),), flip=probability, grey=probability, solarise=probability, blur=Blur(probability))
    colours = draw_colours(recipe, KEYS)
    assert rate_holds(draw_boxes(recipe.crops[0], recipe, KEYS, width=9, height=9).flip, probability)
    assert rate_holds(colours.grey, probability)
    assert rate_holds(colours.solarise, probability)
    assert rate_holds(draw_sigmas(recipe.blur, KEYS) > 0, probability)


def test_colour_factors_are_uniform_within_their_limits_and_left_alone_otherwise():
    recipe = Recipe((Crop(8),), jitter=Jitter(0.8, 0.4, 1.5, 0.2, probability=0.8))
    colours = draw_colours(recipe, KEYS)
    chosen = colours.hue != 0
    assert rate_holds(chosen, 0.8)
    for values, low, high in (
        (colours.brightness, 0.2, 1.8),
        (colours.contrast, 0.6, 1.4),
        (colours.saturation, 0.0, 2.5),  # never below 0
        (colours.hue, -0.2, 0.2),
    ):
        assert stats.kstest(values[chosen], stats.uniform(low, high - low).cdf).pvalue > 1e-3
        assert set(values[~chosen]) == {0.0 if low < 0 else 1.0}


def test_the_four_colour_steps_come_in_every_order_equally_often():
    order = draw_colours(preset("moco-v1"), KEYS).order
    assert (np.sort(order, axis=1) == np.arange(4)).all()
    counts = np.unique(order @ [1000, 100, 10, 1], return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3


def test_blur_and_turns_are_spread_as_asked():
    sigmas = draw_sigmas(Blur(1.0, (0.1, 2.0)), KEYS)
    assert stats.kstest(sigmas, stats.uniform(0.1, 1.9).cdf).pvalue > 1e-3
    turns = draw_turns(Affine(degrees=30, shift=0.1, zoom=(0.5, 2.0), shear=10), KEYS)
    for values, limit in (
        (turns["angle"], np.pi / 6),
        (turns["shift_x"], 0.1),
        (turns["shift_y"], 0.1),
        (turns["shear"], np.pi / 18),
    ):
        assert stats.kstest(values, stats.uniform(-limit, 2 * limit).cdf).pvalue > 1e-3
    assert stats.kstest(np.log2(turns["zoom"]), stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_turning_one_thing_off_leaves_the_rest_as_it_was():
    recipe = preset("simclr-imagenet")
    plain = replace(recipe, grey=0.0, flip=0.0, blur=None)
    ours, theirs = (draw_boxes(r.crops[0], r, KEYS, width=300, height=200) for r in (recipe, plain))
    np.testing.assert_array_equal(ours.left, theirs.left)
    np.testing.assert_array_equal(draw_colours(recipe, KEYS).hue, draw_colours(plain, KEYS).hue)
