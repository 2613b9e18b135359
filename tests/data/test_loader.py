from __future__ import annotations

import gc
import json
import os
import signal
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from eigenview.data import ArraySource, Batch, FolderSource, LazyImage, Loader, LoaderState, Resize, joined, subset
from eigenview.data.order import Plan, share_of
from eigenview.errors import DataError, SettingError
from tests.data.pictures import gradient, write_broken_files, write_folder
from tests.processes import run_processes


def numbered(count: int, *, labelled: bool = True) -> ArraySource:
    """Image i is filled with i."""
    images = np.arange(count, dtype=np.uint8)[:, None, None].repeat(4, axis=1).repeat(4, axis=2)
    return ArraySource(images, labels=np.arange(count) % 3 if labelled else None)


def stamp(image: LazyImage, epoch: int, index: int) -> tuple[np.ndarray, ...]:
    """Two views of different sizes; the corner of the second one tells epoch and index."""
    pixels = image.pixels()
    second = pixels[:4, :4].copy()
    second[0, 0] = [epoch, index % 256, 0]
    return pixels[:8, :8], second


def faulty(image: LazyImage, epoch: int, index: int) -> tuple[np.ndarray, ...]:
    if index == 3:
        raise KeyError("a bug in the views")
    return (image.pixels(),)


def suicidal(image: LazyImage, epoch: int, index: int) -> tuple[np.ndarray, ...]:
    if index == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return (image.pixels(),)


def indices(loader: Loader) -> list[list[int]]:
    return [batch.index.tolist() for batch in loader]


def assert_same(left: list[Batch], right: list[Batch]) -> None:
    assert len(left) == len(right)
    for batch, other in zip(left, right, strict=True):
        assert torch.equal(batch.index, other.index)
        assert len(batch.views) == len(other.views)
        assert all(torch.equal(a, b) for a, b in zip(batch.views, other.views, strict=True))
        assert batch.unreadable == other.unreadable


def test_an_epoch_meets_every_image_once():
    loader = Loader(numbered(10), batch_size=4, seed=0, drop_last=False)
    assert len(loader) == 3
    batches = list(loader)
    assert sorted(torch.cat([batch.index for batch in batches]).tolist()) == list(range(10))
    for batch in batches:
        assert isinstance(batch.images, torch.Tensor)
        assert batch.images.dtype == torch.uint8
        assert torch.equal(batch.images[:, 0, 0, 0].long(), batch.index)
        assert batch.label is not None
        assert torch.equal(batch.label, batch.index % 3)
    assert [len(batch) for batch in Loader(numbered(10), batch_size=4, seed=0)] == [4, 4]


def test_the_order_depends_on_seed_and_epoch_alone():
    loader = Loader(numbered(50), batch_size=10, seed=1)
    first = indices(loader)
    assert first == indices(loader) == indices(Loader(numbered(50), batch_size=10, seed=1))
    loader.set_epoch(1)
    second = indices(loader)
    assert second != first
    assert indices(Loader(numbered(50), batch_size=10, seed=2)) not in (first, second)
    loader.set_epoch(0)
    assert indices(loader) == first
    assert indices(Loader(numbered(6), batch_size=3, seed=1, shuffle=False)) == [[0, 1, 2], [3, 4, 5]]


def test_workers_change_nothing(tmp_path):
    source = FolderSource(write_folder(tmp_path, 23))
    collected = []
    for workers in (0, 1, 2):
        loader = Loader(source, batch_size=5, seed=3, prepare=stamp, workers=workers, drop_last=False)
        batches = list(loader)
        loader.set_epoch(1)
        collected.append(batches + list(loader))
    assert_same(collected[0], collected[1])
    assert_same(collected[0], collected[2])
    last = collected[2][-1]
    assert [tuple(view.shape) for view in last.views] == [(3, 3, 8, 8), (3, 3, 4, 4)]
    assert torch.equal(last.views[1][:, 1, 0, 0].long(), last.index)
    assert set(last.views[1][:, 0, 0, 0].tolist()) == {1}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_restored_loader_goes_on_where_it_stood(tmp_path, workers):
    source = FolderSource(write_folder(tmp_path, 40))

    def fresh() -> Loader:
        return Loader(source, batch_size=4, seed=3, prepare=stamp, workers=workers)

    whole = fresh()
    whole.set_epoch(1)
    expected = list(whole)
    broken_off = fresh()
    broken_off.set_epoch(1)
    for number, _ in enumerate(broken_off, start=1):
        if number == 3:
            state = broken_off.state()
            break
    assert state == LoaderState(epoch=1, step=3, seed=3, batch_size=4, count=40)  # 3, though more were prefetched
    resumed = fresh()
    resumed.restore(state)
    resumed.set_epoch(1)  # as a training loop would
    assert_same(list(resumed), expected[3:])
    assert_same(list(resumed), expected)  # and the next pass is whole again
    assert_same(list(broken_off), expected)


