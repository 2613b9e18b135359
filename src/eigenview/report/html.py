"""HTML that cannot be injected into: whatever is not HTML already is escaped as it goes in."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from unicodedata import category

VOID = frozenset({"br", "hr", "img", "input", "meta", "wbr"})


class Html(str):
    """Text that is HTML already. Only this module makes it from user text."""

    __slots__ = ()


Child = str | int | Html | None


def element(tag: str, *children: Child, **attributes: str | int | bool | None) -> Html:
    """``<tag attribute="…">children</tag>``, everything but ``Html`` escaped; ``"p.note"`` is a p of the class note.

    An underscore at the end of an attribute's name is dropped (``class_``), others become hyphens; True stands for an
    attribute without a value, False and None leave it out.
    """
    tag, *classes = tag.split(".")
    written = [f' class="{" ".join(classes)}"'] if classes else []
    for name, value in attributes.items():
        if value is not None and value is not False:
            key = name.rstrip("_").replace("_", "-")
            written.append(f" {key}" if value is True else f' {key}="{_text(str(value))}"')
    start = f"<{tag}{''.join(written)}>"
    return Html(start) if tag in VOID else Html(f"{start}{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    """The children one after another; None is nothing."""
    return Html("".join(child if isinstance(child, Html) else _text(child) for child in children if child is not None))


def table_row(head: Child, *cells: Html) -> Html:
    """A line of a :func:`table`."""
    return element("tr", element("th", head, scope="row"), *cells)


def table(heads: Sequence[str], rows: Iterable[Html], *, label: str) -> Html:
    """A table that scrolls inside its own box, so that a phone's page does not."""
    head = element("tr", *(element("th", name, scope="col") for name in heads))
    inner = element("table", element("thead", head), element("tbody", *rows))
    return element("div.scroll", inner, tabindex=0, role="region", aria_label=label)


def asset(name: str) -> Html:
    """A file of the page's own: its styles, scripts and fixed markup."""
    return Html((files("eigenview.report") / "assets" / name).read_text(encoding="utf-8"))


def script_json(value: object) -> Html:
    """JSON that may stand inside ``<script>``: no ``<``, no line separator, no NaN; numbers to 6 digits."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _text(child: str | int) -> str:
    """Escaped; what browsers hide becomes visible: control characters, lone surrogates, marks that turn text round."""
    return escape("".join("\N{REPLACEMENT CHARACTER}" if _is_hidden(letter) else letter for letter in str(child)))


def _is_hidden(character: str) -> bool:
    if character in "\n\t":
        return False
    return category(character) in ("Cc", "Cs") or "\u202a" <= character <= "\u202e" or "\u2066" <= character <= "\u2069"
