import numpy as np
import pytest
import torch
from PIL import Image

from eigenview.errors import ShapeError, WriteError
from eigenview.views import Crop, Recipe, Views, preset, show
from eigenview.views.picture import view_pixels
from tests.views import oracle
from tests.views.photos import ArrayPhoto


def test_the_picture_holds_the_original_and_every_view(tmp_path):
    images = torch.from_numpy(np.stack([oracle.smooth_photo(32, 32, seed) for seed in range(3)])).permute(0, 3, 1, 2)
    recipe = preset("kernel-infonce-cifar").with_crops([Crop(32, 2), Crop(16, 1)])
    path = show(images, recipe, tmp_path / "views.png", seed=4, indices=[7, 8, 9], cell=64)
    with Image.open(path) as picture:
        sheet = np.asarray(picture)
    views = view_pixels(Views(recipe, seed=4)(images, [7, 8, 9], epoch=0), recipe)
    for row in range(3):
        for column, picture in enumerate([images[row].permute(1, 2, 0).numpy(), *(view[row] for view in views)]):
            top, left = 16 + row * 68, 56 + column * 68
            large = np.asarray(
                Image.fromarray(np.ascontiguousarray(picture)).resize((64, 64), Image.Resampling.NEAREST)
            )
            np.testing.assert_array_equal(sheet[top : top + 64, left : left + 64], large)


def test_undoing_the_normalisation_gives_the_pixels_back():
    recipe = Recipe((Crop(20, 1, (1.0, 1.0)),), ratio=(1.0, 1.0), flip=0.0, mean=(0.4, 0.5, 0.6), std=(0.1, 0.2, 0.3))
    images = torch.from_numpy(oracle.smooth_photo(20, 20)).permute(2, 0, 1)[None]
    (pixels,) = view_pixels(Views(recipe)(images, [0], epoch=0), recipe)
    np.testing.assert_array_equal(pixels[0], images[0].permute(1, 2, 0).numpy())


def test_photos_of_differing_sizes_and_grey_images_can_be_shown(tmp_path):
    photos = [ArrayPhoto(oracle.smooth_photo(50, 80)), ArrayPhoto(oracle.smooth_photo(90, 40))]
    digits = torch.randint(0, 256, (2, 1, 8, 8), dtype=torch.uint8)
    for images, name in ((photos, "wang-isola-stl"), (digits, "digits")):
        with Image.open(show(images, preset(name), tmp_path / "views.png")) as sheet:
            assert sheet.size == (56 + 3 * 116, 16 + 2 * 116)


def test_nothing_to_show_is_refused(tmp_path):
    with pytest.raises(ShapeError, match="at least one image"):
        show([], preset("moco-v2"), tmp_path / "views.png")


def test_a_picture_makes_its_folder_and_is_whole_or_not_there(tmp_path):
    digits = torch.randint(0, 256, (2, 1, 8, 8), dtype=torch.uint8)
    path = show(digits, preset("digits"), tmp_path / "new" / "views.png")
    assert path.is_file()
    with pytest.raises(WriteError, match="a file is in the place of its folder"):
        show(digits, preset("digits"), path / "views.png")
