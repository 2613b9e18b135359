"""The safety of the page, each promise by somebody who tries to break it, on a real socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eigenview.app.exporting import folder_names
from eigenview.app.session import NONE
from tests.app.places import Client, served, truth_of, write_pictures

HOSTILE = [
    "../../outside",
    "/etc/passwd",
    "..",
    ".",
    "a/../../b",
    "C:\\Windows",
    "con",
    "NUL",
    "<img src=x onerror=alert(1)>",
    "'; rm -rf ~; '",
    "$(touch owned)",
    "é" * 100,
    "-rf",
    ".hidden",
    "a\\b",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    place = tmp_path_factory.mktemp("page")
    with served(write_pictures(place, each=8), out=place / "out") as opened:
        opened.get("/api/questions")
        yield opened


def lines(client: Client) -> int:
    return len(client.page.session.journal.entries)


def test_it_listens_on_this_machine_alone(client: Client):
    named = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    addresses = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    bound = {line[1].split(":")[0] for line in addresses if int(line[1].split(":")[1], 16) == client.port}
    assert bound == {"0100007F"}  # 127.0.0.1, and no other
    for other in named - {"127.0.0.1"}:
        with pytest.raises(OSError):  # noqa: PT011 (refused or unreachable, as the machine has it)
            socket.create_connection((str(other), client.port), timeout=2).close()


def test_without_the_token_nothing_is_shown(client: Client):
    for path in ("/", "/api/state", "/api/names", "/api/spread", "/small/0", "/large/0", "/static/label.js"):
        assert client.send("GET", path).status == 403, path
        assert client.send("GET", path, Cookie="eigenview=guess").status == 403, path
        assert replace(client, home="/").send("GET", path, Cookie=client.cookie).status == 403, (
            path
        )  # only below its path
    assert client.knock("guess").status == 403
    assert client.knock("").status == 403
    assert client.send("GET", "/api/state?token=" + client.tokens.token).status == 403  # at the door alone
    ask = json.dumps({"rows": [0], "label": "amber", "mode": "ask"}).encode()
    own = client.own() | {"Cookie": ""}
    assert client.send("POST", "/api/answer", ask, **own).status == 403


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(client: Client):
    answer = client.knock(client.tokens.token)
    cookie = str(answer.getheader("set-cookie")).lower()
    assert answer.status == 303
    home = str(answer.getheader("location"))
    assert len(home) > 20
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert f"path={home.lower()};" in cookie
    assert client.tokens.token.lower() not in cookie + home.lower()  # what was in the address opens nothing by itself
    assert client.send("GET", "/api/state", Cookie=f"eigenview={client.tokens.token}").status == 403
    for more in (
        f"eigenview=theirs; {client.cookie}",
        f"{client.cookie}; eigenview=theirs",
    ):  # tossed by another server
        assert client.send("GET", "/api/state", Cookie=more).status == 200


def test_the_token_that_a_browser_is_started_with_works_once(client: Client):
    token = client.tokens.once()
    assert client.knock(token).status == 303
    assert client.knock(token).status == 403


def test_a_foreign_name_for_this_machine_is_refused(client: Client):
    """DNS rebinding: the attacker's page asks its own host, which points here, with the cookie or without."""
    for host in ("evil.example", f"evil.example:{client.port}", "127.0.0.1.evil.example", "localhost.evil.example", ""):
        assert client.send("GET", "/api/state", Host=host, Cookie=client.cookie).status == 421, host
    for host in (f"localhost:{client.port}", "localhost:9000", "127.0.0.1:9000"):  # the end of a tunnel
        assert client.send("GET", "/api/state", Host=host, Cookie=client.cookie).status == 200, host


