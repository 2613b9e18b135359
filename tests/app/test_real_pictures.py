"""The page on real pictures: 2,000 JPEGs of STL-10, and 800 photographs, 30 answers each, with both ends killed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eigenview.app.journal import Journal
from eigenview.labels import spread_labels
from eigenview.labels.label_files import read_labels
from eigenview.search import Embeddings, open_embeddings
from tests.app.command import labelling
from tests.app.person import Person
from tests.app.places import check_questions
from tests.labels.vectors import read_rows
from tests.report.browser import Browser, missing

SHARED = Path(os.environ.get("EIGENVIEW_DATA", Path(__file__).parents[3] / "shared" / "data"))
SHOTS = os.environ.get("EIGENVIEW_SHOTS")  # a folder for screenshots, to look at
ANSWERS, BEFORE_BROWSER, BEFORE_SERVER = 30, 10, 20
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"no data in {SHARED}; set EIGENVIEW_DATA"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


def write_stl(folder: Path, count: int = 2000) -> None:
    """One folder a class, of JPEGs as they are in the table."""
    from pyarrow import parquet

    table = parquet.read_table(SHARED / "stl10_64" / "train.parquet", columns=["image", "label"]).slice(0, count)
    for row, entry in enumerate(table.to_pylist()):
        place = folder / f"class {entry['label']}" / f"{row:04d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(io.BytesIO(entry["image"]["bytes"]).getvalue())


def browsers(folder: Path) -> Iterator[Browser]:
    """One after another, each with nothing remembered."""
    for number in range(9):
        (folder / f"profile-{number}").mkdir()
        yield Browser(folder / f"profile-{number}")


@pytest.mark.parametrize("kind", ["photos", "stl10"])
def test_thirty_answers_label_a_folder_and_kills_change_nothing(kind: str, tmp_path: Path):
    folder = SHARED / "photos" if kind == "photos" else tmp_path / "stl10"
    if kind == "stl10":
        write_stl(folder)
    words = [str(folder), *(["--size", "96"] if kind == "stl10" else [])]
    windows = browsers(tmp_path)
    exported = []
    for run, kills in enumerate((False, True)):
        session = ["--session", f"session-{run}", "--out", f"out-{run}"]
        exported.append(labelled_folder(words + session, tmp_path, windows, kills=kills, name=f"{kind}-{run}"))
    (plain, stored), (killed, _) = exported
    truth = [Path(path).parent.name for path in stored.paths]
    for place in (plain, killed):
        table = read_rows(place / "labels.csv")
        right = np.mean([row["label"] == name for row, name in zip(table, truth, strict=True) if row["given"] == "no"])
        print(f"{kind}: {right:.1%} of {len(table) - ANSWERS:,} others right after {ANSWERS} answers ({place})")
        given = read_labels(place / "answers.csv", stored)
        assert given.count == ANSWERS
        assert [row["label"] for row in table] == spread_labels(stored, given).labels
        assert right > 0.5


def labelled_folder(
    words: list[str], place: Path, windows: Iterator[Browser], *, kills: bool, name: str
) -> tuple[Path, Embeddings]:
    """Where the export is. The questions are held to be those of ``choose``."""
    browser, stored = next(windows), None
    done = 0
    for stop in (BEFORE_SERVER, ANSWERS) if kills else (ANSWERS,):
        with labelling(*words, folder=place, patience=3600) as server:
            (file,) = (place / "runs").glob("*/embeddings.parquet")
            stored = stored or open_embeddings(file)
            person = Person(browser, server.address)
            assert person.text("by-hand") == str(done)
            while done < stop:
                if kills and done == BEFORE_BROWSER:
                    browser.kill()
                    browser = next(windows)
                    person = Person(browser, server.address)
                person.answer(Path(stored.paths[person.asked()]).parent.name)
                person.spread()
                person.next_chosen()
                done += 1
            if stop == ANSWERS:
                if SHOTS:
                    screenshots(person, Path(SHOTS), name)
                person.export()
    browser.close()
    assert stored is not None
    entries = Journal(place / words[words.index("--session") + 1]).entries
    assert check_questions(entries, stored) >= ANSWERS  # after every answer
    return place / words[words.index("--out") + 1] / "labels-1", stored


def screenshots(person: Person, folder: Path, name: str) -> None:
    for mode in ("ask", "map", "review"):
        person.go(mode)
        person.spread()
        if mode == "map":
            person.until(lambda: person.browser.run("return document.getElementById('map-canvas').dataset.drawn"))
        if mode == "review":
            person.until(lambda: "pictures" in person.text("review-note"))
        person.until(lambda: person.browser.run("return [...document.images].every((one) => one.complete)"))
        person.picture(folder / f"{name}-{mode}.png")
    person.go("ask")
