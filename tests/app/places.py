"""Pictures of three colours with their vectors, and the page about them on a real socket of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from PIL import Image

from eigenview.app.gate import Tokens
from eigenview.app.journal import Entry
from eigenview.app.server import Page
from eigenview.app.serving import listening, opened_page, server_of
from eigenview.app.session import standing_places
from eigenview.app.thinking import ROUND
from eigenview.labels import choose_images
from eigenview.labels.label_files import numbered
from eigenview.search import Embeddings, open_embeddings

CLASSES = ("amber", "blue", "coral")
COLOURS = ((230, 160, 30), (40, 80, 220), (240, 120, 100))


def write_pictures(folder: Path, *, each: int = 20, seed: int = 0) -> Embeddings:
    """``photos/NNN.png``, of the colour of its class, and ``vectors.npz`` of them: three clouds that touch."""
    random = np.random.default_rng(seed)
    truth = np.arange(len(CLASSES) * each) % len(CLASSES)
    (folder / "photos").mkdir(parents=True)
    names = []
    for row, kind in enumerate(truth):
        noise = random.integers(-25, 25, (24, 32, 3))
        pixels = np.clip(np.array(COLOURS[kind]) + noise, 0, 255).astype(np.uint8)
        file = folder / "photos" / f"{row:03d}.png"
        Image.fromarray(pixels).save(file)
        names.append(str(file))
    rows = (2 * np.eye(8)[truth] + 0.6 * random.normal(size=(len(truth), 8))).astype(np.float32)
    np.savez(folder / "vectors.npz", x=rows, names=np.array(names))
    return open_embeddings(folder / "vectors.npz")


def truth_of(row: int) -> str:
    return CLASSES[row % len(CLASSES)]


def check_questions(entries: list[Entry], stored: Embeddings, *, seed: int = 0) -> int:
    """Every choice is what ``choose`` gives for the answers until then; how many there were."""
    places = [place for place, entry in enumerate(entries) if entry.do == "ask"]
    for place in places:
        entry = entries[place]
        said, apart = _settled(entries[: entry.after])
        given = numbered(said, len(stored)) if said else None
        count = min(ROUND + 1 + len(apart), len(stored) - len(said))
        rows = choose_images(stored, count, given=given, seed=seed).rows
        said, apart = _settled(entries[:place])
        left_out = {*said, *apart, *entry.rows[: entry.stays]}
        assert entry.stays <= 1
        assert entry.rows[entry.stays :] == tuple(row for row in rows if row not in left_out)[:ROUND], place
    return len(places)


def _settled(entries: list[Entry]) -> tuple[dict[int, str], set[int]]:
    """Answers, and what was skipped."""
    kept = [entries[place] for place in standing_places(entries)]
    assert {entry.do for entry in kept} <= {"ask", "answer", "skip"}
    said = {row: entry.label for entry in kept if entry.do == "answer" for row in entry.rows}
    return said, {row for entry in kept if entry.do == "skip" for row in entry.rows}


@dataclass
class Client:
    """Talks to the server as a browser, or as somebody who pretends to be one."""

    port: int
    tokens: Tokens
    page: Page
    cookie: str = ""
    home: str = "/"  # the path that the page lives under

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.tokens.token}"

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> HTTPResponse:
        """One request below the page's path, with these headers and what none can do without; its body is read."""
        line = HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        line.putrequest(
            method,
            self.home[:-1] + path,
            skip_host="host" in {name.lower() for name in given},
            skip_accept_encoding=True,
        )
        for name, value in given.items():
            line.putheader(name, value)
        if body is not None and "content-length" not in {name.lower() for name in given}:
            line.putheader("Content-Length", str(len(body)))
        line.endheaders(body)
        answer = line.getresponse()
        answer.content = answer.read()  # type: ignore[attr-defined]
        line.close()
        return answer

    def enter(self) -> None:
        """Exchange the token for the cookie."""
        answer = self.knock(self.tokens.token)
        assert answer.status == 303
        self.home = str(answer.getheader("location"))
        self.cookie = str(answer.getheader("set-cookie")).partition(";")[0]

    def knock(self, token: str, **headers: str) -> HTTPResponse:
        """At the door, by the address that was printed."""
        return replace(self, home="/").send("GET", f"/?token={token}", **headers)

    def own(self) -> dict[str, str]:
        """Headers of the page itself."""
        return {"Cookie": self.cookie, "Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        answer = self.send("GET", path, Cookie=self.cookie)
        assert answer.status == 200, (path, answer.status, answer.content)  # type: ignore[attr-defined]
        content: bytes = answer.content  # type: ignore[attr-defined]
        return json.loads(content) if "json" in str(answer.getheader("content-type")) else content

    def post(self, path: str, ask: object) -> tuple[int, Any]:
        answer = self.send("POST", path, json.dumps(ask).encode(), **self.own())
        return answer.status, json.loads(answer.content)  # type: ignore[attr-defined]

    def done(self, what: str, **ask: object) -> Any:
        status, content = self.post(f"/api/{what}", ask)
        assert status == 200, content
        return content


@contextmanager
def served(stored: Embeddings, **options: Any) -> Iterator[Client]:
    """The page of embeddings on a free port."""
    with opened_page(stored, **options) as page, listening(0) as sock:
        tokens = Tokens()
        server = server_of(page, tokens)
        thread = Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        client = Client(sock.getsockname()[1], tokens, page)
        client.enter()
        try:
            yield client
        finally:
            server.should_exit = True
            thread.join(timeout=30)