def test_a_loader_restored_at_the_end_of_an_epoch_gives_nothing_more():
    loader = Loader(numbered(8), batch_size=4, seed=0)
    list(loader)
    resumed = Loader(numbered(8), batch_size=4, seed=0)
    resumed.restore(loader.state())
    assert indices(resumed) == []
    resumed.set_epoch(1)
    assert len(indices(resumed)) == 2


def test_a_position_of_other_data_is_refused():
    state = Loader(numbered(8), batch_size=4, seed=0).state()
    with pytest.raises(SettingError, match="another number of images: 8, but here it is 9"):
        Loader(numbered(9), batch_size=4, seed=0).restore(state)
    with pytest.raises(SettingError, match="another batch_size"):
        Loader(numbered(8), batch_size=2, seed=0).restore(state)
    with pytest.raises(SettingError, match="step 3 of an epoch with 2"):
        Loader(numbered(8), batch_size=4, seed=0).restore(LoaderState(0, 3, 0, 4, 8))


def test_iterating_leaves_the_global_generator_alone(tmp_path):
    source = FolderSource(write_folder(tmp_path, 8))
    for workers in (0, 1):
        before = torch.get_rng_state()
        numpy_before = np.random.get_state()[1].tolist()  # noqa: NPY002  # the global one is what is watched
        list(Loader(source, batch_size=4, seed=0, workers=workers))
        assert torch.equal(torch.get_rng_state(), before)
        assert np.random.get_state()[1].tolist() == numpy_before  # noqa: NPY002


def test_the_shares_of_a_batch_are_disjoint_and_complete():
    for world in (1, 2, 3, 7):
        for size in (1, 2, 7, 16):
            batch = np.arange(100, 100 + size)
            shares = [share_of(batch, rank, world) for rank in range(world)]
            np.testing.assert_array_equal(np.concatenate(shares), batch)
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def load_on_a_process(rank: int, group: object, folder: str) -> list:
    source = FolderSource(folder)
    loader = Loader(source, batch_size=5, seed=3, prepare=stamp, workers=1, drop_last=False, group=group)
    return [(batch.index, batch.views[1]) for batch in loader]


def test_two_processes_see_the_batches_of_one(tmp_path):
    write_folder(tmp_path, 11)
    (tmp_path / "bad.png").write_bytes(b"")
    write_folder(tmp_path / "more", 9)  # 21 files: the last batch has one row, so one process gets none
    first, second = run_processes(2, load_on_a_process, str(tmp_path))
    loader = Loader(FolderSource(tmp_path), batch_size=5, seed=3, prepare=stamp, workers=0, drop_last=False)
    batches = list(loader)
    assert len(first) == len(second) == len(batches) == 5
    assert {len(first[-1][0]), len(second[-1][0])} == {0, 1}
    assert first[-1][1].shape[1:] == second[-1][1].shape[1:] == (3, 4, 4)
    for batch, left, right in zip(batches, first, second, strict=True):
        np.testing.assert_array_equal(batch.index.numpy(), np.concatenate([left[0], right[0]]))
        np.testing.assert_array_equal(batch.views[1].numpy(), np.concatenate([left[1], right[1]]))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_folder_full_of_broken_files_trains_through(tmp_path, workers):
    broken = write_broken_files(write_folder(tmp_path / "images", 12))
    log = tmp_path / "unreadable.jsonl"
    source = FolderSource(tmp_path / "images")
    loader = Loader(source, batch_size=4, seed=0, workers=workers, drop_last=False, log=log)
    for epoch in range(2):
        loader.set_epoch(epoch)
        batches = list(loader)
        assert sum(len(batch) for batch in batches) == len(source)  # replaced, so every batch is full
        for batch in batches:
            assert isinstance(batch.images, torch.Tensor)
            names = [source.relative_path(index) for index in batch.index.tolist()]
            assert all(name.startswith("good") for name in names)
            blue = [int(name[5:9]) * 37 % 256 for name in names]
            assert batch.images[:, 2, 0, 0].tolist() == blue
    assert sorted(loader.unreadable) == sorted(broken)
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted(entry["name"] for entry in logged) == sorted(broken)  # each once, over both epochs
    assert all(entry["reason"] for entry in logged)


