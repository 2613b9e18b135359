"""The same with a real PostgreSQL server, which several machines can share; Debian's refuses to run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import free_port
from tests.sweeps.test_workers import assert_resumed, kill_one_of_two

pytest.importorskip("optuna")
pytest.importorskip("psycopg")
pytestmark = pytest.mark.slow


def programs() -> Path | None:
    """Where the server's programs are."""
    listed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "none")]
    return listed[-1].parent if listed[-1].is_file() else None


@pytest.fixture
def address() -> Iterator[str]:
    """A server of this test's own, in a folder of its own."""
    place = programs()
    if place is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    folder, port = Path(tempfile.mkdtemp(prefix="postgresql-")), free_port()
    other = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        other = ["runuser", "-u", "postgres", "--"]

    def call(name: str, *words: str) -> None:
        log = folder.parent / f"{folder.name}.log"
        with log.open("a") as said:  # a file: the server keeps what it is given open
            code = subprocess.run([*other, str(place / name), *words], cwd="/", stdout=said, stderr=said, check=False)
        assert code.returncode == 0, log.read_text()

    data = str(folder / "data")
    call("initdb", "-D", data, "-A", "trust", "-U", "tester")
    call("pg_ctl", "-D", data, "-w", "-o", f"-p {port} -k {folder} -c listen_addresses=127.0.0.1", "start")
    try:
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)
        (folder.parent / f"{folder.name}.log").unlink()


def test_a_killed_workers_trial_is_tried_again_on_postgresql(address, tmp_path):
    assert_resumed(tmp_path, kill_one_of_two(tmp_path, ["--storage", address]))
    assert not (tmp_path / "sweep/study.db").exists()
