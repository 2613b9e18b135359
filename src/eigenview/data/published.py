"""Published data sets fetched by name: checked, resumed where a connection broke, moved into place when complete."""

import http.client
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from eigenview.data.failures import blamed_on
from eigenview.data.places import escapes
from eigenview.errors import DataError, SettingError
from eigenview.files import explained, file_digest, move_into_place
from eigenview.names import Table, printable
from eigenview.progress import progress_bar

ATTEMPTS = 5  # connections, each going on where the last one broke
TIMEOUT = 60.0  # seconds without a byte
PIECE = 1 << 20


@dataclass(frozen=True)
class PublishedFile:
    """``checksum`` is "md5:…" or "sha256:…"; None where we know none: then the user must give one."""

    url: str
    checksum: str | None
    is_archive: bool = True


_CIFAR = "https://www.cs.toronto.edu/~kriz"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

PUBLISHED: Table[tuple[PublishedFile, ...]] = Table(
    "data set to download",
    {
        "cifar10": (PublishedFile(f"{_CIFAR}/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"),),
        "cifar100": (PublishedFile(f"{_CIFAR}/cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8"),),
        "stl10": (
            PublishedFile(
                "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", "md5:91f7769df0f17e558f3565bffb0c7dfb"
            ),
        ),
        "fashion-mnist": tuple(
            PublishedFile(f"{_FASHION}/{name}-ubyte.gz", f"md5:{checksum}", is_archive=False)
            for name, checksum in (
                ("train-images-idx3", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1", "bb300cfdad3c16e7a12a480ee83cd310"),
            )
        ),
        "tiny-imagenet": (
            PublishedFile("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de"),
        ),
        "nyu-depth-v2": (  # no checksum is known to us: verify the file by hand and pass it
            PublishedFile(
                "http://horatio.cs.nyu.edu/mit/silberman/nyu_depth_v2/nyu_depth_v2_labeled.mat", None, is_archive=False
            ),
        ),
    },
)


def download(name: str, directory: str | Path, *, checksum: str | None = None, shows_progress: bool = True) -> Path:
    """Fetch the data set ``name`` into ``directory`` and unpack it there; returns the directory.

    What is there and whole is not fetched again. ``checksum`` is needed where none is known (nyu-depth-v2), and takes
    the place of ours for sets of one file. ImageNet's terms do not allow this: get it from image-net.org.
    """
    if name == "imagenet":
        raise SettingError("imagenet cannot be downloaded: its terms ask you to get it from image-net.org")
    files = PUBLISHED.find(name)
    if checksum is not None and len(files) > 1:
        raise SettingError(f"{name} has {len(files)} files with known checksums; leave checksum out")
    directory = Path(directory)
    for published in files:
        expected = checksum if checksum is not None else published.checksum
        if expected is None:
            raise SettingError(
                f"no checksum is known for {published.url}: verify the file by hand and pass checksum='sha256:...'"
            )
        path = directory / urlsplit(published.url).path.rsplit("/", 1)[-1]
        fetch(published.url, path, checksum=expected, shows_progress=shows_progress)
        if published.is_archive:
            unpack(path, directory)
    return directory


def fetch(url: str, path: str | Path, *, checksum: str, shows_progress: bool = True) -> None:
    """Download ``url`` to ``path``. A broken-off download is continued from ``path.part``, now or in a later call.

    ``path`` appears only complete and with the right checksum. What turns out wrong is thrown away.
    """
    path = Path(path)
    _parsed(checksum)
    if urlsplit(url).scheme not in ("http", "https"):
        raise SettingError(f"downloads are by http or https; got {url}")
    if path.is_file() and _has_checksum(path, checksum):
        return
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    arrived = path.with_name(path.name + ".part")
    for _ in range(ATTEMPTS):
        last = _try_to_continue(url, arrived, shows_progress)
        if last is None:
            break
    else:
        raise DataError(f"{url} broke off {ATTEMPTS} times ({last}); what arrived is kept, call again to go on")
    if not _has_checksum(arrived, checksum):
        arrived.unlink()
        raise DataError(
            f"{url} does not have the checksum {checksum}: the file was thrown away; try again, or verify it"
        )
    move_into_place(arrived, path)


def _try_to_continue(url: str, arrived: Path, shows_progress: bool) -> Exception | None:
    """Read on from where ``arrived`` ends; None when the end is reached, otherwise what broke."""
    held = arrived.stat().st_size if arrived.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={held}-"} if held else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            is_continued = response.status == 206
            rest = response.headers.get("Content-Length")
            done = held if is_continued else 0
            total = None if rest is None else int(rest) + done
            bar = progress_bar(arrived.stem, total=total, done=done, in_bytes=True, shown=shows_progress)
            with arrived.open("ab" if is_continued else "wb") as file, bar as advance:
                while piece := response.read(PIECE):
                    file.write(piece)
                    advance(len(piece))
        if total is not None and arrived.stat().st_size < total:
            return http.client.IncompleteRead(b"", total - arrived.stat().st_size)
        return None
    except urllib.error.HTTPError as error:
        if error.code == 416 and held:  # nothing after the last byte: it was complete, or is another file's part
            return None
        if error.code < 500:
            raise DataError(f"{url} cannot be downloaded: {error.code} {error.reason}") from error
        return error
    except (OSError, http.client.HTTPException) as error:
        return error


def _parsed(checksum: str) -> tuple[str, str]:
    kind, _, digits = checksum.partition(":")
    if kind not in ("md5", "sha256") or len(digits) != {"md5": 32, "sha256": 64}[kind]:
        raise SettingError(f"a checksum is 'md5:' or 'sha256:' and its digits; got {checksum!r}")
    return kind, digits.lower()


def _has_checksum(path: Path, checksum: str) -> bool:
    kind, digits = _parsed(checksum)
    with blamed_on(path):
        return file_digest(path, kind) == digits


Member = tuple[str, IO[bytes] | None]  # a name and its content; None for a folder


def unpack(archive: str | Path, directory: str | Path) -> None:
    """Unpack a .tar(.gz) or .zip into ``directory``: first aside, then moved into place when all of it is there.

    Members that are already there are replaced. A name that leads out, a link or a device ends it with nothing moved.
    """
    archive, directory = Path(archive), Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=directory))
    try:
        with _members(archive) as members:
            for name, content in members:
                _write(aside, name, content, archive)
        for path in sorted(aside.iterdir()):
            move_into_place(path, directory / path.name)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{printable(archive)} cannot be unpacked: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write(aside: Path, name: str, content: IO[bytes] | None, archive: Path) -> None:
    if escapes(name):
        raise DataError(
            f"{printable(archive)} holds {name!r}, a path that leads out of the archive; nothing was unpacked"
        )
    target = aside / name
    if content is None:
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            yield ((facts.filename, None if facts.is_dir() else packed.open(facts)) for facts in packed.infolist())
    else:
        with tarfile.open(archive, "r:*") as unrolled:
            yield _tar_members(unrolled, archive)


def _tar_members(unrolled: tarfile.TarFile, archive: Path) -> Iterator[Member]:
    for facts in unrolled:
        if facts.isdir():
            yield facts.name, None
        elif facts.isreg():
            yield facts.name, unrolled.extractfile(facts)
        else:
            raise DataError(f"{printable(archive)} holds {facts.name!r}, a link or device; nothing was unpacked")
