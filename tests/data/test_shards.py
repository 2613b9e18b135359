from __future__ import annotations

import functools
import io
import json
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenview.data import Item, LazyImage, Resize, StreamLoader, StreamSource
from eigenview.data.columns import by_set
from eigenview.data.shards import ShardSource
from eigenview.data.source import Share
from eigenview.errors import DataError, SettingError
from tests.data.pictures import encoded, gradient
from tests.processes import run_processes


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            facts = tarfile.TarInfo(name)
            facts.size = len(data)
            archive.addfile(facts, io.BytesIO(data))
    return path


def write_shards(root: Path, shards: int, each: int) -> str:
    """Sample i of all has label i."""
    for shard in range(shards):
        members = {}
        for number in range(shard * each, (shard + 1) * each):
            members[f"{number:04d}.jpg"] = encoded(gradient(seed=number), "JPEG")
            members[f"{number:04d}.cls"] = str(number).encode()
            members[f"{number:04d}.txt"] = f"picture {number}\n".encode()
        write_tar(root / f"shard-{shard:03d}.tar", members)
    return str(root / f"shard-{{000..{shards - 1:03d}}}.tar")


def labels(loader: StreamLoader) -> list[list[int]]:
    return [batch.label.tolist() for batch in loader]


def stamp(image: LazyImage, epoch: int, index: int) -> tuple[np.ndarray, ...]:
    pixels = image.pixels().copy()
    pixels[0, 0] = [epoch, index % 251, 0]
    return (pixels,)


def test_samples_carry_images_labels_and_captions(tmp_path):
    pattern = write_shards(tmp_path, 2, 3)
    write_tar(tmp_path / "shard-002.tar", {"a/b.png": encoded(gradient()), "a/b.json": json.dumps(
        {"label": 9, "captions": ["one", "two"]}).encode(), "a/b.pkl": b"cos\nsystem\n(S'false'\ntR."})  # fmt: skip
    source = ShardSource(str(tmp_path / "shard-*.tar"))
    assert isinstance(source, StreamSource)
    items = [item for item in source.items(Share(0, 0), shuffle=False) if isinstance(item, Item)]
    assert [item.label for item in items] == [0, 1, 2, 3, 4, 5, 9]
    assert [item.captions for item in items][5:] == [("picture 5",), ("one", "two")]
    assert items[4].image.name == "shard-001.tar/0004"
    assert len({item.index for item in items}) == 7
    again = [item for item in ShardSource(pattern).items(Share(3, 5), shuffle=True) if isinstance(item, Item)]
    assert {item.index for item in again} == {item.index for item in items[:6]}  # names decide, not the order
    assert "3 files" in str(source.describe())


def test_captions_of_a_sample_are_all_its_keys_have_each_once(tmp_path):
    facts = {"caption": "a dog", "caption_2": 0.93, "rewrites": ["", "one dog"], "url": "x", "text": "other"}
    samples = {"a.png": encoded(gradient()), "a.txt": b"a  dog\n", "a.json": json.dumps(facts).encode()}
    write_tar(tmp_path / "s.tar", samples)
    (item,) = ShardSource(str(tmp_path / "s.tar")).items(Share(0, 0), shuffle=False)
    assert item.captions == ("a dog", "one dog")
    assert by_set(item.captions) == ("a dog", "", "", "one dog")


@pytest.mark.parametrize("readers", [1, 2, 3, 5])
def test_the_shares_of_readers_are_disjoint_and_complete(tmp_path, readers):
    source = ShardSource(write_shards(tmp_path, 3, 4))
    for shuffle in (False, True):
        shares = [list(source.items(Share(1, 2, number, readers), shuffle=shuffle)) for number in range(readers)]
        seen = [item.label for share in shares for item in share if isinstance(item, Item)]
        assert sorted(seen) == list(range(12))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_epoch_meets_every_sample_once_in_a_seeded_order(tmp_path, workers):
    source = ShardSource(write_shards(tmp_path, 4, 5), buffer=8)
    loader = StreamLoader(source, batch_size=3, seed=1, workers=workers, drop_last=False)
    first = labels(loader)
    assert sorted(sum(first, [])) == list(range(20))  # noqa: RUF017
    assert first == labels(loader)
    assert sum(first, []) != list(range(20))  # noqa: RUF017
    loader.set_epoch(1)
    assert labels(loader) != first
    batch = next(iter(StreamLoader(source, batch_size=3, seed=1, workers=workers)))
    assert isinstance(batch.images, torch.Tensor)
    assert batch.captions == tuple((f"picture {number}",) for number in batch.label.tolist())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("steps", [None, 9])
def test_a_stream_resumes_where_it_stood(tmp_path, workers, steps):
    write_shards(tmp_path, 4, 5)
    write_tar(tmp_path / "shard-004.tar", {f"bad{n}.jpg": b"" for n in range(7)})

    def fresh() -> StreamLoader:
        source = ShardSource(str(tmp_path / "*.tar"), buffer=4)
        return StreamLoader(
            source, batch_size=3, seed=1, workers=workers, steps_per_epoch=steps, prepare=stamp, drop_last=False
        )

    whole = fresh()
    whole.set_epoch(2)
    expected = [batch.views[0] for batch in whole]
    assert steps is None or len(expected) == steps
    for stop in (1, 4, len(expected)):
        broken_off = fresh()
        broken_off.set_epoch(2)
        for number, _ in enumerate(broken_off, start=1):
            if number == stop:
                state = broken_off.state()
                break
        resumed = fresh()
        resumed.restore(state)
        resumed.set_epoch(2)
        rest = [batch.views[0] for batch in resumed]
        assert len(rest) == len(expected) - stop
        assert all(torch.equal(a, b) for a, b in zip(rest, expected[stop:], strict=True))


