"""Which column is which: by the name the user gives, or by the names that data sets commonly use."""

from __future__ import annotations

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
    return tuple(printable(name) for name in names), numbers


def class_names(metadata: Mapping[bytes, bytes] | None, label: str) -> tuple[str, ...] | None:
    """Class names from a Parquet schema's metadata: a JSON list ``classes``, or Hugging Face's ``ClassLabel``."""
    if not metadata:
        return None
    try:
        if b"classes" in metadata:
            return _names(json.loads(metadata[b"classes"]))
        if b"huggingface" in metadata:
            feature = json.loads(metadata[b"huggingface"])["info"]["features"].get(label, {})
            return _names(feature.get("names"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # metadata is a courtesy: without it, numbers do
    return None


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().removeprefix("-").isdecimal() and len(value) < 100  # longer ones are no numbers to Python
    return not isinstance(value, bool)


def _names(listed: object) -> tuple[str, ...] | None:
    if isinstance(listed, list) and listed and all(isinstance(name, str) for name in listed):
        return tuple(printable(name) for name in listed)
    return None
