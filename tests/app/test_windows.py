"""Two windows on one labelling."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from eigenview.app.journal import Journal
from tests.app.person import Person, choose_list, first_tile
from tests.app.places import Client, truth_of
from tests.report.browser import Browser


def test_two_windows_tell_each_other_what_was_done(browser: Browser, client: Client):
    person = Person(browser, client.address)
    row = person.asked()
    client.done("answer", rows=[row], label="amber", mode="ask", had=[""])  # the other window was quicker
    person.press("n", *"blue", "\ue007")
    assert "labelled elsewhere meanwhile: amber" in person.text("said")
    assert client.page.session.standing.said == {row: "amber"}
    assert person.asked() != row
    person.answer("blue")
    assert sorted(client.page.session.standing.said.values()) == ["amber", "blue"]


def test_a_picture_that_was_labelled_elsewhere_among_many_is_asked_no_more(browser: Browser, client: Client):
    person = Person(browser, client.address)
    row = person.asked()
    others = [other for other in range(90) if other != row]
    client.done("answer", rows=[row, *others[:70]], label="amber", mode="map")
    person.press("0")
    assert "labelled elsewhere meanwhile: amber" in person.text("said")
    assert person.asked() != row
    person.press("0")
    assert len(client.page.session.standing.said) == 72


def test_of_nine_pictures_the_one_that_was_labelled_elsewhere_is_passed_over(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.asked()
    browser.press("g")
    shown = browser.run("return [...document.querySelectorAll('#asked figure')].map((one) => Number(one.dataset.row))")
    client.done("answer", rows=[shown[0]], label="amber", mode="ask", had=[""])
    person.press("0")
    assert person.asked() == shown[1]
    assert person.text("asked").startswith("✓ amber")
    person.press("0")
    assert client.page.session.standing.said == {shown[0]: "amber", shown[1]: "none of these"}


def test_a_strike_drops_no_answer_of_another_window(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.answer_truly(9)
    person.go("review")
    choose_list(person, "class amber")
    row = first_tile(person)
    client.done("answer", rows=[row], label="coral", mode="review", had=[""])
    person.press("m", "x")
    assert "labelled elsewhere meanwhile: coral" in person.text("said")
    assert client.page.session.standing.said[row] == "coral"
    assert client.page.session.standing.struck == {}


def test_a_window_that_is_turned_to_shows_what_was_done_in_another(browser: Browser, client: Client):
    person = Person(browser, client.address)
    row = person.asked()
    client.done("answer", rows=[row], label="amber", mode="ask", had=[""])
    browser.run("dispatchEvent(new Event('focus'))")
    person.until(lambda: person.text("by-hand") == "1")
    assert person.asked() != row


def test_two_windows_at_once_lose_no_answer(browser: Browser, client: Client, tmp_path: Path):
    (tmp_path / "other").mkdir()
    other = Browser(tmp_path / "other")
    try:
        people = [Person(window, client.address) for window in (browser, other)]
        with ThreadPoolExecutor(2) as pool:
            told = list(pool.map(saved_answers, people))
    finally:
        other.close()
    session = client.page.session
    names = [Path(path).name for path in session.stored.paths]
    assert {names[row]: label for row, label in session.standing.said.items()} == told[0] | told[1]
    assert not told[0].keys() & told[1].keys()  # what one of them answered, the other was not told to have saved
    written = [entry for entry in Journal(session.folder).entries if entry.do == "answer"]
    assert len(written) == len(told[0]) + len(told[1]) >= 12


def saved_answers(person: Person, tries: int = 12) -> dict[str, str]:
    """What the page says to be on disk: a picture's name, and its label."""
    told = {}
    for _ in range(tries):
        person.answer(truth_of(person.asked()))
        word, _, rest = person.text("said").partition(": ")
        if word == "Saved":
            name, _, label = rest.partition(" – ")
            told[name] = label
    return told
