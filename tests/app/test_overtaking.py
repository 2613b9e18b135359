"""What comes late, twice or in another order than it was asked for: the page takes it as a person would expect."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event

import pytest

from eigenview.app import server, thinking
from eigenview.app.thinking import Thinking
from eigenview.errors import DataError
from eigenview.labels.label_files import numbered
from tests.app.person import Person, choose_list, first_tile
from tests.app.places import Client, served, truth_of, write_pictures
from tests.report.browser import Browser


def hold(browser: Browser, key: str, times: int = 12) -> None:
    """A key that stays down, as the browser tells it."""
    code = {"key": key, "text": key, "unmodifiedText": key, "windowsVirtualKeyCode": ord(key.upper())}
    for time in range(times):
        browser.command("Input.dispatchKeyEvent", type="keyDown", autoRepeat=time > 0, **code)
        browser.settle()
    browser.command("Input.dispatchKeyEvent", type="keyUp", **code)


def test_a_key_that_is_held_down_answers_once(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.answer("amber")
    for key in ("1", "0", "s"):
        before = len(client.page.session.journal.entries)
        person.told(lambda key=key: hold(browser, key))
        person.next_chosen()
        deeds = [entry.do for entry in client.page.session.journal.entries[before:] if entry.do != "ask"]
        assert len(deeds) == 1, key
    person.told(lambda: hold(browser, "u"))
    assert sum(entry.do == "undo" for entry in client.page.session.journal.entries) == 1


def test_a_state_that_comes_late_is_not_believed(browser: Browser, client: Client):
    person = Person(browser, client.address)
    browser.run("window.old = structuredClone(app.state)")
    row = person.answer("amber")
    person.next_chosen()
    asked, turn = person.asked(), person.turn
    browser.run("app.stand(window.old)")
    assert (person.asked(), person.turn) == (asked, turn)
    assert asked != row
    person.answer("blue")
    assert client.page.session.standing.said == {row: "amber", asked: "blue"}


def test_one_may_think_again_before_labels_are_spread(
    browser: Browser, client: Client, monkeypatch: pytest.MonkeyPatch
):
    person = Person(browser, client.address)
    person.answer_truly(9)
    person.go("review")
    browser.press("/", *"04", "\ue007")
    person.until(lambda: browser.run("return document.querySelectorAll('#review-tiles .tile').length") == 11)
    row, may, spread = first_tile(person), Event(), Thinking._spread
    monkeypatch.setattr(Thinking, "_spread", lambda self: (may.wait(60), spread(self)))
    try:
        for label, key in person.keys().items():
            person.press(key)
            assert client.page.session.standing.said[row] == label, person.text("said")
        person.press("x")
        assert row in client.page.session.standing.struck, person.text("said")
        person.press("u")
        person.press(person.keys()["coral"])
        assert client.page.session.standing.said[row] == "coral", person.text("said")
    finally:
        may.set()


def test_labels_that_are_there_are_corrected_while_the_graph_is_made(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    may, made = Event(), thinking.kept_graph
    monkeypatch.setattr(thinking, "kept_graph", lambda *given, **more: (may.wait(60), made(*given, **more))[1])
    stored = write_pictures(tmp_path / "place")
    wrong = numbered({row: truth_of(row + (row == 7)) for row in range(len(stored))}, len(stored))
    with served(stored, existing=wrong) as client:
        try:
            person = Person(browser, client.address)
            person.go("review")
            person.until(lambda: "nothing was spread yet" in person.text("review-note"))
            choose_list(person, f"class {truth_of(8)}")  # there are labels, if nothing that was spread
            browser.press("/", *"007", "\ue007")
            person.until(lambda: browser.run("return document.querySelectorAll('#review-tiles .tile').length") == 1)
            person.press(person.keys()[truth_of(7)])
            assert client.page.session.standing.said == {7: truth_of(7)}, person.text("said")
            browser.run("app.modes.review.near(7)")
            person.until(lambda: "not ready yet" in person.text("review-note"))
        finally:
            may.set()
        person.until(lambda: "most like 007.png" in person.text("review-note"))  # by itself


def test_an_export_that_takes_its_time_stops_no_answers(
    browser: Browser, client: Client, monkeypatch: pytest.MonkeyPatch
):
    may, began, export = Event(), Event(), server.export_labels
    monkeypatch.setattr(
        server, "export_labels", lambda *given, **more: (began.set(), may.wait(60), export(*given, **more))[2]
    )
    person = Person(browser, client.address)
    person.answer_truly(4)
    try:
        browser.press("e", "\ue007")
        assert began.wait(60)
        browser.press("\ue00c")
        person.answer("amber")
        assert len(client.page.session.standing.said) == 5
    finally:
        may.set()
    person.until((client.page.out / "labels-1" / "labels.csv").exists)


def test_a_button_keeps_the_focus_when_questions_come_in(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.answer("amber")
    browser.run("document.querySelector('#class-row [data-label=amber]').focus()")
    browser.run("app.stand({ ...app.state })")
    assert browser.run("return document.activeElement.dataset.label") == "amber"


def test_a_page_that_begins_badly_begins_again(browser: Browser, client: Client, monkeypatch: pytest.MonkeyPatch):
    names, tries = server.Page.names, []

    def late(page: server.Page) -> list:
        tries.append(page)
        if len(tries) < 2:
            raise DataError("not yet")
        return names(page)

    monkeypatch.setattr(server.Page, "names", late)
    person = Person(browser, client.address)
    assert len(tries) == 2
    assert person.asked() >= 0


def test_an_undo_that_cannot_be_written_leaves_the_question(
    browser: Browser, client: Client, monkeypatch: pytest.MonkeyPatch
):
    person = Person(browser, client.address)
    person.answer("amber")
    person.next_chosen()
    asked = person.asked()
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        person.press("u")
    assert "Not saved" in person.text("said")
    person.press("0")
    assert client.page.session.standing.said[asked] == "none of these"


def test_nothing_of_one_list_is_struck_out_under_the_name_of_another(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.answer_truly(9)
    person.go("review")
    person.until(lambda: "pictures" in person.text("review-note"))
    browser.run(
        "const lists = document.getElementById('review-list'); lists.value = 'class blue';"
        "lists.dispatchEvent(new Event('change')); app.modes.review.key({ key: 'x' })"
    )
    assert person.text("said").startswith("Choose pictures first")
    assert client.page.session.standing.struck == {}


def test_a_list_stays_where_it_is_when_a_picture_of_it_is_settled(browser: Browser, tmp_path: Path):
    with served(write_pictures(tmp_path / "place", each=150), out=tmp_path / "out") as client:
        person = Person(browser, client.address)
        person.answer_truly(4)
        person.go("review")
        person.until(lambda: "pictures" in person.text("review-note"))
        scrolled = "return document.getElementById('review-tiles').scrollTop"
        browser.run("document.getElementById('review-tiles').scrollTop = 2000")
        browser.settle()
        browser.run(
            "[...document.querySelectorAll('#review-tiles .tile')]"
            ".find((tile) => parseFloat(tile.style.top) > 2100).click()"
        )
        person.press("1")
        assert browser.run(scrolled) == 2000
        person.press("u")
        person.until(lambda: person.text("review-note").startswith("446 "))
        assert browser.run(scrolled) == 2000


def test_what_was_typed_stays_where_it_was_not_taken(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.asked()
    person.go("map")
    browser.press("n", *"gull", "\ue007")
    person.until(lambda: person.text("said").startswith("Choose pictures first"))
    assert browser.run("return document.getElementById('new-class').value") == "gull"
    person.go("ask")
    person.press("n", "\ue007")
    assert list(client.page.session.standing.said.values()) == ["gull"]
    assert browser.run("return document.getElementById('new-class').value") == ""