def test_another_page_may_neither_read_nor_write(client: Client):
    ask = json.dumps({"rows": [0], "label": "owned", "mode": "ask"}).encode()
    before = lines(client)
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{client.port}", "http://127.0.0.1:1", "file://"):
        own = client.own() | {"Origin": origin}
        assert client.send("POST", "/api/answer", ask, **own).status == 403, origin
        assert client.send("GET", "/api/names", Cookie=client.cookie, Origin=origin).status == 403, origin
    without = {name: value for name, value in client.own().items() if name != "Origin"}
    assert client.send("POST", "/api/answer", ask, **without).status == 403
    for site in ("cross-site", "same-site"):
        fetched = {"Cookie": client.cookie, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert client.send("GET", "/small/0", **fetched).status == 403
    assert lines(client) == before


def test_a_form_of_another_page_is_not_understood(client: Client):
    ask = json.dumps({"rows": [0], "label": "owned", "mode": "ask"}).encode()
    before = lines(client)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        own = client.own() | {"Content-Type": kind}
        assert client.send("POST", "/api/answer", ask, **own).status == 415, kind
    assert lines(client) == before


def test_nothing_is_changed_by_looking(client: Client):
    before = lines(client)
    for what in ("answer", "skip", "strike", "undo", "export"):
        query = "rows=0&label=owned&mode=ask&last=0&form=csv&certain=0"
        for method in ("GET", "HEAD"):
            assert client.send(method, f"/api/{what}?{query}", Cookie=client.cookie).status == 405, what
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert client.send(method, f"/api/{what}", b"{}", **client.own()).status == 405, what
    assert lines(client) == before
    assert not client.page.out.exists()


def test_no_file_but_the_pictures_is_served(client: Client):
    for path in (
        "/static/../server.py",
        "/static/..%2f..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/etc/passwd",
        "/small/..%2f..%2fetc%2fpasswd",
        "/small/0.png",
        "/small/-1",
        "/small/1e9",
        "/large/999999",
        "/small/99999999999999999999999999",
        "/api/list/near/../../..",
        "/journal.jsonl",
        "/vectors.npz",
    ):
        answer = client.send("GET", path, Cookie=client.cookie)
        assert answer.status == 404, path
        assert b"root:" not in answer.content  # type: ignore[attr-defined]
    data = client.get("/small/0")
    assert data[:3] == b"\xff\xd8\xff"  # a JPEG of our own, not the file


def test_every_answer_says_what_the_page_may_do(client: Client):
    for path, cookie in (("/", client.cookie), ("/small/0", client.cookie), ("/nothing", client.cookie), ("/", "")):
        answer = client.send("GET", path, Cookie=cookie)
        policy = str(answer.getheader("content-security-policy"))
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.getheader("referrer-policy") == "no-referrer"
        assert answer.getheader("x-content-type-options") == "nosniff"
        assert answer.getheader("server") is None
    assert client.send("GET", "/", Cookie=client.cookie).getheader("cache-control") == "no-store"


def test_what_is_not_understood_is_refused_in_one_line(client: Client):
    before = lines(client)
    for ask in (
        None,
        [],
        {"rows": [0]},
        {"rows": ["0"], "label": "a", "mode": "ask"},
        {"rows": [0.5], "label": "a", "mode": "ask"},
        {"rows": [10**30], "label": "a", "mode": "ask"},
        {"rows": [True], "label": "a", "mode": "ask"},
        {"rows": [-1], "label": "a", "mode": "ask"},
        {"rows": [], "label": "a", "mode": "ask"},
        {"rows": [0], "label": 3, "mode": "ask"},
        {"rows": [0], "label": "a", "mode": "admin"},
        {"rows": [0], "label": "a", "mode": "ask", "path": "/etc"},
        {"rows": [0, 1], "label": "a", "mode": "ask", "had": ["", "", ""]},
        {"rows": [0], "label": "a\x00b", "mode": "ask"},
    ):
        status, content = client.post("/api/answer", ask)
        assert status == 400, (ask, content)
        assert "\n" not in content["error"]
    own = client.own()
    assert client.send("POST", "/api/answer", b"{not json", **own).status == 400
    assert client.send("POST", "/api/answer", b"{}", **(own | {"Content-Length": str(1 << 40)})).status == 413
    assert client.post("/api/export", {"form": "csv", "certain": 0, "out": "/tmp/owned"})[0] == 400
    assert lines(client) == before


def test_class_names_become_no_paths():
    names = folder_names([*HOSTILE, "cat", "Cat", "CAT", NONE])
    assert len(set(map(str.casefold, names.values()))) == len(names)
    for name in names.values():
        assert os.path.basename(name) == name
        assert name not in ("", ".", "..")
        assert not name.startswith((".", "-", " "))
        assert len(name.encode()) <= 70
        assert not set(name) & set('/\\:*?"<>|\0')


def test_exports_stay_in_their_folder_and_overwrite_nothing(tmp_path: Path):
    out = tmp_path / "out"
    (out / "labels-1").mkdir(parents=True)
    (out / "labels-1" / "labels.csv").write_text("mine")
    os.symlink(tmp_path, out / "labels-2")
    with served(write_pictures(tmp_path / "place", each=8), out=out) as client:
        for row, name in enumerate(HOSTILE):
            client.done("answer", rows=[row], label=name, mode="review")
        told = [client.done("export", form=form, certain=0.0)["folder"] for form in ("copies", "links", "csv")]
    assert told == [str(out / f"labels-{number}") for number in (3, 4, 5)]
    assert (out / "labels-1" / "labels.csv").read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == sorted([out, tmp_path / "place"])
    assert sorted(out.iterdir()) == [out / f"labels-{number}" for number in range(1, 6)]
    pictures = [file for file in (out / "labels-3" / "pictures").rglob("*") if not file.is_dir()]
    assert len(pictures) == 24
    assert all(len(file.relative_to(out / "labels-3" / "pictures").parts) == 2 for file in pictures)
    assert not (tmp_path / "owned").exists()
    links = [file for file in (out / "labels-4" / "pictures").rglob("*") if file.is_symlink()]
    assert len(links) == 24
    assert {os.path.dirname(os.readlink(link)) for link in links} == {str(tmp_path / "place" / "photos")}


def test_a_picture_name_and_a_label_reach_the_page_as_text(tmp_path: Path):
    stored = write_pictures(tmp_path, each=8)
    name = "</script><script>alert(1)</script>"
    stored.paths[3] = name
    with served(stored, out=tmp_path / "out") as client:
        client.done("answer", rows=[0], label="<b onclick=alert(2)>", mode="ask")
        assert client.get("/api/names")[3].endswith("script>")
        page = client.get("/")
        assert b"alert(" not in page  # nothing of the user's stands in the page: all comes as JSON, set as text
    scripts = Path(__file__).parents[2] / "src" / "eigenview" / "app" / "static"
    code = subprocess.run(
        ["grep", "-nE", "innerHTML|outerHTML|insertAdjacentHTML|document.write|eval\\(", "-r", str(scripts)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert code.stdout == ""


def test_answers_reach_the_truth(client: Client):
    """The same page serves its own user all the while."""
    state = client.get("/api/questions")
    row = state["queue"][0]
    state = client.done("answer", rows=[row], label=truth_of(row), mode="ask", had=[""])
    assert state["figures"]["by_hand"] == 1
    assert client.post("/api/answer", {"rows": [row], "label": "blue", "mode": "ask", "had": [""]})[0] == 409
    assert client.done("undo", last=state["last"])["figures"]["by_hand"] == 0
