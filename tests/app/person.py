"""A person at the page: sees what it shows, presses keys, waits for what it says."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.app.places import truth_of
from tests.report.browser import Browser

SHOTS = os.environ.get("EIGENVIEW_SHOTS")  # a folder for screenshots, to look at
PATIENCE = 60.0  # seconds: a busy machine is slow


class Person:
    """In front of one page."""

    def __init__(
        self, browser: Browser, address: str = "", *, width: int = 1280, height: int = 860, dark: bool = False
    ):
        """Opens the address; without one, what is being opened already."""
        self.browser = browser
        if address:
            browser.open(address, width=width, height=height, dark=dark)
        self.until(lambda: browser.run("return document.body?.dataset.ready") == "yes")

    def until(self, is_so: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < end, self.browser.run("return document.body.innerText")[:2000]
            time.sleep(0.05)

    def text(self, element: str) -> str:
        return str(self.browser.run("return document.getElementById(arguments[0]).innerText", element))

    @property
    def turn(self) -> int:
        return int(self.browser.run("return document.body.dataset.turn"))

    def asked(self) -> int:
        """The picture that is asked now, once there is one."""
        said = "return document.getElementById('asked').dataset.row || ''"
        self.until(lambda: self.browser.run(said))
        return int(self.browser.run(said))

    def keys(self) -> dict[str, str]:
        """Class → its first key, as the buttons show them."""
        shown = (
            "return Object.fromEntries([...document.querySelectorAll('#class-row button')]"
            ".map((one) => [one.dataset.label, one.querySelector('kbd')?.innerText]))"
        )
        return dict(self.browser.run(shown))

    def press(self, *keys: str) -> None:
        """Keys, and what they did is told before the next."""
        self.told(lambda: self.browser.press(*keys))

    def told(self, does: Callable[[], object]) -> None:
        """Do something, and wait until the page says what came of it."""
        before = self.browser.run("return app.told")
        does()
        self.until(lambda: self.browser.run("return app.told") > before)
        self.browser.settle()

    def answer(self, label: str) -> int:
        """By its key, or by typing where the class is new."""
        row = self.asked()
        key = self.keys().get(label)
        if key:
            self.press(key)
        else:
            self.press("n", *label, "\ue007")
        return row

    def answer_truly(self, count: int) -> None:
        """So many pictures by what they are; then wait until that is spread."""
        for _ in range(count):
            self.answer(truth_of(self.asked()))
        self.spread()

    def spread(self) -> None:
        """Wait until the labels on the page follow from all answers."""
        self.until(lambda: int(self.browser.run("return document.body.dataset.spread || -1")) >= self.turn)
        self.browser.settle()

    def next_chosen(self) -> None:
        """Wait until what is asked next was chosen by all answers."""
        self.until(lambda: not self.browser.run("return app.state.doing"))

    def go(self, mode: str) -> None:
        """By the key that goes from mode to mode."""
        for _ in range(3):
            if self.browser.run("return app.mode") == mode:
                break
            self.browser.press(">")
        self.browser.settle()

    def export(self) -> None:
        """As CSV; wait until it says where."""
        for button in ("export-open", "export-go"):
            self.browser.run("document.getElementById(arguments[0]).click()", button)
        self.until(lambda: "labels-1" in self.text("export-said"))

    def picture(self, place: Path) -> None:
        """A screenshot."""
        place.parent.mkdir(parents=True, exist_ok=True)
        time.sleep(0.3)
        self.browser.driver.save_screenshot(str(place))

    def shot(self, name: str) -> None:
        """One of those to look at, where they are asked for."""
        if SHOTS:
            self.picture(Path(SHOTS) / f"{name}.png")


def choose_list(person: Person, name: str) -> None:
    """Of review; wait until it is there."""
    lists = "const lists = document.getElementById('review-list');"
    person.browser.run(f"{lists} lists.value = arguments[0]; lists.dispatchEvent(new Event('change'))", name)
    person.until(lambda: "pictures" in person.text("review-note"))
    person.browser.settle()


def first_tile(person: Person) -> int:
    return int(person.browser.run("return document.getElementById('review-tiles-0').dataset.row"))
