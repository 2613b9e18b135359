"""The map in a real browser: by mouse, and by keys alone."""

from __future__ import annotations

from tests.app.person import Person
from tests.app.places import Client
from tests.report.browser import Browser

DRAWN = """
const map = document.getElementById("map-canvas"), pen = map.getContext("2d"), seen = new Set();
const { data } = pen.getImageData(0, 0, map.width, map.height);
let best = [0, 0], least = Infinity;
for (let at = 0; at < data.length / 4; at += 1) {
  const x = at % map.width, y = Math.floor(at / map.width), far = Math.hypot(x - map.width / 2, y - map.height / 2);
  if (data[4 * at + 3] <= 250) continue;
  seen.add(data.slice(4 * at, 4 * at + 3).join());
  if (far < least) { least = far; best = [x, y]; }
}
return [seen.size, ...best.map((value) => value * map.clientWidth / map.width)];
"""  # how many colours, and where the dot nearest to the middle is


def test_the_map_takes_on_colour_and_a_lasso_labels_many(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.answer_truly(9)
    person.go("map")
    drawn = "return document.getElementById('map-canvas').dataset.spread"
    person.until(lambda: browser.run(drawn) and int(browser.run(drawn)) >= person.turn)
    colours, x, y = browser.run(DRAWN)
    assert colours > 3
    person.shot("map")
    browser.point_at("map-canvas", x, y)  # hold the mouse on a dot: its picture
    person.until(lambda: browser.run("return document.querySelector('#map-tip img')?.naturalWidth"))
    dot = int(browser.run("return document.getElementById('map-tip').dataset.point"))
    assert f"{dot:03d}.png" in person.text("map-tip")
    browser.point_at("map-canvas", x, y, click=True)  # click it: its neighbours
    near = client.get(f"/api/list/near?about={dot}")["rows"][:6]
    shown = "return [...document.querySelectorAll('#map-tiles .tile')].map((tile) => Number(tile.dataset.row))"
    person.until(lambda: browser.run(shown)[:6] == near)
    person.shot("map-neighbours")
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
    person.shot("map-lasso")
    person.press("1")
    assert len(client.page.session.standing.said) == 9 + chosen
    person.press("u")  # one undo takes all of them back
    assert len(client.page.session.standing.said) == 9
    assert browser.complaints() == []


def test_keys_alone_choose_on_the_map_go_through_the_lists_and_export(browser: Browser, client: Client):
    person = Person(browser, client.address)
    person.go("review")  # before anything was spread
    person.until(lambda: "nothing was spread yet" in person.text("review-note"))
    person.go("ask")
    person.answer_truly(9)
    person.go("map")
    canvas = "return Number(document.getElementById('map-canvas').dataset."
    person.until(lambda: browser.run(f"{canvas}spread)") >= person.turn)
    browser.press("\ue014")  # an arrow: the one in the middle
    person.until(lambda: browser.run(f"{canvas}picked)") >= 0)
    browser.settle()
    browser.press("m")  # choose it; and on the way, with Shift
    for _ in range(2):
        browser.command("Input.dispatchKeyEvent", type="keyDown", key="ArrowDown", code="ArrowDown", modifiers=8)
    person.until(lambda: browser.run(f"{canvas}chosen)") >= 2)
    chosen = browser.run(f"{canvas}chosen)")
    browser.press("*")  # and what is nearest, once that is known
    person.until(lambda: browser.run(f"{canvas}chosen)") > chosen + 5)
    chosen = browser.run(f"{canvas}chosen)")
    person.press("1")
    assert len(client.page.session.standing.said) == 9 + chosen
    person.press("u")
    person.go("review")
    name = "return document.getElementById('review-list').value"
    first = browser.run(name)
    browser.press("l")
    person.until(lambda: browser.run(name) == "suspects ")
    browser.press("L")
    person.until(lambda: browser.run(name) == first)
    browser.press("e")
    browser.press("\ue014", "\ue007")  # the next form, Parquet, and Enter
    person.until(lambda: "labels-1" in person.text("export-said"))
    assert sorted(file.suffix for file in (client.page.out / "labels-1").iterdir()) == [
        ".parquet", ".parquet", ".safetensors"
    ]  # fmt: skip
    browser.press("\ue00c")  # Escape closes it
    assert browser.run("return document.querySelectorAll('dialog[open]').length") == 0
    assert browser.complaints() == []
