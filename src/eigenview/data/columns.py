"""Which column is which: by the name the user gives, or by the names that data sets commonly use; captions as text."""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from eigenview.data.failures import shown
from eigenview.data.source import LARGEST_LABEL, NO_LABEL, Labels
from eigenview.errors import DataError
from eigenview.names import printable

COMMON_NAMES = {
    "image": ("image", "img", "path", "file_name", "filename", "file", "filepath", "image_path", "jpg", "png", "bytes"),
    "label": ("label", "labels", "fine_label", "class", "target"),
    "captions": ("captions", "caption", "text", "texts", "sentences", "caption_text"),
    "depth": ("depth", "depth_map"),
}

MOST_NAMED, LONGEST_NAME = 12, 60  # columns that a message lists, and letters of each


def find_column(role: str, named: str | None, present: Sequence[str], place: str) -> str | None:
    """The column for ``role``: the one named, or the first common name that is present, or None."""
    if named is None:
        return next((name for name in COMMON_NAMES[role] if name in present), None)
    if named not in present:
        raise DataError(f"{place} has no column {named!r} for the {role}; it has {listed(present)}")
    return named


def listed(names: Sequence[str]) -> str:
    """Column names for a message: the first dozen, as a terminal may show them."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(printable(name[:LONGEST_NAME]) for name in names[:MOST_NAMED]) + more


def need_column(role: str, named: str | None, present: Sequence[str], place: str) -> str:
    column = find_column(role, named, present, place)
    if column is None:
        raise DataError(
            f"{place} has no {role} column (looked for {', '.join(COMMON_NAMES[role])}); "
            f"it has {listed(present) or 'no columns at all'}: name the right one with {role}="
        )
    return column


def numbered_labels(values: Sequence[object], place: str) -> tuple[tuple[str, ...] | None, Labels]:
    """Labels as numbers. Whole numbers stay what they are; if any is a word, all are names, numbered in sorted order.

    None, the empty string and NaN (how tables write a missing number) mean no label.
    """
    kept = [None if value is None or value == "" or value != value else value for value in values]
    for value in kept:
        if (isinstance(value, float) and not value.is_integer()) or not isinstance(value, str | int | float | None):
            raise DataError(f"labels must be whole numbers or names; {place} has {shown(value)}")
    if all(value is None or _is_whole(value) for value in kept):
        whole = [NO_LABEL if value is None else int(value) for value in kept]  # type: ignore[call-overload]
        if whole and not NO_LABEL <= min(whole) <= max(whole) <= LARGEST_LABEL:
            wrong = min(whole) if min(whole) < NO_LABEL else max(whole)
            raise DataError(f"labels must be at least 0 (or empty for none) and below 2³¹; {place} has {wrong}")
        return None, np.array(whole, dtype=np.int64)
    names = sorted({str(value) for value in kept if value is not None})
    places = {name: number for number, name in enumerate(names)}
    numbers = np.array([NO_LABEL if value is None else places[str(value)] for value in kept], dtype=np.int64)
    return tuple(map(printable, names)), numbers


def class_names(metadata: Mapping[bytes, bytes] | None, label: str) -> tuple[str, ...] | None:
    """Class names from a Parquet schema's metadata: a JSON list ``classes``, or Hugging Face's ``ClassLabel``."""
    known = metadata or {}
    try:
        if b"classes" in known:
            names = json.loads(known[b"classes"])
        else:
            names = json.loads(known[b"huggingface"])["info"]["features"][label]["names"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # metadata is a courtesy: without it, numbers do
    is_list = isinstance(names, list) and names and all(isinstance(name, str) for name in names)
    return tuple(map(printable, names)) if is_list else None


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().removeprefix("-").isdecimal() and len(value) < 100  # longer ones are no numbers to Python
    return not isinstance(value, bool)


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
        names = [named] if named in present else named.split(",")
        return [need_column("captions", name, present, place) for name in names]
    originals = [name for name in present if name.startswith(ORIGINAL)]
    if not originals and (other := find_column("captions", None, present, place)) is not None:
        originals = [other]
    return originals + [name for name in present if name.startswith(REWRITE)]


def _plain(text: str) -> str:
    text = " ".join(text.split())
    if text.isprintable():
        return text
    return "".join(letter for letter in text if letter.isprintable() or letter in JOINERS)
