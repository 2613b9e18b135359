"""Escaping: the one place where text becomes HTML."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from eigenview.report.html import Html, element, join, script_json
from tests.report.example_run import HOSTILE


class Reader(HTMLParser):
    """What a parser makes of a piece of HTML: its tags and its text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("text", HOSTILE[:4])
def test_text_comes_out_of_a_parser_as_it_went_in(text):
    read = Reader(element("p", text, title=text))
    assert read.tags == [("p", {"title": text})]
    assert read.text == text


@pytest.mark.parametrize("text", HOSTILE)
def test_json_in_a_script_is_the_same_value_and_cannot_end_it(text):
    written = script_json({text: [text, 1.5, None]})
    assert json.loads(written) == {text: [text, 1.5, None]}
    assert not set(written) & set("<>&\u2028\u2029")
    assert written.isascii()


def test_what_browsers_hide_becomes_visible():
    assert element("p", "a\x00b\x1b\ud800\u202ec") == "<p>a\ufffdb\ufffd\ufffd\ufffdc</p>"
    assert element("p", "53.9\u00a0% é 日本") == "<p>53.9\u00a0% é 日本</p>"


def test_html_nests_and_everything_else_is_escaped():
    inner = element("b", "x < y")
    assert element("p", inner, None, " & ", 3) == "<p><b>x &lt; y</b> &amp; 3</p>"
    assert join(inner, "<") == "<b>x &lt; y</b>&lt;"
    assert isinstance(join("a"), Html)


def test_attributes_without_a_value_stand_alone_or_stay_away():
    made = element("input", type="radio", checked=True, disabled=False, name=None, aria_label="a", class_="b")
    assert made == '<input type="radio" checked aria-label="a" class="b">'


def test_nan_is_refused_since_no_browser_reads_it():
    with pytest.raises(ValueError, match="JSON compliant"):
        script_json([float("nan")])
