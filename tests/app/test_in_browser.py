"""The labelling page in a real browser, as a person would use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.person import Person
from tests.app.places import CLASSES, Client, served, truth_of, write_pictures
from tests.labels.vectors import read_rows
from tests.report.browser import Browser

WITHIN = "return [document.documentElement.scrollWidth, window.innerWidth]"


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
    person.shot("ask")
    browser.press("g")
    browser.settle()
    assert browser.run("return document.querySelectorAll('#asked figure').length") > 1
    for _ in range(6):
        person.answer(truth_of(person.asked()))
    person.shot("ask-nine")
    person.export()
    person.shot("export")
    table = read_rows(client.page.out / "labels-1" / "labels.csv")
    right = [row["label"] == truth_of(number) for number, row in enumerate(table)]
    assert sum(right) / len(right) > 0.85
    assert browser.complaints() == []
    home = f"http://127.0.0.1:{client.port}/"
    assert {address.startswith(home) for address in browser.requests()} == {True}


def test_review_strikes_out_finds_and_corrects(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.answer_truly(9)
    person.go("review")
    rows = "return Number(document.getElementById('review-tiles').dataset.rows)"
    person.until(lambda: browser.run(rows) == 81)
    person.shot("review")
    browser.press("\ue014", "m", "m")  # arrow right, and two are chosen
    browser.settle()
    person.shot("review-chosen")
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
    person.shot("review-near")
    assert browser.complaints() == []


def test_words_find_pictures_and_the_certainty_is_chosen(browser: Browser, tmp_path: Path):
    words = {"blue things": [4, 1, 7]}
    with served(write_pictures(tmp_path / "place"), words=lambda text, count: words[text][:count]) as client:
        person = Person(browser, client.address)
        person.answer_truly(9)
        spread = client.page.thinking.spread
        open_rows = [row for row in range(60) if row not in client.page.session.standing.said]
        shares = spread.probabilities[open_rows].max(dim=1).values.mul(255).round()
        for least in (50, 80, 100):
            browser.run(
                "const field = document.getElementById('certain'); field.value = arguments[0];"
                "field.dispatchEvent(new Event('input'))",
                least,
            )
            assert person.text("spread-count") == f"{int((shares >= least * 2.55).sum())} of 51"
        browser.press("/")
        browser.press(*"blue things")
        browser.run("document.getElementById('find-words').click()")
        listed = "return [...document.querySelectorAll('#review-tiles .tile')].map((tile) => Number(tile.dataset.row))"
        person.until(lambda: browser.run(listed) == [4, 1, 7])
        person.shot("review-words")
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
        assert browser.run("return document.querySelectorAll('.tile canvas').length") == 0  # scrolling would be slow
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
        person.shot(f"{mode}-{'phone' if width < 600 else 'desk'}-{'dark' if dark else 'light'}")


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
    names = ["7", "b", "cat", "coral", "0", "snug", *(f"kind {number}" for number in range(16))]
    with served(write_pictures(tmp_path / "place", each=8), out=tmp_path / "out", classes=names) as client:
        person = Person(browser, client.address)
        keys = person.keys()
        assert [keys[name] for name in names[:6]] == ["7", "b", "1", "2", "0", "3"]
        assert len(set(keys.values()) - {None}) == len(names)  # each has one of its own
        assert person.text("none") == "none of these"  # whose key is taken
        for name in names:
            row = person.asked()
            person.press(keys[name])
            assert client.page.session.standing.said[row] == name
