"""The pictures of docs/labelling.md: scikit-learn's digits by their pixels, answered by keys in a real browser.

python benchmarks/labelling_figures.py docs/figures --answers 26
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from eigenview.data import open_images

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.app.command import labelling
from tests.app.person import Person
from tests.labels.vectors import read_rows
from tests.report.browser import Browser

SIZE = {"width": 1280, "height": 820}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--answers", type=int, default=26)
    options = parser.parse_args()
    digits = open_images("digits", needs_index=True)
    truth = [str(digits.label(row)) for row in range(len(digits))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pixels = (np.asarray(digits.image(row).pixels(), dtype=np.float32) for row in range(len(digits)))
        np.savez(folder / "digits.npz", x=np.stack([each.ravel() for each in pixels]))
        (folder / "profile").mkdir()
        browser = Browser(folder / "profile")
        try:
            with labelling("digits.npz", "--source", "digits", "--out", "out", folder=folder) as server:
                person = Person(browser, server.address, **SIZE)
                for _ in range(options.answers):
                    person.answer(truth[person.asked()])
                    person.spread()
                    person.next_chosen()
                figures(person, options.out)
                person.export()
        finally:
            browser.close()
        table = read_rows(folder / "out" / "labels-1" / "labels.csv")
    right = [row["label"] == label for row, label in zip(table, truth, strict=True) if row["given"] == "no"]
    print(f"{np.mean(right):.1%} of {len(right):,} others right after {options.answers} answers")


def figures(person: Person, out: Path) -> None:
    browser = person.browser
    person.picture(out / "labelling-ask.png")
    person.go("map")
    person.until(lambda: browser.run("return document.getElementById('map-canvas').dataset.drawn"))
    browser.press("\ue014", "\ue012", "\ue012")  # arrows: the one in the middle, and two to its left
    person.until(lambda: browser.run("return document.querySelectorAll('#map-tiles .tile').length") > 6)
    person.picture(out / "labelling-map.png")
    person.go("review")
    browser.press("m", "m")
    person.until(lambda: browser.run("return [...document.images].every((image) => image.complete)"))
    person.picture(out / "labelling-review.png")
    browser.press("\ue00c")
    person.go("ask")


if __name__ == "__main__":
    main()
