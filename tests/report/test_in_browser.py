"""The report in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenview.report import write_report
from eigenview.runs import Words, WordsExample
from eigenview.runs.sample import FoundWords
from eigenview.sweeps import Results, Trial
from tests.report.browser import Browser
from tests.report.example_run import HOSTILE, write_run

WITHIN = "return [document.documentElement.scrollWidth, window.innerWidth]"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([write_run(tmp_path_factory.mktemp("run"))])


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    runs = [write_run(folder / name, seed=seed, items=60) for seed, name in enumerate(("first", "second"))]
    return write_report(runs, folder / "both.html")


@pytest.fixture(scope="module")
def captioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run that learnt from captions, one of which is hostile and another right-to-left."""
    texts = ("two dogs on a beach", HOSTILE[0], "שלום עולם 🐶", "a very long caption " * 20)
    examples = tuple(WordsExample(text, own, (own + 4, own, 7), (0.9, 0.8, 0.7)) for own, text in enumerate(texts))
    back = tuple(FoundWords(own, texts[:3], (0.9, 0.8, 0.7), own < 3) for own in range(4))
    return write_report([write_run(tmp_path_factory.mktemp("words"), words=Words(examples, back))])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=alert(3)>"
    return write_report([write_run(folder, names=HOSTILE, classes=HOSTILE[:4])], folder.parent / "page.html")


def dots(browser: Browser) -> int:
    browser.settle()
    return int(browser.run("return document.getElementById('map-canvas').dataset.drawn"))


def hover_on_first(browser: Browser, *, click: bool = False) -> None:
    """Put the mouse on the uppermost pixel that a dot covers."""
    browser.run("document.getElementById('map-canvas').scrollIntoView({block: 'center', behavior: 'instant'})")
    browser.settle()
    place = browser.run(
        "const c = document.getElementById('map-canvas'), p = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        "for (let at = 3; at < p.data.length; at += 4) if (p.data[at] > 200)"
        "  return [(at >> 2) % c.width, Math.floor((at >> 2) / c.width)];"
    )
    browser.point_at("map-canvas", *place, click=click)


def test_the_page_loads_without_complaint_and_asks_nobody(browser, page, comparison, hostile):
    for file in (page, comparison, hostile):
        browser.open(file)
        assert browser.complaints() == []
        assert browser.requests() == [file.as_uri()]


def test_every_chart_is_drawn(browser, page):
    browser.open(page)
    names = browser.run(
        "return [...document.querySelectorAll('.plot')].filter((p) => p.querySelector('.plot-container'))"
        ".map((p) => p.id)"
    )
    curves = ["loss", "alignment", "uniformity", "effective_rank", "knn_accuracy", "learning_rate"]
    assert names == [f"plot-{name}" for name in (*curves, "plane", "spectrum", "laplacian", "confusion")]
    assert browser.run("return document.getElementById('plot-loss').data.map((t) => t.name)")[1] == "chance"


def test_hovering_a_dot_shows_its_picture_and_name(browser, page):
    browser.open(page)
    assert browser.run("return document.getElementById('map-tip').hidden")
    hover_on_first(browser)
    shown = browser.run(
        "const tip = document.getElementById('map-tip'), thumb = tip.querySelector('.thumb');"
        "return [tip.hidden, Number(tip.dataset.point), tip.querySelector('b').textContent,"
        " getComputedStyle(thumb).backgroundImage.slice(0, 22), thumb.style.getPropertyValue('--column')]"
    )
    hidden, point, name, image, column = shown
    assert not hidden
    assert name == f"photos/{point:05d}.jpg"
    assert image == 'url("data:image/jpeg;b'
    assert int(column) == point % 32


def test_a_picked_dot_shows_its_neighbours_by_mouse_and_by_keyboard(browser, page):
    pictures = "return document.querySelectorAll('#map-selected .strip .thumb').length"
    browser.open(page)
    hover_on_first(browser, click=True)
    assert browser.run(pictures) == 8
    first = browser.run("return document.querySelector('#map-selected b').textContent")
    browser.driver.find_element("id", "map-canvas").send_keys("\ue015")  # arrow down: the next dot below
    assert browser.run(pictures) == 8
    assert browser.run("return document.querySelector('#map-selected b').textContent") != first
    browser.press("\ue00c")  # Escape
    assert browser.run(pictures) == 0


def test_groups_and_names_filter_the_map(browser, page):
    browser.open(page)
    assert dots(browser) == 120
    browser.run("document.querySelector('#map-legend button').click()")
    assert dots(browser) == 90
    browser.run("document.getElementById('map-none').click()")
    assert dots(browser) == 0
    browser.run("document.getElementById('map-all').click()")
    browser.driver.find_element("id", "map-find").send_keys("0001")
    assert dots(browser) == 11  # 00001, and 00010 to 00019
    browser.driver.find_element("id", "map-find").clear()
    browser.driver.find_element("id", "map-find").send_keys("frog")
    assert dots(browser) == 30
    assert browser.run("return document.getElementById('map-shown').textContent") == "30 of 120 shown"


def test_hostile_names_stay_text(browser, hostile):
    browser.open(hostile)
    hover_on_first(browser)
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("return document.querySelector('h1').textContent") == "<img src=x onerror=alert(3)>"
    names = browser.run("return eigenview.data.map.names.slice(0, 5)")
    assert names == list(HOSTILE)
    legend = browser.run(
        "return [...document.querySelectorAll('#map-legend button span:first-of-type')].map((s) => s.textContent)"
    )
    assert legend == list(HOSTILE[:4])
    ticks = browser.run("return [...document.querySelectorAll('#plot-confusion .ytick')].map((t) => t.textContent)")
    assert any(tick.startswith("<script>") for tick in ticks)
    assert browser.complaints() == []


