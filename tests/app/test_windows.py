"""Two windows on one labelling."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from eigenview.app.journal import Journal
from tests.app.person import Person
from tests.app.places import Client, truth_of
from tests.report.browser import Browser


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
