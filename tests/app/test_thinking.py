"""What the page asks and exports is what ``choose`` and ``spread`` say to the same answers."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
import torch

from eigenview.app import thinking
from eigenview.app.journal import Entry
from eigenview.app.session import standing_places
from eigenview.labels import choose_images, kept_graph, spread_labels
from eigenview.labels.label_files import GivenLabels, numbered, read_labels
from eigenview.labels.live import LiveLabels
from eigenview.search import Embeddings
from tests.app.places import CLASSES, Client, check_questions, served, truth_of, write_pictures
from tests.labels.vectors import read_rows


@pytest.fixture
def stored(tmp_path: Path) -> Embeddings:
    return write_pictures(tmp_path / "place", each=30)


def answer_truly(client: Client, count: int, skips: int = 0) -> list[int]:
    """As a patient person: each answer is spread, and the questions chosen by it, before the next is given."""
    asked = []
    for number in range(count):
        state = client.get("/api/questions")
        row = state["queue"][0]
        if number < skips:
            state = client.done("skip", rows=[row])
        else:
            state = client.done("answer", rows=[row], label=truth_of(row), mode="ask", had=[""])
        asked.append(row)
        client.get(f"/api/spread?turn={state['turn']}")
        client.get("/api/questions?newest")
    return asked


def said_by(entries: list[Entry], rows: int) -> GivenLabels:
    kept = [entries[place] for place in standing_places(entries)]
    return numbered({row: entry.label for entry in kept if entry.do == "answer" for row in entry.rows}, rows)


def test_questions_are_those_of_choose_and_labels_those_of_spread(stored: Embeddings, tmp_path: Path):
    with served(stored, out=tmp_path / "out", seed=3) as client:
        asked = answer_truly(client, 30, skips=2)
        told = client.done("export", form="csv", certain=0.0)
        entries = client.page.session.journal.entries
        figures = client.get("/api/state")["figures"]
    assert tuple(asked[:2]) == choose_images(stored, 2, seed=3).rows
    assert check_questions(entries, stored, seed=3) == 29  # at first, and after every answer
    for place, entry in enumerate(entries):
        if entry.do == "answer":  # the first of those that were chosen by all answers but the last
            chosen = [known for known in entries[:place] if known.do == "ask"][-1]
            assert entry.rows[0] == next(row for row in chosen.rows if row not in asked[:2])
    given = said_by(entries, len(stored))
    spread = spread_labels(stored, given)
    table = read_rows(Path(told["folder"]) / "labels.csv")
    assert [row["label"] for row in table] == spread.labels
    assert [float(row["probability"]) for row in table] == [float(f"{p:.6g}") for p in spread.probability.tolist()]
    own = read_labels(Path(told["folder"]) / "answers.csv", stored)
    assert torch.equal(own.labels, given.labels)
    assert own.classes == given.classes == CLASSES
    answers = [entry for entry in entries if entry.do == "answer"]
    tried = [
        entry
        for number, entry in enumerate(answers)
        if entry.predicted and entry.label in {before.label for before in answers[:number]}
    ]
    assert figures["tried"] == len(tried) >= 20
    assert figures["accuracy"] == np.mean([entry.predicted == entry.label for entry in tried])
    assert figures["low"] < figures["accuracy"] <= figures["high"]


def test_labels_are_spread_before_the_next_are_chosen(
    stored: Embeddings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with served(stored, out=tmp_path / "out") as client:
        answer_truly(client, 4)
        thinking, may, began = client.page.thinking, Event(), Event()
        spread = thinking._spread

        def held() -> None:
            began.set()
            may.wait(60)
            spread()

        def choices() -> int:
            return sum(entry.do == "ask" for entry in client.page.session.journal.entries)

        monkeypatch.setattr(thinking, "_spread", held)
        before = choices()
        row = client.get("/api/questions")["queue"][0]
        client.done("answer", rows=[row], label=truth_of(row), mode="ask", had=[""])
        assert began.wait(60)
        time.sleep(0.5)  # long enough to choose of 90 pictures
        assert choices() == before
        may.set()
        client.get("/api/questions?newest")
        assert choices() == before + 1


def test_what_the_page_shows_follows_every_answer_and_undo(stored: Embeddings, tmp_path: Path):
    with served(stored, out=tmp_path / "out", classes=["never used"]) as client:
        answer_truly(client, 12)
        client.done("answer", rows=list(range(60, 75)), label="gull", mode="map")  # a new class, many at once
        state = client.done("undo", last=client.get("/api/state")["last"])
        client.get(f"/api/spread?turn={state['turn']}")
        spread, session = client.page.thinking.spread, client.page.session
        labels, classes = session.numbers()
        fresh = LiveLabels(kept_graph(stored).graph, labels, classes=len(classes))
        assert spread.turn == state["turn"]
        off = float((spread.probabilities - fresh.probabilities()).abs().max())
        assert off < 5e-3  # made anew with the classes of now, or a head that went on where both lines came at once
        assert ("never used", *spread.classes) == tuple(kind["name"] for kind in state["classes"])
        for _ in range(11):
            state = client.done("undo", last=client.get("/api/state")["last"])
        client.get(f"/api/spread?turn={state['turn']}")
        assert client.page.thinking.spread.is_empty  # one label is no spread
        assert client.page.thinking.problem == ""


def test_what_is_answered_again_was_not_predicted_by_its_own_answer(
    stored: Embeddings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with served(stored, out=tmp_path / "out") as client:
        answer_truly(client, 9)
        row = client.get("/api/questions")["queue"][0]
        state = client.done("answer", rows=[row], label="amber", mode="ask", had=[""])
        client.get(f"/api/spread?turn={state['turn']}")
        may, spread = Event(), client.page.thinking._spread
        monkeypatch.setattr(client.page.thinking, "_spread", lambda: (may.wait(60), spread()))
        client.done("undo", last=state["last"])
        client.done("answer", rows=[row], label="amber", mode="ask", had=[""])  # before that is spread
        may.set()
        assert client.page.session.journal.entries[-1].predicted == ""


def test_strike_out_takes_a_label_away_until_somebody_answers(stored: Embeddings, tmp_path: Path):
    with served(stored, out=tmp_path / "out") as client:
        answer_truly(client, 9)
        kind = client.get("/api/list/class?about=amber")["rows"]
        state = client.done("strike", rows=kind[:2], label="amber")
        assert state["queue"][:2] == kind[:2]  # asked next
        assert not set(kind[:2]) & set(client.get("/api/list/class?about=amber")["rows"])
        folder = Path(client.done("export", form="csv", certain=0.0)["folder"])
        table = read_rows(folder / "labels.csv")
        assert [table[row]["label"] for row in kind[:2]] == ["", ""]
        client.done("answer", rows=kind[:2], label="coral", mode="review")
        table = read_rows(Path(client.done("export", form="csv", certain=0.0)["folder"]) / "labels.csv")
        assert [table[row]["label"] for row in kind[:2]] == ["coral", "coral"]


def test_lists_for_review(stored: Embeddings, tmp_path: Path):
    truth = numbered({row: truth_of(row) for row in range(len(stored))}, len(stored))
    wrong = truth.labels.clone()
    wrong[[4, 9]] = (wrong[[4, 9]] + 1) % 3
    with served(stored, out=tmp_path / "out", existing=GivenLabels(wrong, truth.classes)) as client:
        state = client.get("/api/questions")
        assert state["queue"] == []  # all have labels: nothing to ask
        assert state["doing"] == ""
        assert state["figures"]["before"] == len(stored)
        suspects = client.get("/api/list/suspects")
        assert {4, 9} <= set(suspects["rows"][:4])
        assert suspects["notes"]["4"] == truth_of(4)
        state = client.done("answer", rows=[4], label=truth_of(4), mode="review")
        client.get(f"/api/spread?turn={state['turn']}")
        assert 4 not in client.get("/api/list/suspects")["rows"]
        near = client.get("/api/list/near?about=4")["rows"]
        assert near[0] == 4
        assert sum(truth_of(row) == truth_of(4) for row in near[:10]) >= 7
        assert client.get("/api/list/hand")["rows"] == [4]
        kind = truth.classes[int(wrong[9])]
        listed = client.get(f"/api/list/class?about={kind}")["rows"]  # all labels are given: those, least sure first
        assert sorted(listed) == [row for row in range(90) if row != 4 and truth.classes[int(wrong[row])] == kind]
        assert 9 in listed[:5]
        client.done("strike", rows=[9], label=kind, had=[kind])
        assert 9 not in client.get(f"/api/list/class?about={kind}")["rows"]
        for path in (
            "/api/list/near?about=900",
            "/api/list/text?about=dog",
            "/api/list/clas",
            "/api/list/class?about=x",
        ):
            answer = client.send("GET", path, Cookie=client.cookie)
            assert answer.status == 400, path
    with served(stored, folder=tmp_path / "other", out=tmp_path / "out") as client:
        early = client.get("/api/list/unsure")
        assert (early["rows"], early["why"][:23]) == ([], "nothing was spread yet:")
        answer_truly(client, 9)
        rows = client.get("/api/list/unsure")["rows"]
        best = client.page.thinking.spread.probabilities.topk(2, dim=1).values
        margins = (best[:, 0] - best[:, 1])[rows].tolist()
        assert margins == sorted(margins)
        assert len(rows) == len(stored) - 9


def test_pictures_are_made_small_once_and_kept(stored: Embeddings, tmp_path: Path):
    with served(stored, out=tmp_path / "out") as client:
        first = client.get("/small/5")
    (pack,) = (tmp_path / "place" / "vectors.npz.labelling").glob("thumbnails-*.pack")
    Path(stored.paths[5]).unlink()
    with served(stored, out=tmp_path / "out") as client:
        assert client.get("/small/5") == first
        assert client.send("GET", "/small/5", Cookie="").status == 403
        assert client.send("GET", "/large/5", Cookie=client.cookie).status == 404  # gone
        size = pack.stat().st_size
        client.get("/small/6")
    whole = pack.read_bytes()
    for length in (size + 3, size + 20, len(whole) - 1):  # cut short by a kill
        pack.write_bytes(whole[:length])
        with served(stored, out=tmp_path / "out") as client:
            assert client.get("/small/5") == first
            assert client.get("/small/6")[:3] == b"\xff\xd8\xff"
        assert pack.read_bytes() == whole
    damaged = bytearray(whole)
    damaged[size + 200] ^= 255
    pack.write_bytes(damaged)
    with served(stored, out=tmp_path / "out") as client:
        assert client.get("/small/6") == whole[size + 12 :]


def test_who_waits_as_the_page_ends_is_answered(stored: Embeddings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    may, made, told = Event(), thinking.kept_graph, []
    monkeypatch.setattr(thinking, "kept_graph", lambda *given, **more: (may.wait(60), made(*given, **more))[1])

    def wait(client: Client) -> None:
        try:
            told.append(client.get("/api/questions?newest")["doing"])
        finally:
            may.set()

    with served(stored, out=tmp_path / "out") as client:
        waiting, held = Thread(target=wait, args=(client,)), client.page.thinking._wait
        began = Event()
        monkeypatch.setattr(client.page.thinking, "_wait", lambda *given: (began.set(), held(*given))[1])
        waiting.start()
        assert began.wait(60)
    waiting.join()
    assert told == [thinking.PREPARING]
