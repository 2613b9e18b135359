"""Files that are whole or not there: after a kill at every step, on a full disk, beside planted links."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from eigenview.appending import append_line
from eigenview.errors import DataError, WriteError
from eigenview.files import (
    atomic_folder,
    atomic_path,
    file_digest,
    inside,
    restore_folder,
    write_json,
    write_text,
)
from eigenview.names import slug
from eigenview.tensors import save_tensors
from tests.processes import exit_codes_of

DEAD = 2**22 + 1  # no process has such a number
HERE = slug(socket.gethostname())[-40:]


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_file_takes_its_place_only_when_all_went_well(tmp_path):
    place = tmp_path / "deep" / "er" / "a.txt"
    write_text(place, "first")
    with pytest.raises(RuntimeError, match="half way"):
        half_written(place)
    assert place.read_text() == "first"
    assert hidden(place.parent) == []
    write_text(place, "second")
    assert place.read_text() == "second"
    assert place.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def test_weights_may_be_read_by_whoever_may_read_other_files(tmp_path):
    save_tensors(tmp_path / "a.safetensors", {"weight": torch.ones(2)})
    assert (tmp_path / "a.safetensors").stat().st_mode & 0o777 == 0o666 & ~current_umask()


def half_written(place: Path) -> None:
    with atomic_path(place) as file:
        assert file.suffix == place.suffix
        file.write_text("half")
        raise RuntimeError("half way")


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def fill(place: Path, text: str) -> None:
    with atomic_folder(place) as folder:
        for name in ("a", "b"):
            (folder / name).write_text(text)


def half_filled(place: Path) -> None:
    with atomic_folder(place) as folder:
        (folder / "a").write_text("half")
        raise RuntimeError("half way")


def content(place: Path) -> str:
    """What a reader finds: both files, of one writing."""
    texts = {(restore_folder(place) / name).read_text() for name in ("a", "b")}
    assert len(texts) == 1
    return texts.pop()


def test_a_folder_takes_its_place_only_when_all_went_well(tmp_path):
    place = tmp_path / "folder"
    fill(place, "first")
    with pytest.raises(RuntimeError, match="half way"):
        half_filled(place)
    assert content(place) == "first"
    fill(place, "second")
    assert content(place) == "second"
    assert hidden(tmp_path) == []
    assert place.stat().st_mode & 0o777 == 0o777 & ~current_umask()


KILLED = """
import os, sys
from pathlib import Path
from eigenview.files import atomic_folder, atomic_path

def write_folder(place):
    with atomic_folder(place) as folder:
        for name in "ab":
            (folder / name).write_text("new")

def write_file(place):
    with atomic_path(place) as file:
        file.write_text("new")

