"""The same views whatever carries them: no workers or two, from the start or resumed in the middle of an epoch."""

import numpy as np
import pytest
import torch
from PIL import Image

from eigenview.data import FolderSource, Loader
from eigenview.views import Blur, Crop, Cropper, Jitter, Recipe, Views
from tests.views import oracle

RECIPE = Recipe((Crop(24, 2), Crop(12, 2, (0.05, 0.3))), jitter=Jitter(0.8, 0.8, 0.8, 0.2), grey=0.2, blur=Blur(0.5))


@pytest.fixture
def folder(tmp_path):
    for number in range(14):
        size = (40 + 3 * number, 90 - 2 * number)
        Image.fromarray(oracle.smooth_photo(*size, seed=number)).save(tmp_path / f"{number:02}.png")
    return tmp_path


def epoch_of(loader):
    views = Views(RECIPE, seed=6)
    return {
        int(index): [view[row] for view in finished.views]
        for batch in loader
        for finished in [views.finish(batch.views, batch.index, epoch=loader.epoch)]
        for row, index in enumerate(batch.index)
    }


def loader_of(folder, workers):
    loader = Loader(FolderSource(folder), batch_size=4, seed=6, prepare=Cropper(RECIPE, seed=6), workers=workers)
    loader.set_epoch(2)
    return loader


def assert_same(ours, theirs):
    assert list(ours) == list(theirs)
    for index, views in ours.items():
        for first, second in zip(views, theirs[index], strict=True):
            torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


def test_workers_do_not_change_the_views(folder):
    alone, helped = (epoch_of(loader_of(folder, workers)) for workers in (0, 2))
    assert len(alone) == 12
    assert_same(helped, alone)


def test_an_epoch_resumed_in_its_middle_goes_on_with_the_same_views(folder):
    whole = epoch_of(loader_of(folder, 0))
    first = loader_of(folder, 0)
    next(iter(first))
    resumed = loader_of(folder, 0)
    resumed.restore(first.state())
    rest = epoch_of(resumed)
    assert len(rest) == 8
    assert_same(rest, {index: whole[index] for index in list(whole)[4:]})


def test_photos_through_the_loader_are_the_arrays_views(folder):
    views = Views(RECIPE, seed=6)
    source = FolderSource(folder)
    for index, finished in epoch_of(loader_of(folder, 0)).items():
        image = torch.from_numpy(np.array(source.image(index).pixels())).permute(2, 0, 1)[None]
        for ours, theirs in zip(finished, views(image, [index], epoch=2).views, strict=True):
            assert (ours - theirs[0]).abs().mean() < 3 / 255  # crops of photos are rounded to whole grey levels
