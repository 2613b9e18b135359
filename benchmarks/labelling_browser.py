"""The labelling page on many pictures as a browser sees it: how soon it is usable, what follows a key, how it scrolls.

    python benchmarks/labelling_browser.py embeddings.parquet cifar10/train.parquet --answers 20

In headless Chromium: from the command to the first picture on the page, at the first start and at three later ones;
from a key to the answer on disk, the next picture, the labels and the map that follow; frames while a list of all
pictures scrolls, a quarter of a row and ten screens at a time. Ten classes, given in turn, a second after another.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from labelling import Server

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.report.browser import Browser

SCROLL = """
const [step, frames, done] = arguments; const box = document.getElementById("review-tiles"), gaps = [];
let before = performance.now(), most = 0;
const next = (now) => {
  gaps.push(now - before);
  before = now;
  most = Math.max(most, document.querySelectorAll(".tile").length);
  box.scrollTop += step;
  if (gaps.length < frames) requestAnimationFrame(next); else done([gaps.slice(5), most, box.scrollTop]);
};
requestAnimationFrame(next);
"""
ANSWER = """
const [key, done] = arguments, asked = document.getElementById("asked"), row = asked.dataset.row;
const said = document.body.dataset, times = {}, turn = Number(said.turn), began = performance.now();
document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const look = () => {
  const image = asked.querySelector("img"), now = performance.now() - began;
  if (!times.disk && Number(said.turn) > turn) times.disk = now;
  if (!times.next && asked.dataset.row && asked.dataset.row !== row && image && image.complete) times.next = now;
  if (!times.labels && Number(said.spread) > turn) times.labels = now;
  if (times.disk && times.next && times.labels) done(times); else setTimeout(look, 2);
};
look();
"""
ON_MAP = """
const [key, done] = arguments, map = document.getElementById("map-canvas"), before = map.dataset.picked;
const press = (key) => map.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
press("ArrowRight");
if (map.dataset.picked === before) press("ArrowLeft");
const turn = Number(document.body.dataset.turn), began = performance.now();
press(key);
const look = () => (Number(map.dataset.spread) > turn ? done(performance.now() - began) : setTimeout(look, 2));
look();
"""
USABLE = "return document.querySelector('#asked img')?.naturalWidth"


def told(name: str, values: list[float]) -> None:
    middle, high = np.percentile(values, [50, 95])
    print(f"{name}: median {middle:.0f} ms, 95 % {high:.0f} ms, most {max(values):.0f} ms")


def opened(browser: Browser, options: argparse.Namespace, session: Path) -> tuple[Server, float, float]:
    """The server, and seconds from its command to the first picture on the page: of the clock, and of a core."""
    server = Server(options.vectors, options.source, session)
    browser.open(server.address.geturl())
    while not browser.run(USABLE):
        time.sleep(0.01)
    return server, time.monotonic() - server.began, server.work()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("source")
    parser.add_argument("--answers", type=int, default=20)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, on which {os.getloadavg()[0]:.1f} processes ran as this began")
    with tempfile.TemporaryDirectory() as folder:
        session, browser = Path(folder) / "session", Browser(Path(folder) / "profile")
        server, first, _ = opened(browser, options, session)
        try:
            while not server.state()["has_map"]:
                time.sleep(0.5)
            print(f"first start: first question after {first:.1f} s, map after {time.monotonic() - server.began:.1f} s")
            later, work = [], []
            for _ in range(3):
                server.stop()
                server, seconds, own = opened(browser, options, session)
                later.append(seconds)
                work.append(own)
            listed = ", ".join(f"{seconds:.1f}" for seconds in later)
            print(f"later starts: first picture after {statistics.median(later):.1f} s (of {listed})", end="; ")
            print(f"{statistics.median(work):.1f} s of a core")
            measure(browser, server, options.answers)
            print(f"memory of the server: {server.memory():.2f} GB at most")
        finally:
            browser.close()
            server.stop()


def measure(browser: Browser, server: Server, answers: int) -> None:
    run = browser.driver.execute_async_script
    browser.driver.set_script_timeout(120)
    while server.state("/api/questions?newest")["doing"]:
        pass
    for number in range(10):
        turn = browser.run("return Number(document.body.dataset.turn)")
        browser.press("n", *f"kind {number}", "\ue007")
        while browser.run("return Number(document.body.dataset.turn)") == turn:
            time.sleep(0.05)
    while server.state("/api/questions?newest")["doing"]:
        pass

    def answered(script: str) -> list:
        times = []
        for number in range(answers):
            time.sleep(1)  # a person looks
            times.append(run(script, str(1 + number % 9)))
        return times

    times = answered(ANSWER)
    for name, key in (("on disk", "disk"), ("next picture", "next"), ("labels on the page", "labels")):
        told(name, [after[key] for after in times])
    browser.run("app.enter('map')")
    while not browser.run("return document.getElementById('map-canvas').dataset.drawn"):
        time.sleep(0.1)
    told("labels and map", answered(ON_MAP))
    browser.press("/", "[", "\ue007")  # in every name
    time.sleep(2)
    for name, step in (("forty pixels", 40), ("ten screens", 6000)):
        gaps, most, top = run(SCROLL, step, 100)
        told(f"frames, {name} at a time (at most {most} tiles, down to {top:,.0f} pixels)", gaps)


if __name__ == "__main__":
    main()