root, write = Path(sys.argv[1]), {"folder": write_folder, "file": write_file}[sys.argv[2]]
for step in range(200):
    here = root / str(step)
    if not here.exists():
        break
    child = os.fork()
    if child == 0:
        left = step
        def count(event, arguments):
            global left
            if event.startswith(("os.", "open", "shutil.", "tempfile.")) and event != "os.fork":
                left -= 1
                if left < 0:
                    os._exit(9)
        sys.addaudithook(count)
        write(here / "place")
        os._exit(0)
    print(step, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def killed_at_every_step(root: Path, kind: str) -> Iterator[tuple[Path, bool]]:
    """The folder of each try, and whether it was killed: tries go on until one comes to its end."""
    command = [sys.executable, "-c", KILLED, str(root), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        step, code = line.split()
        yield root / step, {"9": True, "0": False}[code]


@pytest.mark.parametrize("has_old", [True, False])
def test_a_folder_survives_a_kill_at_every_step_and_leftovers_go(tmp_path, has_old):
    for step in range(60):
        (tmp_path / str(step)).mkdir()
        if has_old:
            fill(tmp_path / str(step) / "place", "old")
    tries = list(killed_at_every_step(tmp_path, "folder"))
    assert sum(killed for _, killed in tries) > 10
    assert not tries[-1][1]  # there are enough steps to come to the end
    seen = []
    for folder, killed in tries:
        place = folder / "place"
        if has_old or restore_folder(place).exists():
            seen.append(content(place))
            assert seen[-1] == "new" or killed
        fill(place, "again")
        assert content(place) == "again"
        assert hidden(folder) == []
    assert seen == sorted(seen, reverse=has_old)  # old up to some step, new from then on
    assert set(seen) == ({"old", "new"} if has_old else {"new"})


@pytest.mark.parametrize("has_old", [True, False])
def test_a_file_survives_a_kill_at_every_step_and_leftovers_go(tmp_path, has_old):
    for step in range(40):
        (tmp_path / str(step)).mkdir()
        if has_old:
            write_text(tmp_path / str(step) / "place", "old")
    tries = list(killed_at_every_step(tmp_path, "file"))
    assert sum(killed for _, killed in tries) > 5
    assert not tries[-1][1]
    for folder, killed in tries:
        place = folder / "place"
        if has_old or place.exists():
            assert place.read_text() == "new" or (killed and place.read_text() == "old")
        write_text(place, "again")
        assert hidden(folder) == []


def test_what_a_living_process_or_another_machine_is_writing_stays(tmp_path):
    stays = [f".a.json.{HERE}-{os.getpid()}-x.json", f".b.json.{HERE}-{DEAD}-x.json", ".a.json.old"]
    stays += [f".a.json.elsewhere-{DEAD}-x.json", f".a.json.{DEAD}-x.json"]
    for name in (*stays, f".a.json.{HERE}-{DEAD}-x.json"):
        (tmp_path / name).write_text("half")
    (tmp_path / f".a.json.{HERE}-{DEAD}-folder").mkdir()
    write_json(tmp_path / "a.json", {})
    assert hidden(tmp_path) == sorted(stays)


def test_a_file_never_takes_the_place_of_a_folder(tmp_path):
    (tmp_path / "a.json" / "inside").mkdir(parents=True)
    with pytest.raises(WriteError, match=r"cannot write .*a\.json: "):
        write_json(tmp_path / "a.json", {})
    assert (tmp_path / "a.json" / "inside").is_dir()
    assert hidden(tmp_path) == []


def test_a_planted_link_is_replaced_not_followed(tmp_path):
    secret, run = tmp_path / "secret", tmp_path / "run"
    secret.write_text("mine")
    run.mkdir()
    for name in ("config.json", ".config.json.writing", f".config.json.{HERE}-{DEAD}-x"):
        (run / name).symlink_to(secret)
    write_text(run / "config.json", "theirs")
    assert secret.read_text() == "mine"
    assert not (run / "config.json").is_symlink()
    assert (run / "config.json").read_text() == "theirs"
    assert not (run / f".config.json.{HERE}-{DEAD}-x").exists()


@pytest.mark.parametrize("name", ["sample", ".sample.old", f".sample.{DEAD}-x"])
def test_a_planted_link_to_a_folder_leads_nowhere(tmp_path, name):
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    (outside / "kept").write_text("mine")
    run.mkdir()
    (run / name).symlink_to(outside)
    fill(run / "sample", "new")
    fill(run / "sample", "newer")
    assert (outside / "kept").read_text() == "mine"
    assert sorted(path.name for path in outside.iterdir()) == ["kept"]
    assert content(run / "sample") == "newer"
    assert not (run / "sample").is_symlink()


@pytest.mark.parametrize("name", ["n" * 251 + ".txt", "ü" * 120 + ".txt", "[a]*?.txt", " .txt", "-rf"])
def test_any_name_that_a_file_can_have_will_do(tmp_path, name):
    write_text(tmp_path / name, "first")
    write_text(tmp_path / name, "second")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "second"


def test_a_place_that_cannot_be_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot write .*file/x\.json: a file is in the place of its folder"):
        write_json(tmp_path / "file" / "x.json", {})
    with pytest.raises(DataError, match=r"cannot write .*: File name too long"):
        write_text(tmp_path / ("n" * 300), "")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(DataError, match=r"cannot write .*folder: "):
        write_text(tmp_path / "folder", "text")
    assert hidden(tmp_path) == []


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_one_line_and_what_was_there_stays(tiny_disk):
    import torch

    from eigenview.tensors import save_torch

    write_text(tiny_disk / "old.txt", "old")
    fill(tiny_disk / "folder", "old")
    large = torch.zeros(1 << 16)

    def tensors(file: Path) -> None:
        save_tensors(file, {"large": large})

    def whole(file: Path) -> None:
        save_torch(file, {"large": large})

    def text(file: Path) -> None:
        file.write_text("n" * (1 << 18))

    def file(write: Callable[[Path], None]) -> None:
        with atomic_path(tiny_disk / "old.txt") as beside:
            write(beside)

    def folder(write: Callable[[Path], None]) -> None:
        with atomic_folder(tiny_disk / "folder") as beside:
            (beside / "a").write_text("half")
            write(beside / "b")

    for write in (tensors, whole, text):
        with pytest.raises(DataError, match=r"cannot write .*old\.txt: No space left on device"):
            file(write)
        with pytest.raises(DataError, match=r"cannot write .*folder: No space left on device"):
            folder(write)
        assert (tiny_disk / "old.txt").read_text() == "old"
        assert content(tiny_disk / "folder") == "old"
        assert hidden(tiny_disk) == []  # the disk has its room back
    write_text(tiny_disk / "old.txt", "new")


def test_a_link_out_of_a_folder_is_told_from_one_within(tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "a.json").write_text("{}")
    (tmp_path / "secret").write_text("mine")
    (run / "within").symlink_to("a.json")
    (run / "out").symlink_to(tmp_path / "secret")
    (run / "loop").symlink_to("loop")
    assert inside(run, "within").read_text() == "{}"
    assert inside(run, "missing") == run / "missing"
    for name in ("out", "../secret", str(tmp_path / "secret")):
        with pytest.raises(DataError, match=r"is a link that leads out of .*run; it is not followed"):
            inside(run, name)
    with pytest.raises(DataError, match="link"):
        inside(run, "loop")
    linked = tmp_path / "linked"
    linked.symlink_to(run)
    assert inside(linked, "a.json").read_text() == "{}"  # the user's own link to the folder is


def test_a_digest_is_sha256(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert file_digest(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_line_is_added_to_a_file_but_never_through_a_link(tmp_path):
    place = tmp_path / "metrics.jsonl"
    append_line(place, "first ü")
    append_line(place, "half a \udce9")
    assert place.read_text(encoding="utf-8").splitlines() == ["first ü", r"half a \udce9"]
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(DataError, match=r"cannot write .*link: "):
        append_line(tmp_path / "link", "third")
    with pytest.raises(DataError, match=r"cannot write .*none/a: No such file"):
        append_line(tmp_path / "none" / "a", "third")
    assert len(place.read_text().splitlines()) == 2


def fill_often(rank: int, place: str) -> None:
    for _ in range(100):
        fill(Path(place), f"of {rank}")


def test_two_processes_that_fill_one_folder_leave_it_whole(tmp_path):
    assert exit_codes_of(2, fill_often, str(tmp_path / "folder")) == [0, 0]
    assert content(tmp_path / "folder") in ("of 0", "of 1")
    assert hidden(tmp_path) == []
