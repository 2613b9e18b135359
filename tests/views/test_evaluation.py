import numpy as np
import pytest
import torch
from PIL import Image

from eigenview.errors import SettingError, ShapeError
from eigenview.views import EVALUATIONS, CentreView, centre_view, preset
from tests.views import oracle
from tests.views.photos import ArrayPhoto


def by_pillow(array, resize, size):
    """Shorter side to ``resize`` (the longer rounded down), then the centre."""
    height, width = array.shape[:2]
    short = min(height, width)
    wide, high = int(resize * width / short), int(resize * height / short)
    picture = Image.fromarray(array).resize((wide, high), Image.Resampling.BILINEAR)
    left, top = round((wide - size) / 2), round((high - size) / 2)
    return np.asarray(picture.crop((left, top, left + size, top + size)))


@pytest.mark.parametrize(
    ("height", "width", "resize", "size"), [(32, 32, 36, 32), (96, 96, 70, 64), (375, 500, 256, 224), (90, 61, 40, 33)]
)
def test_the_centre_equals_pillows_resize_and_crop(height, width, resize, size):
    array = oracle.smooth_photo(height, width)
    view = CentreView(resize, size, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    expected = (by_pillow(array, resize, size) / 255 - view.mean) / view.std
    batch = view(torch.from_numpy(array).permute(2, 0, 1)[None])
    assert np.abs(batch[0].permute(1, 2, 0).numpy() - expected).max() < 1.01 / 255 / 0.2
    crops = view.prepare(ArrayPhoto(array), 0, 0)
    finished = view.finish([torch.from_numpy(crops[0].copy()).permute(2, 0, 1)[None]])
    assert np.abs(finished[0].permute(1, 2, 0).numpy() - expected).max() < 2.01 / 255 / 0.2


def test_an_image_of_the_right_size_is_only_normalised():
    images = torch.from_numpy(oracle.smooth_photo(32, 32)).permute(2, 0, 1)[None]
    torch.testing.assert_close(CentreView(32, 32)(images), images / 255)
    assert images.dtype == torch.uint8


def test_every_image_of_a_batch_gets_the_same_view():
    images = torch.from_numpy(np.stack([oracle.smooth_photo(40, 50, seed) for seed in range(3)])).permute(0, 3, 1, 2)
    view = CentreView(20, 16)
    together = view(images)
    for row in range(3):
        torch.testing.assert_close(together[row : row + 1], view(images[row : row + 1]))


def test_large_photos_are_decoded_small():
    photo = ArrayPhoto(oracle.smooth_photo(700, 900, detail=False))
    (ours,) = CentreView(70, 64).prepare(photo, 3, 9)
    assert photo.decoded == [4]  # 700 / 4 = 2.5 pixels for each of 70
    assert np.abs(ours.astype(int) - by_pillow(photo.array, 70, 64)).mean() < 3


@pytest.mark.parametrize("channels", [1, 3])
def test_an_exact_view_is_pillows_and_decodes_in_full(channels):
    photo = ArrayPhoto(oracle.smooth_photo(700, 900)[:, :, :channels].copy())
    (ours,) = CentreView(71, 64, interpolation="bicubic", is_exact=True).prepare(photo, 0, 0)
    assert photo.decoded == [1]
    picture = Image.fromarray(photo.array.squeeze()).resize((91, 71), Image.Resampling.BICUBIC)
    cropped = np.asarray(picture.crop((14, 4, 78, 68)))  # 13.5 and 3.5, to even
    assert np.array_equal(ours.squeeze(), cropped)


def test_an_odd_margin_is_rounded_to_even_or_down():
    array = oracle.smooth_photo(11, 11)
    images = torch.from_numpy(array).permute(2, 0, 1)[None]
    for size, rounds_down, start in ((8, False, 2), (8, True, 1), (10, False, 0), (10, True, 0)):
        view = CentreView(11, size, rounds_down=rounds_down)
        expected = array[start : start + size, start : start + size]
        assert np.array_equal(view.prepare(ArrayPhoto(array), 0, 0)[0], expected)
        torch.testing.assert_close(view(images)[0].permute(1, 2, 0) * 255, torch.from_numpy(expected).float())


def test_a_squashed_view_keeps_no_shape():
    array = oracle.smooth_photo(60, 90)
    view = CentreView(36, 32, is_squashed=True)
    picture = Image.fromarray(array).resize((36, 36), Image.Resampling.BILINEAR).crop((2, 2, 34, 34))
    batch = view(torch.from_numpy(array).permute(2, 0, 1)[None])[0].permute(1, 2, 0) * 255
    assert np.abs(batch.numpy() - np.asarray(picture)).max() < 1.01
    (crop,) = view.prepare(ArrayPhoto(array), 0, 0)
    assert np.abs(crop.astype(int) - np.asarray(picture)).max() <= 2


def test_the_published_sizes():
    sizes = {name: (view.resize, view.size) for name, view in EVALUATIONS.items()}
    assert sizes == {
        "imagenet": (256, 224),
        "random-walk-cifar": (36, 32),
        "spectral-cifar": (40, 32),
        "spectral-tiny-imagenet": (74, 64),
        "kernel-infonce-cifar": (35, 32),
        "kernel-infonce-tiny-imagenet": (70, 64),
        "kernel-infonce-imagenet": (246, 224),
        "kernel-infonce-stl": (105, 96),
        "wang-isola-stl": (70, 64),
    }


def test_a_recipe_has_a_centre_view_of_its_own():
    assert centre_view(preset("moco-v2")) == EVALUATIONS["imagenet"]
    small = centre_view(preset("kernel-infonce-cifar"))
    assert (small.resize, small.size, small.mean) == (32, 32, preset("kernel-infonce-cifar").mean)


def test_bad_sizes_and_images_are_refused():
    with pytest.raises(SettingError, match="1 <= size <= resize"):
        CentreView(32, 36)
    with pytest.raises(ShapeError, match="uint8"):
        CentreView(8, 8)(torch.rand(1, 3, 8, 8))
    with pytest.raises(ShapeError, match=r"\(n, c, 8, 8\) is needed"):
        CentreView(8, 8).finish([torch.zeros(1, 3, 9, 9, dtype=torch.uint8)])


def test_images_of_the_views_own_size_are_not_enlarged_to_be_cropped():
    recipe = preset("wang-isola-stl")
    assert centre_view(recipe).resize == 73
    assert centre_view(recipe, side=64).resize == 64
    assert centre_view(recipe, side=70).resize == 70
    assert centre_view(recipe, side=300).resize == 73
    assert centre_view(recipe, side=20).resize == 64  # smaller images must be enlarged
