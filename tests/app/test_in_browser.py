"""The labelling page in a real browser, as a person would use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.person import Person
from tests.app.places import CLASSES, Client, served, truth_of, write_pictures
from tests.labels.vectors import read_rows
from tests.report.browser import Browser

SHOTS = os.environ.get("EIGENVIEW_SHOTS")  # a folder for screenshots, to look at
WITHIN = "return [document.documentElement.scrollWidth, window.innerWidth]"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with served(write_pictures(tmp_path / "place", each=30), out=tmp_path / "out") as opened:
        yield opened


def shot(person: Person, name: str) -> None:
    if SHOTS:
        person.picture(Path(SHOTS) / f"{name}.png")


def test_a_folder_is_labelled_by_keys_alone_and_exported(browser: Browser, client: Client):
    person = Person(browser, client.address)
    assert "token" not in browser.run("return location.href")
    for _ in range(12):
        row = person.asked()
        person.answer(truth_of(row))
    assert person.keys().keys() == set(CLASSES)
    assert person.text("said").startswith("Saved: ")
    assert person.text("by-hand") == "12"
    before = person.asked()
    person.press("s")  # skip
    assert person.asked() != before
    person.press("u")
    assert person.asked() == before
    person.press("u")  # an answer is taken back, and asked again
    assert person.text("by-hand") == "11"
    again = person.asked()
    person.press("0")
    assert client.page.session.standing.said[again] == "none of these"
    person.press("u")
    person.answer(truth_of(again))
    person.spread()
    shot(person, "ask")
    browser.press("g")
    browser.settle()
    assert browser.run("return document.querySelectorAll('#asked figure').length") > 1
    for _ in range(6):
        person.answer(truth_of(person.asked()))
    shot(person, "ask-nine")
    person.export()
    shot(person, "export")
    table = read_rows(client.page.out / "labels-1" / "labels.csv")
    right = [row["label"] == truth_of(number) for number, row in enumerate(table)]
    assert sum(right) / len(right) > 0.85
    assert browser.complaints() == []
    home = f"http://127.0.0.1:{client.port}/"
    assert {address.startswith(home) for address in browser.requests()} == {True}


def test_the_map_takes_on_colour_and_a_lasso_labels_many(browser: Browser, client: Client):
    person = Person(browser, client.address)
    for _ in range(9):
        person.answer(truth_of(person.asked()))
    person.spread()
    person.go("map")
    drawn = "return document.getElementById('map-canvas').dataset.spread"
    person.until(lambda: browser.run(drawn) and int(browser.run(drawn)) >= person.turn)
    colours = browser.run(
        "const c = document.getElementById('map-canvas'), p = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        "const seen = new Set(); for (let at = 0; at < p.data.length; at += 4) if (p.data[at + 3] > 250)"
        "  seen.add(p.data.slice(at, at + 3).join()); return seen.size"
    )
    assert colours > 3
    shot(person, "map")
    box = browser.run("return document.getElementById('map-canvas').getBoundingClientRect().toJSON()")
    left, top, right, low = box["x"] + 2, box["y"] + 60, box["x"] + box["width"] - 2, box["y"] + box["height"] - 2
    path = [(left, top), (right, top), (right, low), (left, low)]
    browser.command("Input.dispatchMouseEvent", type="mousePressed", button="left", clickCount=1, x=left, y=top)
    for x, y in path:
        browser.command("Input.dispatchMouseEvent", type="mouseMoved", button="left", x=x, y=y)
    browser.settle()
    browser.command("Input.dispatchMouseEvent", type="mouseReleased", button="left", clickCount=1, x=left, y=low)
    browser.settle()
    chosen = int(browser.run("return document.getElementById('map-canvas').dataset.chosen"))
    assert chosen > 40
    shot(person, "map-lasso")
    person.press("1")
    assert len(client.page.session.standing.said) == 9 + chosen
    person.press("u")  # one undo takes all of them back
    assert len(client.page.session.standing.said) == 9
    assert browser.complaints() == []


def test_review_strikes_out_finds_and_corrects(browser: Browser, client: Client):
    person = Person(browser, client.address)
    for _ in range(9):
        person.answer(truth_of(person.asked()))
    person.spread()
    person.go("review")
    rows = "return Number(document.getElementById('review-tiles').dataset.rows)"
    person.until(lambda: browser.run(rows) == 81)
    shot(person, "review")
    browser.press("\ue014", "m", "m")  # arrow right, and two are chosen
    browser.settle()
    shot(person, "review-chosen")
    person.press("2")
    assert len(client.page.session.standing.said) == 11
    name = "document.getElementById('review-list')"
    browser.run(f"{name}.value = 'class amber'; {name}.dispatchEvent(new Event('change'))")
    person.until(lambda: browser.run(f"return {name}.value") == "class amber" and browser.run(rows) < 60)
    browser.press("m", "x")
    person.until(lambda: len(client.page.session.standing.struck) == 1)
    browser.press("/")
    browser.press(*"04", "\ue007")
    person.until(lambda: browser.run(rows) == 11)  # 004 and 040 … 049
    browser.press("\ue007")  # the neighbours of the first
    person.until(lambda: browser.run(rows) == 90)
    assert "most like 004.png" in person.text("review-note")
    shot(person, "review-near")
    assert browser.complaints() == []


def test_only_what_is_in_sight_is_loaded(browser: Browser, tmp_path: Path):
    with served(write_pictures(tmp_path / "place", each=150), out=tmp_path / "out") as client:
        person = Person(browser, client.address)
        for _ in range(4):
            person.answer(truth_of(person.asked()))
        person.spread()
        person.go("review")
        person.until(lambda: int(browser.run("return document.getElementById('review-tiles').dataset.shown || 0")) > 5)
        assert browser.run("return document.querySelectorAll('.tile').length") < 100
        browser.run("document.getElementById('review-tiles').scrollTop = 1e6")
        browser.settle()
        person.until(lambda: browser.run("return document.querySelectorAll('#review-tiles-445').length") == 1)
        assert browser.run("return document.querySelectorAll('.tile').length") < 100
        asked = {address.rpartition("/")[2] for address in browser.requests() if "/small/" in address}
        assert len(asked) < 200


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_every_mode_fits_a_phone_and_a_desk_dark_and_light(browser: Browser, client: Client, width: int, dark: bool):
    size = {"width": width, "height": 740 if width < 600 else 860}
    person = Person(browser, client.address, dark=dark, **size)
    for _ in range(4):
        person.answer(truth_of(person.asked()))
    person.spread()
    for mode in ("ask", "map", "review"):
        person.go(mode)
        person.spread()
        across, window = browser.run(WITHIN)
        assert across <= window, mode
        hidden = browser.run(
            "return [...document.querySelectorAll('button, input, select')].filter((one) => one.offsetParent)"
            ".filter((one) => !one.closest('.class-row')).filter((one) => { const box = one.getBoundingClientRect();"
            " return box.right > innerWidth + 1 || box.bottom > innerHeight + 1; })"
            ".map((one) => one.id || one.innerText)"
        )
        assert hidden == [], mode
        shot(person, f"{mode}-{'phone' if width < 600 else 'desk'}-{'dark' if dark else 'light'}")


def test_names_and_classes_run_no_script(browser: Browser, tmp_path: Path):
    stored = write_pictures(tmp_path / "place", each=8)
    hostile = "<img src=x onerror=\"document.title='owned'\">"
    with served(stored, out=tmp_path / "out", classes=[hostile]) as client:
        person = Person(browser, client.address)
        first = person.asked()
        stored.paths[first] = hostile
        person = Person(browser, client.address)
        person.press("1")
        person.press("n", *"<script>document.title='owned'</script>", "\ue007")
        for mode in ("map", "review"):
            person.go(mode)
            person.spread()
        assert hostile in person.text("class-row")
        assert "owned" not in browser.run("return document.title")
        assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0


def test_classes_have_keys_that_one_would_guess(browser: Browser, tmp_path: Path):
    names = ["7", "b", "cat", "coral", "0", "snug", *(f"kind {number}" for number in range(7))]
    with served(write_pictures(tmp_path / "place", each=8), out=tmp_path / "out", classes=names) as client:
        person = Person(browser, client.address)
        keys = person.keys()
        assert [keys[name] for name in names[:6]] == ["7", "b", "1", "2", "0", "3"]
        assert len(set(keys.values())) == len(names)  # each has one of its own
        assert person.text("none") == "none of these"  # whose key is taken
        for name in names:
            row = person.asked()
            person.press(keys[name])
            assert client.page.session.standing.said[row] == name


def test_two_windows_tell_each_other_what_was_done(browser: Browser, client: Client):
    person = Person(browser, client.address)
    row = person.asked()
    client.done("answer", rows=[row], label="amber", mode="ask", had=[""])  # the other window was quicker
    before = person.turn
    browser.press("n", *"blue", "\ue007")
    person.until(lambda: person.turn > before)
    assert "labelled elsewhere meanwhile: amber" in person.text("said")
    assert client.page.session.standing.said == {row: "amber"}
    assert person.asked() != row
    person.answer("blue")
    assert sorted(client.page.session.standing.said.values()) == ["amber", "blue"]
