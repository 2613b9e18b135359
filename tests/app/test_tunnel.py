"""The page through a real SSH tunnel, from another port than its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.person import Person
from tests.app.places import served, truth_of, write_pictures
from tests.report.browser import Browser

SSHD, SSH = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"), shutil.which("ssh")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SSHD is None or SSH is None, reason="no sshd (Debian: apt-get install openssh-server)"),
]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def tunnel(folder: Path, to: int) -> Iterator[int]:
    """``ssh -L`` to a server of its own on this machine; the port at the near end."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd of root wants it
    for name in ("host", "person"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    near, far = free_port(), free_port()
    settings = ("StrictModes=no", "UsePAM=no", f"AuthorizedKeysFile={folder / 'person.pub'}", "PermitRootLogin=yes")
    options = [word for setting in settings for word in ("-o", setting)]
    listens = ["-D", "-p", str(far), "-h", str(folder / "host"), "-f", "/dev/null", "-o", "ListenAddress=127.0.0.1"]
    with subprocess.Popen([str(SSHD), *listens, *options]) as server:
        try:
            trust = ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder / 'known'}"]
            words = ["-N", "-F", "/dev/null", *trust, "-i", str(folder / "person"), "-o", "ExitOnForwardFailure=yes"]
            tries = ["-o", "ConnectionAttempts=20", "-L", f"{near}:127.0.0.1:{to}", "-p", str(far), "127.0.0.1"]
            with subprocess.Popen([str(SSH), *words, *tries]) as client:
                try:
                    wait_for(near)
                    yield near
                finally:
                    client.terminate()
        finally:
            server.terminate()


def wait_for(port: int, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while True:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < end, "the tunnel does not open"
        time.sleep(0.2)


def test_a_folder_is_labelled_through_a_tunnel(browser: Browser, tmp_path: Path):
    with (
        served(write_pictures(tmp_path / "place"), out=tmp_path / "out") as client,
        tunnel(tmp_path, client.port) as near,
    ):
        person = Person(browser, client.address.replace(str(client.port), str(near), 1))
        assert browser.run("return location.href") == f"http://127.0.0.1:{near}{client.home}"
        for _ in range(6):
            row = person.asked()
            person.answer(truth_of(row))
            assert client.page.session.standing.said[row] == truth_of(row)
        person.spread()
        for mode in ("map", "review"):
            person.go(mode)
        person.until(lambda: browser.run("return document.querySelector('.tile img')?.naturalWidth"))
        person.export()
        assert (client.page.out / "labels-1" / "labels.csv").is_file()
        assert {address.split("/")[2] for address in browser.requests()} == {f"127.0.0.1:{near}"}
        assert browser.complaints() == []
