"""Answers on disk: what a kill leaves, what an undo is, and that the same session comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eigenview.app.journal import NAME, Entry, Journal
from eigenview.app.session import Conflict, Session, standing_places
from eigenview.errors import DataError, SettingError
from eigenview.labels.label_files import GivenLabels
from eigenview.search import Embeddings
from tests.app.places import write_pictures


@pytest.fixture
def stored(tmp_path: Path) -> Embeddings:
    return write_pictures(tmp_path / "place", each=4)


@pytest.fixture
def session(stored: Embeddings, tmp_path: Path):
    opened = Session(tmp_path / "session", stored)
    yield opened
    opened.close()


def again(session: Session) -> Session:
    """The same session as another start finds it."""
    session.close()
    return Session(session.folder, session.stored)


def test_a_session_that_is_opened_again_is_what_it_was(session: Session):
    session.ask([3, 5, 7, 9], after=0)
    session.answer([0], "amber", mode="ask", predicted="blue", probability=0.9)  # a class that nobody knew
    session.answer([3], "amber", mode="ask", predicted="blue", probability=0.7)
    session.answer([5, 6], "blue", mode="map")
    session.skip([7])
    session.strike([6], "blue")
    session.undo(session.standing.last)
    before, figures = session.standing, session.figures()
    opened = again(session)
    assert opened.standing == before
    assert opened.figures() == figures
    assert before.said == {0: "amber", 3: "amber", 5: "blue", 6: "blue"}
    assert before.queue == (9,)
    assert figures["tried"] == 1
    assert figures["accuracy"] == 0
    assert 0 < figures["high"] < 1  # one miss says little
    opened.close()


def test_every_deed_is_taken_back_in_turn_by_undo(session: Session):
    session.ask([0, 1, 2], after=0)
    seen = [session.standing]
    for deed in (
        lambda: session.answer([0], "amber", mode="ask"),
        lambda: session.answer([0], "blue", mode="review"),
        lambda: session.strike([0], "blue"),
        lambda: session.skip([1]),
        lambda: session.answer([1, 2], "coral", mode="map"),
    ):
        deed()
        seen.append(session.standing)
    for before in reversed(seen[:-1]):
        session.undo(session.standing.last)
        now = session.standing
        assert (now.said, now.skipped, now.struck, now.queue) == (
            before.said,
            before.skipped,
            before.struck,
            before.queue,
        )
    assert session.standing.last is None
    with pytest.raises(Conflict, match="nothing to undo"):
        session.undo(0)


def test_undo_passes_over_questions_that_were_chosen_meanwhile():
    deeds = [Entry(do, 0.0) for do in ("ask", "answer", "answer", "ask", "undo", "answer")]
    assert standing_places(deeds) == [0, 1, 3, 5]


def test_a_line_cut_short_at_any_byte_is_as_if_it_never_was(session: Session):
    session.answer([1], "ïles", mode="ask")
    session.answer([2], "blue", mode="ask")
    file = session.folder / NAME
    whole = file.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first, len(whole)):
        file.write_bytes(whole[:length])
        opened = again(session)
        assert opened.standing.said == {1: "ïles"}
        opened.answer([3], "coral", mode="ask")  # the next line stands alone
        session = again(opened)
        assert session.standing.said == {1: "ïles", 3: "coral"}
    session.close()


def test_damage_in_the_middle_is_refused_with_its_line(session: Session):
    session.answer([1], "amber", mode="ask")
    session.answer([2], "blue", mode="ask")
    file = session.folder / NAME
    file.write_bytes(file.read_bytes().replace(b'"answer"', b'"amswer"', 1))
    session.close()
    with pytest.raises(DataError, match=r"journal\.jsonl, line 1"):
        Session(session.folder, session.stored)
    file.unlink()
    Session(session.folder, session.stored).close()  # the lock was let go of


def test_an_answer_that_cannot_be_written_is_not_taken(session: Session, monkeypatch: pytest.MonkeyPatch):
    session.answer([1], "amber", mode="ask")
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DataError, match="No space left"):
        session.answer([2], "blue", mode="ask")
    monkeypatch.undo()
    assert session.standing.said == {1: "amber"}
    assert len(Journal(session.folder).entries) == 1


def test_two_windows_do_not_overwrite_each_other(session: Session):
    session.answer([1], "amber", mode="ask", had=[""])
    with pytest.raises(Conflict, match="labelled elsewhere meanwhile: amber"):
        session.answer([1], "blue", mode="ask", had=[""])
    last = session.standing.last
    session.answer([2], "blue", mode="ask", had=[""])
    for stale in (
        lambda: session.undo(last),
        lambda: session.strike([3, 1], "coral", had=["", ""]),
        lambda: session.skip([1]),
    ):
        with pytest.raises(Conflict):
            stale()
    assert session.standing.struck == {}
    assert session.standing.skipped == ()
    assert session.standing.said == {1: "amber", 2: "blue"}


def test_a_second_server_is_refused_and_told_who_has_it(session: Session, stored: Embeddings):
    code = (
        "import sys; from pathlib import Path; from eigenview.app.session import Session; from eigenview.search import "
        "open_embeddings; Session(Path(sys.argv[1]), open_embeddings(sys.argv[2]))"
    )
    arguments = [sys.executable, "-c", code, str(session.folder), str(stored.place)]
    answer = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert f"is being written by process {os.getpid()}" in answer.stderr


KILLED = """
import json, os, signal, sys
from pathlib import Path
from eigenview.app.session import Session
from eigenview.search import open_embeddings
session = Session(Path(sys.argv[1]), open_embeddings(sys.argv[2]))
for row in range(8):
    session.answer([row], "class %d" % (row % 3), mode="ask")
    print(row, flush=True)
    if row == 5:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_said_to_be_done_outlives_kill_9(stored: Embeddings, tmp_path: Path):
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "killed"), str(stored.place)]
    answer = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert answer.returncode == -signal.SIGKILL
    told = [int(line) for line in answer.stdout.split()]
    opened = Session(tmp_path / "killed", stored)  # and the lock is free
    assert opened.standing.said == {row: f"class {row % 3}" for row in told}
    assert told == list(range(6))
    opened.close()