def test_replacements_do_not_depend_on_workers_and_skipping_leaves_out(tmp_path):
    broken = write_broken_files(write_folder(tmp_path, 12))
    source = FolderSource(tmp_path)
    runs = [list(Loader(source, batch_size=4, seed=0, workers=workers)) for workers in (0, 1, 2)]
    assert_same(runs[0], runs[1])
    assert_same(runs[0], runs[2])
    skipping = Loader(source, batch_size=4, seed=0, workers=0, shuffle=False, drop_last=False, unreadable="skip")
    seen = [index for batch in indices(skipping) for index in batch]
    assert [source.relative_path(index) for index in seen] == [f"good_{number:04d}.png" for number in range(12)]
    assert any(len(batch) == 0 for batch in skipping)  # a batch of nothing but broken files keeps its place
    assert sorted(skipping.unreadable) == sorted(broken)


def test_a_source_without_one_good_image_is_refused(tmp_path):
    write_broken_files(tmp_path)
    for workers in (0, 1):
        with pytest.raises(DataError, match="images in a row are unreadable, the last one bad_"):
            list(Loader(FolderSource(tmp_path), batch_size=4, seed=0, workers=workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bug_in_the_views_arrives_with_the_name_of_the_file(tmp_path, workers):
    source = FolderSource(write_folder(tmp_path, 8))
    with pytest.raises(RuntimeError, match=r"(?s)preparing good_0003\.png failed.*a bug in the views"):
        list(Loader(source, batch_size=4, seed=0, prepare=faulty, workers=workers))


def refusing(image: LazyImage, epoch: int, index: int) -> tuple[np.ndarray, ...]:
    raise SettingError("this view needs a larger picture")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_refusal_of_the_views_names_the_file_too(tmp_path, workers):
    source = FolderSource(write_folder(tmp_path, 1))
    with pytest.raises(SettingError, match=r"^good_0000\.png: this view needs a larger picture$"):
        list(Loader(source, batch_size=1, seed=0, prepare=refusing, workers=workers))


def test_folders_that_cannot_be_read_are_in_the_log_too(tmp_path):
    source = FolderSource(write_folder(tmp_path / "images", 2))
    source.unreadable_folders = ["locked"]  # root may enter everything, so this cannot be made for real everywhere
    log = tmp_path / "new" / "log.jsonl"
    list(Loader(source, batch_size=2, seed=0, workers=0, log=log))
    assert json.loads(log.read_text()) == {"name": "locked", "reason": "the folder cannot be read"}


def test_a_killed_worker_is_reported_and_not_waited_for(tmp_path):
    source = FolderSource(write_folder(tmp_path, 8))
    with pytest.raises(DataError, match=r"a data worker died \(.*use fewer workers"):
        list(Loader(source, batch_size=4, seed=0, prepare=suicidal, workers=2))


def test_images_of_several_sizes_need_a_resize(tmp_path):
    write_folder(tmp_path, 2)
    Image.fromarray(gradient(300, 200, seed=2)).save(tmp_path / "other.jpg")
    source = FolderSource(tmp_path)
    with pytest.raises(DataError, match=r"images of one batch need one shape; .* prepare=Resize"):
        list(Loader(source, batch_size=3, seed=0, workers=0))
    (batch,) = Loader(source, batch_size=3, seed=0, workers=0, prepare=Resize(16))
    assert [tuple(view.shape) for view in batch.views] == [(3, 3, 16, 16)]


def test_resize_equals_a_centre_crop_and_a_pillow_resize(tmp_path):
    array = gradient(61, 40)
    Image.fromarray(array).save(tmp_path / "a.png")
    (small,) = Resize(20)(FolderSource(tmp_path).image(0), 0, 0)
    square = Image.fromarray(array).crop((0, 10, 40, 50)).resize((20, 20), Image.Resampling.BILINEAR)
    assert np.abs(small.astype(int) - np.asarray(square)).max() <= 3  # the centre lies half a pixel lower


def test_arrays_need_no_workers_and_files_do(tmp_path):
    assert Loader(numbered(8), batch_size=4, seed=0).workers == 0
    assert Loader(FolderSource(write_folder(tmp_path, 4)), batch_size=4, seed=0).workers >= 1


def test_batches_move_and_shrink():
    (batch,) = Loader(numbered(4), batch_size=4, seed=0)
    assert len(batch.first(2).to("cpu")) == 2
    assert batch.views[0] is batch.images


def test_mistakes_are_told_in_one_line(tmp_path):
    with pytest.raises(SettingError, match="batch_size 9 is more than the 8 images"):
        Loader(numbered(8), batch_size=9, seed=0)
    with pytest.raises(SettingError, match="at least 1"):
        Plan(8, 0, seed=0)
    with pytest.raises(SettingError, match="seed must be at least 0"):
        Loader(numbered(8), batch_size=2, seed=-1)
    with pytest.raises(SettingError, match="workers is 'auto'"):
        Loader(numbered(8), batch_size=2, seed=0, workers="many")
    with pytest.raises(SettingError, match="unreadable is"):
        Loader(numbered(8), batch_size=2, seed=0, unreadable="crash")
    with pytest.raises(SettingError, match="epoch must be at least 0"):
        Loader(numbered(8), batch_size=2, seed=0).set_epoch(-1)
    with pytest.raises(SettingError, match="needs a source"):
        Loader(Path(), batch_size=2, seed=0)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_row_has_its_name_also_where_others_were_replaced_or_left_out(tmp_path, workers):
    write_broken_files(write_folder(tmp_path, 12))
    (tmp_path / ("long" * 60)).mkdir()
    write_folder(tmp_path / ("long" * 60), 1)  # one long name makes no other longer
    source = FolderSource(tmp_path)
    for unreadable in ("replace", "skip"):
        loader = Loader(source, batch_size=4, seed=0, workers=workers, drop_last=False, unreadable=unreadable)
        for batch in loader:
            assert batch.names == tuple(source.name(int(index)) for index in batch.index)
            assert batch.first(1).names == batch.names[:1]
            assert batch.to("cpu").names == batch.names
            assert [source.image(int(index)).name for index in batch.index] == list(batch.names)
            assert source.path(int(batch.index[0])) == tmp_path / batch.names[0] if len(batch) else True


def test_sources_without_files_name_their_rows_too(tmp_path):
    arrays = numbered(6)
    (batch,) = Loader(subset(arrays, [4, 1]), batch_size=2, seed=0, shuffle=False)
    assert batch.names == ("memory[4]", "memory[1]")
    assert arrays.path(0) is None
    folder = FolderSource(write_folder(tmp_path, 3))
    both = joined([subset(folder, [2]), arrays])
    assert [both.name(index) for index in range(2)] == ["good_0002.png", "memory[0]"]
    assert [both.path(index) for index in range(2)] == [tmp_path / "good_0002.png", None]


def test_a_pass_that_skips_ends_even_where_nothing_can_be_read(tmp_path):
    broken = write_broken_files(tmp_path)
    loader = Loader(FolderSource(tmp_path), batch_size=4, seed=0, workers=0, drop_last=False, unreadable="skip")
    batches = list(loader)
    assert sum(len(batch) for batch in batches) == 0
    named = [failure.name for batch in batches for failure in batch.unreadable]
    assert sorted(named) == sorted(broken)  # each once, in the batch that it would have been in


def test_a_loader_that_is_left_in_the_middle_takes_its_workers_along(tmp_path):
    loader = Loader(FolderSource(write_folder(tmp_path, 40)), batch_size=2, seed=0, workers=1)
    gc.disable()  # a cycle would keep them until it is collected: in a process that inherits it, say
    try:
        next(iter(loader))
        assert len(active_children()) == 1
        del loader
        assert active_children() == []
    finally:
        gc.enable()
