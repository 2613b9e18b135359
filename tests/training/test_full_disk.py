"""A disk that fills up while a run is trained: one line, nothing half-written, every earlier checkpoint whole."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenview.errors import EigenviewError
from eigenview.runs import RunDirectory
from tests.cli.commands import eigenview
from tests.training.runs import run_on, run_quietly, settings

SIZE = 4 << 20  # bytes of the disk
LEFT = [0, 1, 12, 40, 200, 700]  # kB that are still free when the run goes on; it wants about a megabyte


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, as root can have one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Images as large as 24 kB together, three of which cannot be read."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for number in range(40):
        Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(folder / f"{number:02d}.png")
    for number in range(3):
        (folder / f"broken {number} {'name ' * 30}.png").write_bytes(b"no picture")
    return folder


def options(out, photos):
    given = settings("simclr", out, source=str(photos), batch_size=8, steps=None, epochs=2, keep_every=1)
    return {**given, "tensorboard": True}


def leave(disk: Path, room: int) -> None:
    """Fill the disk up to ``room`` bytes."""
    free = shutil.disk_usage(disk).free
    (disk / "ballast").write_bytes(bytes(max(0, free - room)))


def hidden(folder: Path) -> list[str]:
    """What is in the middle of being written, or was left so."""
    return [path.name for path in folder.rglob(".*") if path.name != ".lock"]


def contents(run: RunDirectory) -> dict[str, int]:
    return {name: run.checkpoints.load(name).state["progress"]["step"] for name in run.checkpoints.names()}


@pytest.mark.parametrize("room", LEFT)
def test_a_run_on_a_full_disk_ends_in_one_line_and_goes_on_once_there_is_room(disk, photos, room):
    run = run_quietly({**options(disk / "run", photos), "epochs": 1})
    before = contents(run)
    leave(disk, 1024 * room)
    with pytest.raises(EigenviewError, match="No space left on device") as caught:
        run_quietly({**options(disk / "run", photos), "epochs": 4}, resume=True, looks_back=True)
    assert "\n" not in str(caught.value)
    assert hidden(run.folder) == []
    after = contents(run)
    assert before.keys() <= after.keys()
    assert after["last"] >= before["last"]
    assert all(line["step"] for line in run.metrics.lines)
    (disk / "ballast").unlink()
    finished = run_quietly({**options(disk / "run", photos), "epochs": 4}, resume=True, looks_back=True)
    assert [step for step, _ in finished.metrics.series("loss")] == list(range(1, 21))
    assert len(finished.sample().names) == 40  # three cannot be read


@pytest.mark.parametrize("room", [0, 8, 100])
def test_a_run_that_begins_on_a_full_disk_ends_in_one_line(disk, photos, room):
    leave(disk, 1024 * room)
    with pytest.raises(EigenviewError, match="No space left on device") as caught:
        run_quietly(options(disk / "run", photos), looks_back=True)
    assert "\n" not in str(caught.value)
    assert hidden(disk) == []
    (disk / "ballast").unlink()
    run_on(options(disk / "run", photos))


def test_the_command_says_it_in_one_line(disk, photos):
    leave(disk, 100 << 10)
    arguments = ["--epochs", "2", "--batch-size", "8", "--workers", "0", "--encoder", "small", "--out", "run"]
    answer = eigenview("train", str(photos), *arguments, folder=disk)
    assert answer.returncode == 2
    said = [line for line in answer.stderr.splitlines() if line.startswith("eigenview: ")]
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert "Traceback" not in answer.stderr
