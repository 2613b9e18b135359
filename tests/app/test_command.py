"""The command from a folder of pictures to labels, with the browser and the server killed in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenview.app.gate import Tokens
from eigenview.app.session import Session
from eigenview.labels import spread_labels
from eigenview.labels.label_files import read_labels
from eigenview.search import open_embeddings
from tests.app.command import labelling
from tests.app.person import Person
from tests.app.places import Client, write_pictures
from tests.cli.commands import ENVIRONMENT, eigenview, succeeded, write_photos
from tests.labels.vectors import read_rows
from tests.report.browser import Browser, missing
from tests.training.runs import run_quietly
from tests.training.test_words import COLOURS, given, table

OPTIONS = ("photos", "--encoder", "small", "--size", "16", "--classes", "gulls", "ïles")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_photos(tmp_path / "photos", each=16)
    return tmp_path


def place_of(shop: Path) -> Path:
    (place,) = (shop / "runs").glob("*/embeddings.parquet")
    return place


def test_a_folder_is_labelled_through_kills_of_browser_and_server(shop: Path, tmp_path_factory: pytest.TempPathFactory):
    if missing() is not None:
        pytest.skip(str(missing()))
    said: dict[int, str] = {}
    with labelling(*OPTIONS, folder=shop) as server:
        assert "embedding" in server.said or "kept in" in server.said
        stored = open_embeddings(place_of(shop))

        def answer(person: Person, count: int) -> None:
            for _ in range(count):
                row = person.asked()
                name = Path(stored.paths[row]).parent.name
                said[person.answer(name)] = name

        browser = Browser(tmp_path_factory.mktemp("first"))
        answer(Person(browser, server.address), 4)
        browser.kill()
        browser = Browser(tmp_path_factory.mktemp("second"))
        try:
            person = Person(browser, server.address)
            assert person.text("by-hand") == "4"
            answer(person, 3)
            asked = person.asked()
            server.kill()
            browser.press("1")
            person.until(lambda: "does not answer" in person.text("gone"))
            assert "Not saved" in person.text("said")
            with labelling(*OPTIONS, folder=shop) as second:
                assert "(7 so far)" in second.said
                person = Person(browser, second.address)
                assert person.text("by-hand") == "7"
                assert person.asked() == asked  # what was not said to be saved is asked again
                answer(person, 3)
                person.export()
        finally:
            browser.close()
    (folder,) = shop.glob("labels-*/labels-1")
    given = read_labels(folder / "answers.csv", stored)
    assert {row: given.classes[int(given.labels[row])] for row in said} == said
    assert given.count == len(said) == 10
    spread = spread_labels(stored, given)
    table = read_rows(folder / "labels.csv")
    assert [row["label"] for row in table] == spread.labels
    truth = [Path(path).parent.name for path in stored.paths]
    assert np.mean([row["label"] == name for row, name in zip(table, truth, strict=True)]) > 0.9
    words = ["spread", str(place_of(shop)), "--labels", str(folder / "answers.csv"), "-o", "same.csv"]
    succeeded(eigenview(*words, folder=shop))
    assert (shop / "same.csv").read_text() == (folder / "labels.csv").read_text()


def client_of(address: str) -> Client:
    tokens, (front, token) = Tokens(), address.split("/?token=")
    tokens.token = token
    client = Client(int(front.rpartition(":")[2]), tokens, None)  # type: ignore[arg-type]  # it is elsewhere
    client.enter()
    return client


def test_a_table_and_a_run_that_knows_words(tmp_path: Path):
    source = table(tmp_path / "good.parquet")
    run_quietly(given(source, tmp_path / "run", steps=60, optimizer={"name": "adamw", "learning_rate": 3e-3}))
    with labelling("run", folder=tmp_path) as server:
        client = client_of(server.address)
        assert client.get("/api/state")["has_words"]
        for number, colour in enumerate(COLOURS):
            rows = client.get(f"/api/list/text?about=a%20{colour}%20thing")["rows"]
            assert [row % 4 for row in rows[:12]].count(number) >= 10
    with labelling("good.parquet", "--encoder", "small", "--size", "16", folder=tmp_path) as server:
        client = client_of(server.address)
        state = client.get("/api/questions")
        assert not state["has_words"]
        assert len(state["queue"]) == 10
        assert client.get("/large/3")[:3] == b"\xff\xd8\xff"
        for row in range(8):
            client.done("answer", rows=[row], label=str(row % 4), mode="review")
        told = client.done("export", form="copies", certain=0.0)
        assert told["pictures"] == 48
        assert client.post("/api/export", {"form": "links", "certain": 0.0})[0] == 400  # rows of a table are no files
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=60) == 130
    assert len(list(Path(told["folder"]).glob("pictures/*/*.png"))) == 48
    assert "every answer is kept" in (tmp_path / "label.log").read_text()
    (place,) = Path(told["folder"]).parent.iterdir()  # the export that was refused left nothing
    assert place == Path(told["folder"])


def test_labels_that_are_there_are_doubted_and_corrected(shop: Path):
    (shop / "photos" / "gulls" / "picture 03.png").rename(shop / "photos" / "ïles" / "moved.png")
    with labelling("photos/?labelled=yes", *OPTIONS[1:5], "--audit", folder=shop) as server:
        assert "there already: 33 " in server.said
        client = client_of(server.address)
        assert client.get("/api/state")["figures"]["before"] == 33
        moved = next(row for row, name in enumerate(client.get("/api/names")) if "moved" in name)
        doubted = client.get("/api/list/suspects")
        assert doubted["rows"][0] == moved
        assert doubted["notes"][str(moved)] == "gulls"
        client.done("answer", rows=[moved], label="gulls", mode="review", had=["ïles"])
        folder = Path(client.done("export", form="csv", certain=0.0)["folder"])
    labels = {Path(row["name"]).name: row["label"] for row in read_rows(folder / "labels.csv")}
    assert labels["moved.png"] == "gulls"
    assert [row["label"] for row in read_rows(folder / "answers.csv")] == ["gulls"]
    with labelling("photos", *OPTIONS[1:5], "--labels", str(folder / "answers.csv"), folder=shop) as server:
        assert client_of(server.address).get("/api/state")["figures"]["before"] == 1


IN_PYTHON = """
import sys
import eigenview as ev
try:
    ev.open_embeddings(sys.argv[1]).label(labels={0: "amber"}, classes=["coral"], browser=False)
