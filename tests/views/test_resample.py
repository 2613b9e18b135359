import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from eigenview.views.resample import (
    Span,
    blur,
    blur_matrix,
    blur_taps,
    crop_span,
    mirror,
    resample,
    resampling_matrix,
    turn,
)
from tests.views import oracle

# Pillow rounds to whole grey levels after each axis: half a level, and half a level times Σ|weights| of the second axis
TOLERANCE = {"bilinear": 1.01, "bicubic": 1.15}
PILLOW = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def as_batch(picture):
    return torch.from_numpy(np.asarray(picture, dtype=np.float64)).permute(2, 0, 1)[None]


def span_of(first, length, size, flip=False):
    numbers = (torch.tensor([float(number)], dtype=torch.float64) for number in (first, length))
    return crop_span(*numbers, size, torch.tensor([flip]))


def crop_resize(batch, box, size, interpolation, flip=False):
    left, top, width, height = box
    rows = resampling_matrix(span_of(top, height, size), batch.shape[2], interpolation)
    columns = resampling_matrix(span_of(left, width, size, flip), batch.shape[3], interpolation)
    return resample(batch, rows, columns)[0].permute(1, 2, 0).numpy()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [32, 96])
def test_shrinking_a_500_pixel_photo_equals_pillow_and_does_not_alias(interpolation, size):
    photo = oracle.smooth_photo(500, 500)
    ours = crop_resize(as_batch(photo), (0, 0, 500, 500), size, interpolation)
    pillow = np.asarray(Image.fromarray(photo).resize((size, size), PILLOW[interpolation])).astype(float)
    assert np.abs(ours.clip(0, 255) - pillow).max() < TOLERANCE[interpolation]
    careless = photo[250 // size :: 500 // size, 250 // size :: 500 // size][:size, :size].astype(float)
    stripes = slice(0, size // 3)
    assert ours[stripes].std(axis=1).mean() < 0.6 * careless[stripes].std(axis=1).mean()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("box", [(3, 5, 40, 30), (0, 0, 64, 48), (10, 20, 7, 9), (60, 44, 4, 4), (0, 0, 1, 1)])
def test_a_crop_equals_pillows_crop_and_resize(interpolation, box):
    photo = Image.fromarray(oracle.smooth_photo(48, 64, seed=1))
    left, top, width, height = box
    cropped = photo.crop((left, top, left + width, top + height)).resize((24, 24), PILLOW[interpolation])
    ours = crop_resize(as_batch(photo), box, 24, interpolation).clip(0, 255)
    assert np.abs(ours - np.asarray(cropped)).max() < TOLERANCE[interpolation]
    mirrored = crop_resize(as_batch(photo), box, 24, interpolation, flip=True).clip(0, 255)
    np.testing.assert_allclose(mirrored, ours[:, ::-1], atol=1e-9)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_a_part_that_sees_beyond_its_edge_equals_pillows_resize_of_a_box(interpolation):
    photo = Image.fromarray(oracle.smooth_photo(48, 64, seed=1))
    box = (3.5, 5.25, 43.5, 35.25)  # left, top, right, bottom
    pillow = photo.resize((16, 20), PILLOW[interpolation], box=box)
    left, top, right, bottom = (torch.tensor([edge], dtype=torch.float64) for edge in box)
    none = torch.zeros(1, dtype=torch.float64)
    rows = resampling_matrix(Span(top, (bottom - top) / 20, none, none + 48, 20), 48, interpolation)
    columns = resampling_matrix(Span(left, (right - left) / 16, none, none + 64, 16), 64, interpolation)
    ours = resample(as_batch(photo), rows, columns)[0].permute(1, 2, 0).numpy().clip(0, 255)
    assert np.abs(ours - np.asarray(pillow)).max() < TOLERANCE[interpolation]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_the_whole_image_at_its_own_size_is_itself(interpolation):
    photo = oracle.smooth_photo(32, 32)
    same = crop_resize(as_batch(photo), (0, 0, 32, 32), 32, interpolation)
    np.testing.assert_allclose(same, photo, atol=1e-9)


def test_rows_of_every_matrix_sum_to_one():
    starts, lengths = torch.tensor([0.0, 3.0, 10.0]), torch.tensor([32.0, 2.0, 17.0])
    for interpolation in ("bilinear", "bicubic"):
        matrix = resampling_matrix(crop_span(starts, lengths, 12), 32, interpolation)
        torch.testing.assert_close(matrix.sum(dim=2), torch.ones(3, 12))


def test_a_constant_image_stays_constant():
    grey = np.full((20, 30, 3), 77, dtype=np.uint8)
    np.testing.assert_allclose(crop_resize(as_batch(grey), (4, 3, 20, 11), 8, "bicubic"), 77.0)


@pytest.mark.parametrize(
    ("size", "radius"), [(8, 1), (64, 3), (96, 4), (128, 6), (130, 32), (160, 40), (191, 31), (224, 11), (5, 4)]
)
def test_blur_equals_scipy(size, radius):
    image = np.random.default_rng(0).uniform(0, 255, (2, 3, size, size))
    sigmas = [0.7, 1.9]
    expected = [
        ndimage.gaussian_filter(image[n], (0, sigma, sigma), mode="mirror", radius=(0, radius, radius))
        for n, sigma in enumerate(sigmas)
    ]
    images, drawn = torch.from_numpy(image), torch.tensor(sigmas, dtype=torch.float64)
    matrix = blur_matrix(drawn, size, radius)
    np.testing.assert_allclose(resample(images, matrix, matrix), np.stack(expected), atol=1e-6)
    np.testing.assert_allclose(blur(images, drawn, radius), np.stack(expected), atol=1e-6)


def test_no_blur_is_the_identity():
    torch.testing.assert_close(blur_matrix(torch.zeros(1), 9, 4)[0], torch.eye(9))
    torch.testing.assert_close(blur_taps(torch.zeros(1), 2)[0], torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]))


