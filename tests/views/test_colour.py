import colorsys
from itertools import permutations

import numpy as np
import pytest
import torch

from eigenview.views.colour import colour_matrices, colour_steps, hsv_to_rgb, luma_row, rgb_to_hsv
from eigenview.views.parameters import Colours
from tests.views import oracle

STEPS = (oracle.brightness, oracle.contrast, oracle.saturation, oracle.yiq_hue)
EXACT_STEPS = (oracle.brightness, oracle.contrast, oracle.saturation, oracle.hsv_hue)


def factors(brightness=1.0, contrast=1.0, saturation=1.0, hue=0.0, order=(0, 1, 2, 3), grey=False):
    numbers = (torch.tensor([value], dtype=torch.float64) for value in (brightness, contrast, saturation, hue))
    return Colours(*numbers, torch.tensor([order]), grey=torch.tensor([grey]), solarise=torch.tensor([False]))


def apply_matrix(image, given):
    pixels = torch.from_numpy(image).permute(2, 0, 1).flatten(1)[None]
    matrix, pivot = colour_matrices(given, image.shape[2])
    mapped = matrix @ pixels + pivot[:, None, None] * (luma_row(pixels) @ pixels.mean(dim=2, keepdim=True))
    return mapped[0].T.reshape(image.shape).numpy()


IMAGE = np.random.default_rng(0).uniform(0, 1, (6, 5, 3))
AMOUNTS = (1.4, 0.3, 1.7, -0.17)


def test_the_matrix_equals_the_composed_operations_in_every_order():
    ours = apply_matrix(IMAGE, factors(*AMOUNTS))
    for order in permutations(range(4)):
        expected = IMAGE
        for step in order:
            expected = STEPS[step](expected, AMOUNTS[step])
        np.testing.assert_allclose(ours, expected, atol=1e-12)


@pytest.mark.parametrize("grey_first", [True, False])
def test_grey_may_come_before_or_after_the_jitter(grey_first):
    expected = oracle.saturation(IMAGE, 0.0) if grey_first else IMAGE
    for step in range(4):
        expected = STEPS[step](expected, AMOUNTS[step])
    expected = expected if grey_first else oracle.saturation(expected, 0.0)
    ours = apply_matrix(IMAGE, factors(*AMOUNTS, grey=True))
    np.testing.assert_allclose(ours, expected, atol=1e-12)
    assert np.ptp(ours, axis=2).max() < 1e-12


def test_no_jitter_changes_nothing():
    np.testing.assert_allclose(apply_matrix(IMAGE, factors()), IMAGE, atol=1e-12)


def test_a_full_turn_of_hue_is_none_and_half_a_turn_gives_the_opposite_chroma():
    np.testing.assert_allclose(apply_matrix(IMAGE, factors(hue=1.0)), IMAGE, atol=1e-12)
    half = apply_matrix(IMAGE, factors(hue=0.5))
    chroma = IMAGE - oracle.luma(IMAGE)[..., None]
    np.testing.assert_allclose(half, oracle.luma(IMAGE)[..., None] - chroma, atol=1e-12)


@pytest.mark.parametrize("turns", [0.1, -0.1])
@pytest.mark.parametrize(
    "colour",
    [
        (0.8, 0.2, 0.2),
        (0.8, 0.8, 0.2),
        (0.2, 0.8, 0.2),
        (0.2, 0.8, 0.8),
        (0.2, 0.2, 0.8),
        (0.8, 0.2, 0.8),
        (0.8, 0.6, 0.5),
    ],
)
def test_hue_turns_every_colour_the_same_way_as_hsv_and_about_as_far(colour, turns):
    turned = apply_matrix(np.array([[colour]]), factors(hue=turns))[0, 0]
    moved = (colorsys.rgb_to_hsv(*turned)[0] - colorsys.rgb_to_hsv(*colour)[0] + 0.5) % 1.0 - 0.5
    assert 0.05 < moved / turns * 0.1 < 0.15
    assert oracle.luma(turned) == pytest.approx(oracle.luma(np.array(colour)))  # HSV keeps the largest channel instead


def test_one_channel_knows_only_brightness_and_contrast():
    grey = IMAGE[..., :1]
    ours = apply_matrix(grey, factors(*AMOUNTS, grey=True))
    expected = 1.4 * (0.3 * grey + 0.7 * grey.mean())
    np.testing.assert_allclose(ours, expected, atol=1e-12)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
@pytest.mark.parametrize("grey", [True, False])
def test_steps_equal_the_clamped_operations_with_exact_hue(order, grey):
    expected = IMAGE
    for step in order:
        expected = EXACT_STEPS[step](expected, AMOUNTS[step]).clip(0, 1)
    expected = oracle.saturation(expected, 0.0) if grey else expected
    images = torch.from_numpy(IMAGE).permute(2, 0, 1)[None]
    ours = colour_steps(images, factors(*AMOUNTS, order=order, grey=grey))
    np.testing.assert_allclose(ours[0].permute(1, 2, 0).numpy(), expected, atol=1e-12)


def test_steps_leave_the_input_alone_and_serve_each_image_its_own_order():
    images = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    before = images.clone()
    both = Colours(
        *(torch.tensor([value, value], dtype=torch.float64) for value in AMOUNTS),
        order=torch.tensor([[0, 1, 2, 3], [3, 1, 0, 2]]),
        grey=torch.tensor([False, True]),
        solarise=torch.tensor([False, False]),
    )
    together = colour_steps(images, both)
    for row in range(2):
        alone = Colours(*(values[row : row + 1] for values in both))
        torch.testing.assert_close(together[row : row + 1], colour_steps(images[row : row + 1], alone))
    torch.testing.assert_close(images, before)


def test_hsv_there_and_back_is_the_same_colour():
    corners = torch.tensor([[r, g, b] for r in (0.0, 1.0) for g in (0.0, 1.0) for b in (0.0, 1.0)], dtype=torch.float64)
    images = torch.cat([torch.rand(3, 100, dtype=torch.float64), corners.T], dim=1)[None, :, :, None]
    torch.testing.assert_close(hsv_to_rgb(rgb_to_hsv(images)), images)