except KeyboardInterrupt:
    print("over", flush=True)
"""


def test_the_page_is_opened_from_python(tmp_path: Path):
    stored = write_pictures(tmp_path / "place", each=8)
    words = [sys.executable, "-u", "-c", IN_PYTHON, str(stored.place)]
    with subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        client = client_of(process.stdout.readline().strip())
        state = client.done("answer", rows=[1], label="blue", mode="ask", had=[""])
        assert [kind["name"] for kind in state["classes"]] == ["amber", "coral", "blue"]
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "over\n"
    session = Session(stored.place.with_name(f"{stored.place.name}.labelling"), stored)
    assert session.standing.said == {1: "blue"}
    session.close()


def test_what_cannot_be_labelled_is_one_line(shop: Path):
    with labelling(*OPTIONS, folder=shop) as server:
        port = server.address.partition("0.1:")[2].partition("/")[0]
        for words, said in {
            OPTIONS: "is being written by process",
            (*OPTIONS, "--session", "other", "--port", port): f"cannot listen on port {port}",
            (*OPTIONS, "--session", "other", "--audit"): "has no labels",
            ("nowhere",): "nowhere",
            ("photos", "--source", "photos"): "--source is for a run or a file of vectors",
        }.items():
            answer = eigenview("label", *words, "--no-browser", folder=shop)
            assert answer.returncode == 2, answer
            (line,) = [line for line in answer.stderr.splitlines() if line.startswith("eigenview: ")]
            assert said in line