def test_words_find_images_and_images_find_words(browser, captioned):
    browser.open(captioned)
    assert browser.complaints() == []
    lines = browser.run(
        "return [...document.querySelectorAll('#words .queries > li')].map((line) => ["
        " [...line.querySelectorAll('b')].map((b) => b.textContent),"
        " [...line.querySelectorAll('.thumb')].map((thumb) => thumb.classList.contains('query')),"
        " line.textContent.includes('its own is not')])"
    )
    assert [line[0][0] for line in lines[:4]] == [
        "two dogs on a beach",
        HOSTILE[0],
        "שלום עולם 🐶",
        "a very long caption " * 20,
    ]
    assert all(line[1] == [True, False, True, False] for line in lines[:4])  # itself, then where it was found
    assert [line[0] for line in lines[4:]] == [["two dogs on a beach", HOSTILE[0], "שלום עולם 🐶"]] * 4
    assert [line[2] for line in lines[4:]] == [False, False, False, True]
    browser.open(captioned, width=390, height=844)
    inner, outer = browser.run(WITHIN)
    assert inner <= outer == 390


def test_even_script_that_got_in_would_not_run(browser, page):
    browser.open(page)
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s);"
        "const d = document.createElement('div'); d.innerHTML = '<img src=x onerror=\"window.ran = true\">';"
        "document.body.append(d);"
    )
    browser.settle()
    assert browser.run("return window.ran") is None
    assert any("Content Security Policy" in said for said in browser.complaints())


@pytest.mark.parametrize("width", [320, 390, 820])
def test_a_phone_sees_one_column_that_does_not_scroll_sideways(browser, page, comparison, hostile, width):
    for file in (page, comparison, hostile):
        browser.open(file, width=width, height=844)
        browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        browser.settle()
        inner, outer = browser.run(WITHIN)
        assert inner <= outer == width


def test_the_keyboard_reaches_every_control(browser, page):
    browser.open(page)
    wanted = browser.run(
        "return [...document.querySelectorAll('button, summary, input, canvas[tabindex], a[href]')]"
        ".filter((e) => e.checkVisibility() && (e.type !== 'radio' || e.checked)).length"
    )
    seen = "const e = document.activeElement, known = document.querySelectorAll('[data-seen]').length;"
    seen += "e.dataset.seen ||= String(known); return `${e.tagName} ${e.dataset.seen}`"
    reached = set()
    for _ in range(wanted + 12):
        browser.press("\ue004")  # Tab
        reached.add(browser.run(seen))
    controls = {control for control in reached if control.split()[0] in ("BUTTON", "SUMMARY", "INPUT", "CANVAS", "A")}
    assert len(controls) >= wanted


def test_dark_and_light_follow_the_system_until_the_reader_chooses(browser, page):
    paper = "return getComputedStyle(document.body).backgroundColor"
    browser.open(page, dark=True)
    dark = browser.run(paper)
    browser.open(page)
    light = browser.run(paper)
    assert dark != light
    browser.driver.find_element("id", "theme").click()
    assert browser.run(paper) == dark
    grid = browser.run("return document.getElementById('plot-loss').layout.xaxis.gridcolor")
    assert grid == browser.run("return eigenview.colour('line')")
    browser.driver.find_element("id", "theme").click()
    assert browser.run(paper) == light


def test_twenty_thousand_points_are_smooth(browser, tmp_path):
    page = write_report([write_run(tmp_path / "large", items=20_000, has_scores=False)])
    browser.open(page)
    assert dots(browser) == 20_000
    browser.run("document.getElementById('map-in').click()")
    browser.settle()
    spent = float(browser.run("return document.getElementById('map-canvas').dataset.milliseconds"))
    assert spent < 200, "a frame of 20,000 dots should not be felt"
    browser.run("document.getElementById('map-reset').click()")
    hover_on_first(browser)
    assert not browser.run("return document.getElementById('map-tip').hidden")


def test_runs_are_overlaid(browser, comparison):
    browser.open(comparison)
    names = browser.run("return document.getElementById('plot-alignment').data.map((trace) => trace.name)")
    assert names == ["first", "second"]
    assert browser.run("return document.querySelectorAll('#scores tbody tr').length") == 2


def test_a_sweeps_page_draws_importance_slices_and_parallel_axes(browser, tmp_path):
    trials = [
        Trial(
            at,
            f"runs/trial-{at:04d}",
            "pruned" if at == 3 else "complete",
            None if at == 3 else 0.5 + at / 20,
            {"rate": 10.0**-at, "<b>": kind},
        )
        for at, kind in enumerate(["a", "<i>b</i>", "a", "b", "a"])
    ]
    broken = Trial(5, "runs/trial-0005", "failed", None, {"rate": 9.0, "<b>": "a"}, note="<script>alert(1)</script>")
    Results("<u>s</u>", "knn", (*trials, broken), {"rate": 0.8, "<b>": 0.2}).save(tmp_path)
    file = write_report([tmp_path])
    browser.open(file)
    assert browser.complaints() == []
    assert browser.requests() == [file.as_uri()]
    drawn = (
        "return [...document.querySelectorAll('.plot')].map(plot => [plot.id, plot.querySelectorAll('svg').length > 0])"
    )
    assert dict(browser.run(drawn)) == dict.fromkeys(
        ("plot-importance", "plot-slice-0", "plot-slice-1", "plot-parallel"), True
    )
    assert browser.run("return document.querySelectorAll('#plot-parallel .js-line').length") == 4
    assert browser.run("return document.querySelectorAll('#plot-slice-0 .point, #plot-slice-1 .point').length") == 8
    assert browser.run("return document.querySelectorAll('#trials tbody tr').length") == 6
    width, window = browser.run(WITHIN)
    assert width <= window
