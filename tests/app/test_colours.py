"""Classes by their marks: colours that every eye tells apart, and after ten of them another shape."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.app.person import Person
from tests.app.places import Client, served, write_pictures
from tests.report.browser import Browser

SEEN_BY = {  # Machado et al. 2009, of linear sRGB
    "most": np.eye(3),
    "protanopes": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopes": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopes": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
SHAPES = """
return [...Array(40).keys()].map((number) => {
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  canvas.width = canvas.height = 28;
  eigenview.shapePath(pen, number, 14, 14, 10);
  pen.fill();
  return [...pen.getImageData(0, 0, 28, 28).data].filter((value, at) => at % 4 === 3).map((value) => value > 127);
});
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served(write_pictures(tmp_path_factory.mktemp("colours") / "place", each=4)) as opened:
        yield opened


@pytest.mark.parametrize("dark", [False, True])
def test_ten_classes_are_told_apart_by_the_colour_blind(browser: Browser, client: Client, dark: bool):
    """At least 15 of CIELAB's units (2.3 are just seen) between any two, as each kind of eye sees them."""
    Person(browser, client.address, dark=dark)
    colours = browser.run("return [...Array(10).keys()].map((number) => eigenview.groupColour(number))")
    linear = np.array([[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in colours])
    linear = np.where(linear <= 0.04045, linear / 12.92, ((linear + 0.055) / 1.055) ** 2.4)
    for kind, matrix in SEEN_BY.items():
        seen = lab(np.clip(linear @ np.array(matrix).T, 0, 1))
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2) + 1000 * np.eye(10)
        assert apart.min() > 15, (kind, np.unravel_index(apart.argmin(), apart.shape), apart.min())


def test_forty_classes_differ_in_colour_or_shape(browser: Browser, client: Client):
    """Of two with one colour, at least an eighth of the ink lies elsewhere."""
    Person(browser, client.address)
    shapes = np.array(browser.run(SHAPES)).reshape(4, 10, -1)
    assert (shapes == shapes[:, :1]).all()  # ten colours to each shape
    inks = shapes[:, 0]
    apart = [(a ^ b).sum() / (a | b).sum() for number, a in enumerate(inks) for b in inks[:number]]
    assert min(apart) > 1 / 8


def lab(linear: np.ndarray) -> np.ndarray:
    """CIELAB of linear sRGB (n, 3) under D65."""
    to_xyz = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
    x = linear @ to_xyz.T / np.array([0.9505, 1, 1.0888])
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
