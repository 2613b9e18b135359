import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter

from eigenview.errors import ShapeError
from eigenview.views import Blur, Crop, Cropper, Jitter, Recipe, Views, preset
from eigenview.views.parameters import draw_boxes, view_keys
from tests.views import oracle
from tests.views.photos import ArrayPhoto

RECIPE = Recipe(
    (Crop(32, 2, (0.2, 1.0)), Crop(16, 3, (0.05, 0.2))), jitter=Jitter(0.4, 0.4, 0.4, 0.1), grey=0.2, blur=Blur(0.5)
)


def stack(cuts):
    return [torch.from_numpy(np.stack(view)).permute(0, 3, 1, 2) for view in zip(*cuts, strict=True)]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_crops_equal_pillows_crop_and_resize_of_the_drawn_boxes(interpolation):
    recipe = Recipe((Crop(80, 2),), interpolation=interpolation)  # so large that nothing is reduced
    photo = ArrayPhoto(oracle.smooth_photo(120, 160))
    method = Image.Resampling[interpolation.upper()]
    for index in range(20):
        boxes = draw_boxes(recipe.crops[0], recipe, view_keys(4, 1, np.array([index]), [0, 1]), width=160, height=120)
        for view, crop in enumerate(Cropper(recipe, seed=4)(photo, 1, index)):
            left, top, wide, high = (int(side[view, 0]) for side in (boxes.left, boxes.top, boxes.width, boxes.height))
            cut = Image.fromarray(photo.array).crop((left, top, left + wide, top + high)).resize((80, 80), method)
            expected = np.asarray(cut)[:, :: -1 if boxes.flip[view, 0] else 1]
            difference = np.abs(crop.astype(int) - expected)
            assert difference.max() <= 2
            assert difference.mean() < 0.25


def test_photos_and_arrays_give_the_same_views():
    arrays = [oracle.smooth_photo(70, 90, seed) for seed in range(6)]
    images = torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)
    indices = torch.tensor([5, 50, 500, 5000, 50000, 500000])
    views, cropper = Views(RECIPE, seed=8), Cropper(RECIPE, seed=8)
    cuts = [cropper(ArrayPhoto(array), 3, int(index)) for array, index in zip(arrays, indices, strict=True)]
    from_photos = views.finish(stack(cuts), indices, epoch=3)
    from_arrays = views(images, indices, epoch=3)
    for ours, theirs in zip(from_photos.views, from_arrays.views, strict=True):
        assert (ours - theirs).abs().max() < 6 * 1.4**3 / 255  # the crops were rounded to whole grey levels
        assert (ours - theirs).abs().mean() < 1.5 / 255


def test_a_photo_is_decoded_once_and_as_small_as_every_crop_allows():
    for side, expected in ((32, 1), (95, 1), (96, 2), (191, 2), (192, 4), (384, 8), (2000, 8)):  # 1.5 pixels for each
        photo = ArrayPhoto(np.zeros((side, side, 3), dtype=np.uint8))
        Cropper(Recipe((Crop(32, 2, (1.0, 1.0)),), ratio=(1.0, 1.0)))(photo, 0, 0)
        assert photo.decoded == [expected]
    photo = ArrayPhoto(np.zeros((400, 400, 3), dtype=np.uint8))
    both = Recipe((Crop(32, 1, (1.0, 1.0)), Crop(32, 1, (0.01, 0.01))), ratio=(1.0, 1.0))
    Cropper(both)(photo, 0, 0)
    assert photo.decoded == [1]  # the small crop needs every pixel


def test_a_crop_of_a_reduced_photo_shows_the_same_part():
    photo = ArrayPhoto(gaussian_filter(oracle.smooth_photo(640, 800, detail=False), (6, 6, 0)))
    recipe = Recipe((Crop(32, 2, (0.3, 1.0)),))
    whole = ArrayPhoto(photo.array)
    whole.pixels = lambda reduce=1: photo.array
    for index in range(10):
        reduced, full = (Cropper(recipe)(picture, 0, index) for picture in (photo, whole))
        for ours, theirs in zip(reduced, full, strict=True):
            assert np.abs(ours.astype(int) - theirs).mean() < 1
            assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.999
    assert max(photo.decoded) >= 4


def test_a_cropper_survives_pickling_and_stays_the_same_function():
    photo = ArrayPhoto(oracle.smooth_photo(50, 60))
    cropper = Cropper(preset("swav-160"), seed=3)
    for ours, theirs in zip(cropper(photo, 2, 7), pickle.loads(pickle.dumps(cropper))(photo, 2, 7), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 2), (7, 5)])
def test_tiny_and_narrow_photos_give_whole_crops(size):
    for channels in (1, 3):
        crops = Cropper(RECIPE)(ArrayPhoto(np.full((*size, channels), 9, dtype=np.uint8)), 0, 0)
        assert [crop.shape for crop in crops] == [(32, 32, channels)] * 2 + [(16, 16, channels)] * 3
        assert all((crop == 9).all() for crop in crops)


def test_a_photo_that_may_not_be_written_to_is_left_alone():
    array = oracle.smooth_photo(50, 60)
    expected = Cropper(RECIPE)(ArrayPhoto(array.copy()), 0, 0)
    array.flags.writeable = False
    crops = Cropper(RECIPE)(ArrayPhoto(array), 0, 0)
    assert all(np.array_equal(crop, wanted) for crop, wanted in zip(crops, expected, strict=True))


def test_photos_and_crops_of_the_wrong_kind_are_refused():
    with pytest.raises(ShapeError, match="1 or 3 channels"):
        Cropper(RECIPE)(ArrayPhoto(np.zeros((9, 9, 4), dtype=np.uint8)), 0, 0)
    views = Views(RECIPE)
    good = stack([Cropper(RECIPE)(ArrayPhoto(oracle.smooth_photo(50, 60)), 0, 0)])
    for crops in ([], good[:-1], [good[0].float(), *good[1:]], good[::-1]):
        with pytest.raises(ShapeError, match="5 uint8 tensors"):
            views.finish(crops, [0], epoch=0)
    with pytest.raises(ShapeError, match="1 whole numbers"):
        views.finish(good, [0, 1], epoch=0)