def stream_on_a_process(rank: int, group: object, pattern: str) -> list[list[int]]:
    loader = StreamLoader(ShardSource(pattern), batch_size=4, seed=0, workers=1, steps_per_epoch=3, group=group)
    return labels(loader)


def test_two_processes_share_a_stream(tmp_path):
    first, second = run_processes(2, stream_on_a_process, write_shards(tmp_path, 4, 3))
    assert [len(batch) for batch in first + second] == [2] * 6
    assert sorted(sum(first + second, [])) == list(range(12))  # noqa: RUF017


def test_damage_is_counted_and_passed_over(tmp_path):
    write_shards(tmp_path, 2, 4)
    whole = (tmp_path / "shard-001.tar").read_bytes()
    (tmp_path / "shard-002.tar").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "shard-003.tar").write_bytes(b"no tar at all")
    write_tar(
        tmp_path / "shard-004.tar",
        {
            "broken.jpg": b"nonsense",
            "alone.txt": b"no image",
            "odd.jpg": encoded(gradient(), "JPEG"),
            "odd.cls": b"cat",
            "fine.jpg": encoded(gradient(), "JPEG"),
        },
    )
    log = tmp_path / "log.jsonl"
    loader = StreamLoader(ShardSource(str(tmp_path / "*.tar")), batch_size=4, seed=0, drop_last=False, log=log)
    batches = list(loader)
    assert sum(len(batch) for batch in batches) >= 8
    names = {Path(json.loads(line)["name"]).name for line in log.read_text().splitlines()}
    assert names == {"shard-002.tar", "shard-003.tar", "broken", "alone", "odd"}


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_are_named_and_a_pass_that_skips_meets_each_sample_once(tmp_path, workers):
    write_shards(tmp_path, 2, 4)
    write_tar(tmp_path / "shard-002.tar", {f"bad{n}.jpg": b"nonsense" for n in range(5)})
    source = ShardSource(str(tmp_path / "*.tar"))
    replacing = StreamLoader(source, batch_size=3, seed=0, workers=workers, drop_last=False)
    for batch in replacing:
        assert [int(name.rsplit("/", 1)[-1]) for name in batch.names] == batch.label.tolist()
    skipping = StreamLoader(
        source, batch_size=3, seed=0, workers=workers, shuffle=False, drop_last=False, unreadable="skip"
    )
    batches = list(skipping)
    names = [name for batch in batches for name in batch.names]
    assert sorted(names) == [f"shard-{n // 4:03d}.tar/{n:04d}" for n in range(8)]
    failed = [failure.name for batch in batches for failure in batch.unreadable]
    assert sorted(failed) == [f"shard-002.tar/bad{n}" for n in range(5)]


def test_shards_without_one_good_image_end_with_an_error(tmp_path):
    write_tar(tmp_path / "bad.tar", {f"{n}.jpg": b"bad" for n in range(9)})
    loader = StreamLoader(ShardSource(tmp_path / "bad.tar"), batch_size=2, seed=0, workers=0, steps_per_epoch=5)
    with pytest.raises(DataError, match="batches in a row hold no readable image"):
        list(loader)


@pytest.mark.parametrize("name", ["../escape.jpg", "a/../../b.jpg", "/etc/passwd.jpg", "..\\b.jpg", "C:\\b.jpg"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_path_out_of_the_archive_is_refused(tmp_path, name, workers):
    write_tar(tmp_path / "evil.tar", {name: encoded(gradient(), "JPEG")})
    loader = StreamLoader(ShardSource(tmp_path / "evil.tar"), batch_size=1, seed=0, workers=workers)
    with pytest.raises(DataError, match=r"evil\.tar holds .*leads out of the archive") as caught:
        list(loader)
    assert "\n" not in str(caught.value)


def test_shards_stream_over_http(tmp_path):
    write_shards(tmp_path, 2, 3)
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/shard-{{000..001}}.tar"
        loader = StreamLoader(ShardSource(address), batch_size=6, seed=0, workers=0, prepare=Resize(8))
        assert [sorted(batch) for batch in labels(loader)] == [[0, 1, 2, 3, 4, 5]]
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


def test_mistakes_are_told_in_one_line(tmp_path, monkeypatch):
    pattern = write_shards(tmp_path, 2, 2)
    with pytest.raises(DataError, match=r"no such shard: .*shard-002\.tar"):
        ShardSource(str(tmp_path / "shard-{000..002}.tar"))
    with pytest.raises(DataError, match="is a folder; shards are tar files"):
        ShardSource(tmp_path)
    source = ShardSource(pattern)
    with pytest.raises(SettingError, match="batch_size at least one per process"):
        StreamLoader(source, batch_size=0, seed=0)
    with pytest.raises(SettingError, match="steps_per_epoch must be at least 1"):
        StreamLoader(source, batch_size=1, seed=0, steps_per_epoch=0)
    state = StreamLoader(source, batch_size=1, seed=0, workers=1).state()
    with pytest.raises(SettingError, match="same seed, batch_size and readers"):
        StreamLoader(source, batch_size=1, seed=0, workers=2).restore(state)
    with pytest.raises(DataError, match="reader 4 of 5 has nothing to read"):
        list(StreamLoader(source, batch_size=1, seed=0, workers=5, steps_per_epoch=9))
    monkeypatch.setitem(__import__("sys").modules, "webdataset", None)
    with pytest.raises(SettingError, match=r"needs webdataset, .*pip install 'eigenview\[shards\]'"):
        ShardSource(pattern)