def test_blur_weights_hold_no_numbers_that_slow_a_processor_down():
    taps = blur_taps(torch.linspace(0.1, 2.0, 200), 11)
    assert ((taps == 0) | (taps > 1e-20)).all()


def test_places_beyond_an_edge_fold_back():
    assert mirror(torch.arange(-3, 8), 5).tolist() == [3, 2, 1, 0, 1, 2, 3, 4, 3, 2, 1]


def turned(image, **changes):
    still = {"angle": 0.0, "shift_x": 0.0, "shift_y": 0.0, "zoom": 1.0, "shear": 0.0} | changes
    numbers = {name: torch.tensor([value], dtype=torch.float64) for name, value in still.items()}
    return turn(image, **numbers)


def test_turns_move_the_picture_as_they_say():
    image = torch.from_numpy(np.random.default_rng(0).uniform(0, 1, (1, 1, 9, 9)))
    torch.testing.assert_close(turned(image), image)
    quarter = turned(image, angle=np.pi / 2)
    torch.testing.assert_close(quarter, torch.rot90(image, 1, (2, 3)), atol=1e-6, rtol=0)  # anticlockwise, as seen
    right = turned(image, shift_x=2 / 9)
    torch.testing.assert_close(right[..., 2:], image[..., :-2], atol=1e-6, rtol=0)
    assert right[..., :2].abs().max() < 1e-6  # black comes in
    down = turned(image, shift_y=1 / 9)
    torch.testing.assert_close(down[:, :, 1:], image[:, :, :-1], atol=1e-6, rtol=0)


def test_a_small_turn_and_zoom_equal_pillows_affine_map():
    picture = Image.fromarray(oracle.smooth_photo(64, 64, detail=False)[..., 0])
    angle, zoom, shear = 0.2, 1.3, 0.1
    forward = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) * zoom
    forward = forward @ np.array([[1, np.tan(shear)], [0, 1]])
    back = np.linalg.inv(forward)
    shift = np.array([32, 32]) - back @ np.array([32, 32])
    data = (*back[0], shift[0], *back[1], shift[1])
    pillow = np.asarray(picture.transform((64, 64), Image.Transform.AFFINE, data, Image.Resampling.BILINEAR))
    image = torch.from_numpy(np.asarray(picture, dtype=np.float64))[None, None]
    ours = turned(image, angle=angle, zoom=zoom, shear=shear)[0, 0].numpy()
    assert np.abs(ours - pillow)[4:-4, 4:-4].max() < 1.01
