from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from eigenview.data import download, fetch, open_source
from eigenview.data.published import PUBLISHED, PublishedFile, unpack
from eigenview.errors import DataError, SettingError, WriteError

CONTENT = np.random.default_rng(0).integers(0, 256, 3_000_000, dtype=np.uint8).tobytes()
CHECKSUM = "md5:" + hashlib.md5(CONTENT).hexdigest()


class Shop(BaseHTTPRequestHandler):
    """Serves ``files``; breaks off after ``limit`` bytes; may know nothing of ranges."""

    files: dict[str, bytes]
    limit: int
    knows_ranges: bool
    asked: list[str | None]

    def do_GET(self) -> None:
        kind = type(self)
        kind.asked.append(self.headers.get("Range"))
        if self.path not in kind.files:
            self.send_error(404)
            return
        data, wanted = kind.files[self.path], self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and kind.knows_ranges else 0
        if start >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if wanted and kind.knows_ranges else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start : start + kind.limit])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[tuple[type[Shop], str]]:
    kind = type(
        "OneShop", (Shop,), {"files": {"/data.bin": CONTENT}, "limit": 1 << 40, "knows_ranges": True, "asked": []}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield kind, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_is_not_fetched_twice(tmp_path, shop):
    kind, address = shop
    path = tmp_path / "deeper" / "data.bin"
    fetch(f"{address}/data.bin", path, checksum=CHECKSUM)
    assert path.read_bytes() == CONTENT
    fetch(f"{address}/data.bin", path, checksum=CHECKSUM)
    assert kind.asked == [None]
    assert list(path.parent.iterdir()) == [path]


def test_a_broken_connection_is_continued(tmp_path, shop):
    kind, address = shop
    kind.limit = 1_100_000
    fetch(f"{address}/data.bin", tmp_path / "data.bin", checksum=CHECKSUM)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert kind.asked == [None, "bytes=1100000-", "bytes=2200000-"]


def test_what_arrived_is_kept_for_the_next_call(tmp_path, shop):
    kind, address = shop
    kind.limit = 200_000
    with pytest.raises(DataError, match=r"broke off 5 times .* call again to go on"):
        fetch(f"{address}/data.bin", tmp_path / "data.bin", checksum=CHECKSUM)
    assert (tmp_path / "data.bin.part").stat().st_size == 1_000_000
    assert not (tmp_path / "data.bin").exists()
    kind.limit = 1 << 40
    fetch(f"{address}/data.bin", tmp_path / "data.bin", checksum=CHECKSUM)
    assert kind.asked[-1] == "bytes=1000000-"
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_again(tmp_path, shop):
    kind, address = shop
    kind.knows_ranges = False
    (tmp_path / "data.bin.part").write_bytes(b"something else")
    fetch(f"{address}/data.bin", tmp_path / "data.bin", checksum=CHECKSUM)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_complete_part_only_needs_its_name(tmp_path, shop):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    fetch(f"{shop[1]}/data.bin", tmp_path / "data.bin", checksum=CHECKSUM)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(tmp_path, shop):
    with pytest.raises(DataError, match="does not have the checksum"):
        fetch(f"{shop[1]}/data.bin", tmp_path / "data.bin", checksum="sha256:" + "0" * 64)
    assert list(tmp_path.iterdir()) == []


def packed(members: dict[str, bytes], kind: str = "tar", **facts: object) -> bytes:
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in facts.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_a_named_set_is_downloaded_unpacked_and_opened(tmp_path, shop, monkeypatch):
    kind, address = shop
    record = np.zeros((2, 3074), dtype=np.uint8)
    archive = packed({"cifar-100-binary/train.bin": record.tobytes(), "cifar-100-binary/readme.html": b"hello"})
    kind.files["/cifar-100-binary.tar.gz"] = archive
    published = PublishedFile(f"{address}/cifar-100-binary.tar.gz", "md5:" + hashlib.md5(archive).hexdigest())
    monkeypatch.setitem(PUBLISHED, "cifar100", (published,))
    assert len(open_source("cifar100:" + str(download("cifar100", tmp_path)))) == 2
    download("cifar100", tmp_path)
    assert len(kind.asked) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cifar-100-binary", "cifar-100-binary.tar.gz"]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_archives_cannot_write_outside(tmp_path, kind):
    home = tmp_path / "home"
    for name in ("../escape.txt", "/tmp/escape_of_archive.txt", "a/../../escape.txt", "..\\escape.txt"):
        (tmp_path / "evil").write_bytes(packed({"fine.txt": b"1", name: b"2"}, kind))
        with pytest.raises(DataError, match="leads out of the archive; nothing was unpacked"):
            unpack(tmp_path / "evil", home)
        assert list(home.iterdir()) == []
    assert not (tmp_path / "escape.txt").exists()


def test_a_place_that_takes_no_file_is_told_in_one_line(tmp_path, shop):
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "data.bin").mkdir()
    for place in (tmp_path / "taken" / "data.bin", tmp_path / "data.bin"):
        with pytest.raises(WriteError, match=r"cannot write .*data\.bin: .*; choose another place"):
            fetch(f"{shop[1]}/data.bin", place, checksum=CHECKSUM)


def test_a_folder_that_was_unpacked_before_is_replaced(tmp_path):
    for content in (b"first", b"second"):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
            packed.writestr(f"inner/{content.decode()}.txt", content)
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["inner", "second.txt"]


def test_links_and_broken_archives_are_refused(tmp_path):
    (tmp_path / "link").write_bytes(packed({"a": b""}, type=tarfile.SYMTYPE, linkname="/etc/passwd"))
    with pytest.raises(DataError, match="a link or device"):
        unpack(tmp_path / "link", tmp_path / "home")
    (tmp_path / "cut").write_bytes(packed({"a": CONTENT})[:100_000])
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(tmp_path / "cut", tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []
    (tmp_path / "fine").write_bytes(packed({"a/b.txt": b"1"}, "zip"))
    unpack(tmp_path / "fine", tmp_path / "home")
    assert (tmp_path / "home" / "a" / "b.txt").read_bytes() == b"1"


def test_mistakes_are_told_in_one_line(tmp_path, shop):
    with pytest.raises(DataError, match="404"):
        fetch(f"{shop[1]}/nothing", tmp_path / "x", checksum=CHECKSUM)
    with pytest.raises(SettingError, match="'md5:' or 'sha256:'"):
        fetch(f"{shop[1]}/data.bin", tmp_path / "x", checksum="abc")
    with pytest.raises(SettingError, match="by http or https"):
        fetch("file:///etc/passwd", tmp_path / "x", checksum=CHECKSUM)
    with pytest.raises(SettingError, match=r"'cifra10' is no data set to download; did you mean cifar10\?"):
        download("cifra10", tmp_path)
    with pytest.raises(SettingError, match="imagenet cannot be downloaded: its terms"):
        download("imagenet", tmp_path)
    with pytest.raises(SettingError, match="verify the file by hand and pass checksum"):
        download("nyu-depth-v2", tmp_path)
    with pytest.raises(SettingError, match="4 files with known checksums"):
        download("fashion-mnist", tmp_path, checksum=CHECKSUM)
    assert not Path(tmp_path / "x").exists()