def test_answers_follow_their_pictures_when_others_come_and_go(session: Session, tmp_path: Path):
    from dataclasses import replace

    session.answer([1], "amber", mode="ask")
    session.answer([2], "blue", mode="ask")
    stored = session.stored
    session.close()
    fewer = replace(stored, vectors=stored.vectors[2:], index=stored.index[2:], paths=list(stored.paths[2:]))
    opened = Session(session.folder, fewer)
    assert opened.standing.said == {0: "blue"}
    assert opened.lost == 1
    opened.close()
    opened = Session(session.folder, stored)  # it comes back with its picture
    assert opened.standing.said == {1: "amber", 2: "blue"}
    opened.close()


def test_existing_labels_are_corrected_struck_out_and_restored(stored: Embeddings, tmp_path: Path):
    import torch

    given = GivenLabels(torch.arange(len(stored)) % 2, ("cat", "dog"))
    session = Session(tmp_path / "audit", stored, existing=given)
    assert session.standing.classes == ("cat", "dog")
    session.answer([0], "gull", mode="review")
    session.strike([1], "dog")
    assert (session.label(0), session.label(1), session.label(2)) == ("gull", "", "cat")
    assert session.standing.queue == (1,)
    assert session.given().count == len(stored) - 1
    session.undo(session.standing.last)
    assert session.label(1) == "dog"
    session.strike([1], "dog")
    session.answer([1], "gull", mode="ask", had=[""])
    for _ in range(2):
        session.undo(session.standing.last)
    assert session.label(1) == "dog"
    assert session.standing.queue == ()  # it has its label again: nobody is asked
    session.close()


@pytest.mark.parametrize("name", ["", " \n ", "a" * 101, "bell\a", "turned\u202eround"])
def test_a_class_is_called_by_printable_letters(session: Session, name: str):
    if name.strip():
        with pytest.raises(SettingError, match="a class is called by"):
            session.answer([0], name, mode="ask")
        assert session.standing.said == {}
    else:
        session.answer([0], "amber", mode="ask")
        session.answer([0], name.strip(), mode="ask")  # no label takes the label away
        assert session.standing.said == {}


def test_rows_that_are_not_there_are_refused(session: Session):
    for rows in ([-1], [len(session.stored)], []):
        with pytest.raises(SettingError):
            session.answer(rows, "amber", mode="ask")
    assert session.journal.entries == []
