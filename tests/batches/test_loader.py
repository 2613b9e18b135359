"""The same views whatever carries them: no workers or two, one process or two, from the start or resumed in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from eigenview.batches import ViewLoader, first_view
from eigenview.data import ArraySource, FolderSource
from eigenview.data.shards import ShardSource
from eigenview.views import Blur, CentreView, Crop, Jitter, Recipe, Views
from tests.data.test_shards import write_shards
from tests.processes import run_processes
from tests.views import oracle

RECIPE = Recipe((Crop(24, 2), Crop(12, 2, (0.05, 0.3))), jitter=Jitter(0.8, 0.8, 0.8, 0.2), grey=0.2, blur=Blur(0.5))
CENTRE = CentreView(28, 24)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(14):
        size = (40 + 3 * number, 90 - 2 * number)
        Image.fromarray(oracle.smooth_photo(*size, seed=number)).save(tmp_path / f"{number:02}.png")
    return tmp_path


def loader_of(source, workers: int = 0, group=None) -> ViewLoader:
    views = Views(RECIPE, seed=6)
    return ViewLoader(source, views, batch_size=4, seed=6, workers=workers, group=group)


def epoch_of(loader: ViewLoader, number: int = 2) -> dict[int, list[Tensor]]:
    """The views of every item, in the order in which they came."""
    return {
        int(index): [view[row] for view in seen.views.views]
        for seen in loader.epoch(number)
        for row, index in enumerate(seen.batch.index)
    }


def assert_same(ours: dict[int, list[Tensor]], theirs: dict[int, list[Tensor]]) -> None:
    assert list(ours) == list(theirs)
    for index, views in ours.items():
        for first, second in zip(views, theirs[index], strict=True):
            torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


def test_workers_do_not_change_the_views(folder):
    alone, helped = (epoch_of(loader_of(FolderSource(folder), workers)) for workers in (0, 2))
    assert len(alone) == 12
    assert_same(helped, alone)
    assert list(epoch_of(loader_of(FolderSource(folder)), 3)) != list(alone)


def test_an_epoch_resumed_in_its_middle_goes_on_with_the_same_views(folder):
    whole = epoch_of(loader_of(FolderSource(folder)))
    first = loader_of(FolderSource(folder))
    next(first.epoch(2))
    assert (first.step, first.state()["epoch"]) == (1, 2)
    resumed = loader_of(FolderSource(folder))
    resumed.restore(first.state())
    rest = epoch_of(resumed)
    assert len(rest) == 8
    assert_same(rest, {index: whole[index] for index in list(whole)[4:]})


def test_photos_through_the_loader_are_the_arrays_views(folder):
    views, source = Views(RECIPE, seed=6), FolderSource(folder)
    for index, finished in epoch_of(loader_of(source)).items():
        image = torch.from_numpy(np.array(source.image(index).pixels())).permute(2, 0, 1)[None]
        for ours, theirs in zip(finished, views(image, [index], epoch=2).views, strict=True):
            assert (ours - theirs[0]).abs().mean() < 3 / 255  # crops of photos are rounded to whole grey levels


def arrays(count: int = 14) -> ArraySource:
    images = np.stack([oracle.smooth_photo(32, 32, seed=number) for number in range(count)])
    return ArraySource(images, labels=np.arange(count) % 3)


def test_arrays_are_augmented_as_whole_batches():
    source, views = arrays(), Views(RECIPE, seed=6)
    for seen in loader_of(source).epoch(2):
        whole = views(source.batch(seen.batch.index.numpy()), seen.batch.index, epoch=2)
        assert all(torch.equal(a, b) for a, b in zip(seen.views.groups, whole.groups, strict=True))
        assert seen.batch.label.tolist() == (seen.batch.index % 3).tolist()
        assert torch.equal(first_view(seen), whole.views[0])
        assert len(seen) == 4


def test_looking_meets_every_readable_item_once_and_names_the_others(folder):
    second = list(ViewLoader.in_order(FolderSource(folder), CENTRE, batch_size=4, workers=0).epoch())[1]
    for name in ("00", "01", "02", "03", "09"):  # the whole first batch, and one of the third
        (folder / f"{name}.png").write_bytes(b"no picture")
    for workers in (0, 2):
        loader = ViewLoader.in_order(FolderSource(folder), CENTRE, batch_size=4, workers=workers)
        seen = list(loader.epoch())
        assert [len(batch) for batch in seen] == [0, 4, 3, 2]
        assert [index for batch in seen for index in batch.batch.index.tolist()] == [4, 5, 6, 7, 8, 10, 11, 12, 13]
        assert [name for batch in seen for name in batch.batch.names][:2] == ["04.png", "05.png"]
        failures = [failure.name for batch in seen for failure in batch.batch.unreadable]
        assert failures == ["00.png", "01.png", "02.png", "03.png", "09.png"]
        assert set(loader.unreadable) == set(failures)
        torch.testing.assert_close(first_view(seen[1]), first_view(second))


def test_an_unreadable_image_of_training_is_replaced_and_noted(folder, tmp_path):
    (folder / "05.png").write_bytes(b"no picture")
    log = tmp_path / "log" / "unreadable.jsonl"
    views = Views(RECIPE, seed=6)
    loader = ViewLoader(FolderSource(folder), views, batch_size=7, seed=6, workers=0, log=log)
    batches = [seen.batch.index.tolist() for epoch in range(2) for seen in loader.epoch(epoch)]
    assert [len(batch) for batch in batches] == [7] * 4
    assert not any(5 in batch for batch in batches)
    assert log.read_text().count("05.png") == 1


def test_a_stream_has_views_too_and_a_length_where_one_is_given(tmp_path):
    pattern = write_shards(tmp_path, 2, 5)
    loader = ViewLoader.in_order(ShardSource(pattern), CENTRE, batch_size=3, workers=0)
    with pytest.raises(TypeError, match="has no length"):
        len(loader)
    labels = [label for seen in loader.epoch() for label in seen.batch.label.tolist()]
    assert sorted(labels) == list(range(10))
    assert all(first_view(seen).shape[1:] == (3, 24, 24) for seen in loader.epoch())
    views = Views(RECIPE, seed=6)
    endless = ViewLoader(ShardSource(pattern), views, batch_size=4, seed=1, steps_per_epoch=5, workers=0)
    assert len(endless) == 5
    assert [len(seen) for seen in endless.epoch(0)] == [4] * 5
    position = endless.state()
    endless.restore(position)
    assert endless.state() == position


def shares(rank: int, group: object, folder: str) -> tuple[list[int], list[int], list[float]]:
    training = loader_of(FolderSource(folder), group=group)
    looking = ViewLoader.in_order(FolderSource(folder), CENTRE, batch_size=4, workers=0, group=group)
    seen = epoch_of(training)
    looked = [index for batch in looking.epoch() for index in batch.batch.index.tolist()]
    return list(seen), looked, [float(views[0].sum()) for views in seen.values()]


def test_two_processes_share_the_batches_of_one(folder):
    alone, looked, sums = shares(0, None, str(folder))
    first, second = run_processes(2, shares, str(folder))
    mine = [index for start in (0, 4, 8) for index in alone[start : start + 2]]
    theirs = [index for start in (0, 4, 8) for index in alone[start + 2 : start + 4]]
    assert (first[0], second[0]) == (mine, theirs)
    by_item = dict(zip(alone, sums, strict=True))
    for share in (first, second):
        assert share[2] == pytest.approx([by_item[index] for index in share[0]], abs=1e-2)
    assert sorted([*first[1], *second[1]]) == looked == list(range(14))
