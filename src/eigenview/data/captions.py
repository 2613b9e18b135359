"""Captions of an image: which columns hold them, and what of them is text."""

from __future__ import annotations

from collections.abc import Sequence

from eigenview.data.columns import find_column, need_column

JOINERS = "\u200c\u200d"
ORIGINAL, REWRITE = "caption", "rewrite"  # what the names of columns begin with


class Captions(tuple[str, ...]):
    """What is written about an image. ``by_set``: the same with "" where a set of captions has none of it."""

    by_set: tuple[str, ...]


def by_set(captions: tuple[str, ...]) -> tuple[str, ...]:
    """The captions in the places that their columns or lists gave them: "" where one is blank."""
    return captions.by_set if isinstance(captions, Captions) else captions


def as_captions(value: object) -> tuple[str, ...]:
    """One string or a list of them; None and blanks are left out, but :func:`by_set` knows where they were.

    Lines and tabs become single spaces. Letters that are no text but commands, to a terminal or of direction, are left
    out; joiners, which Persian, Hindi and emoji need, are not. What is no text (a number, say) counts as blank.
    """
    texts = [_plain(text) if isinstance(text, str) else "" for text in listed_texts(value)]
    while texts and not texts[-1]:
        texts.pop()
    if all(texts):
        return tuple(texts)
    captions = Captions(filter(None, texts))
    captions.by_set = tuple(texts)
    return captions


def listed_texts(value: object) -> list[object]:
    """What one column holds, one string or a list, as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def caption_columns(named: str | None, present: Sequence[str], place: str) -> list[str]:
    """The columns of captions: those named, by commas, or all that begin with ``caption``, then with ``rewrite``.

    Where none begins with ``caption``, the first of the other common names stands for them.
    """
    if named is not None:
        return [need_column("captions", name, present, place) for name in _names(named, present)]
    originals = [name for name in present if name.startswith(ORIGINAL)]
    if not originals and (other := find_column("captions", None, present, place)) is not None:
        originals = [other]
    return originals + [name for name in present if name.startswith(REWRITE)]


def _names(named: str, present: Sequence[str]) -> list[str]:
    return [named] if named in present else named.split(",")


def _plain(text: str) -> str:
    text = " ".join(text.split())
    if text.isprintable():
        return text
    return "".join(letter for letter in text if letter.isprintable() or letter in JOINERS)
