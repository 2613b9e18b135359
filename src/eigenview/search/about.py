"""What is known about stored embeddings beside the vectors: enough to refuse a wrong query and to find the pictures."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from eigenview.data import Failure
from eigenview.data.spec import OPENERS
from eigenview.names import is_code


@dataclass(frozen=True)
class About:
    """Where embeddings come from."""

    run: str  # its name
    run_folder: str | None  # where it was
    encoder: str  # hash of its weights and build
    layer: str
    view: str
    source: str  # in a few words
    spec: str | None  # what opens the source again; None where it was an object
    classes: tuple[str, ...] | None
    unreadable: tuple[Failure, ...]  # images left out, and why
    key: str  # hash of all that the vectors depend on
    version: str
    digest: str = ""  # SHA-256 of the vectors, row by row; empty in files of before
    loaded: dict[str, str] = field(default_factory=dict)  # name, library, weights, digest of the encoder to begin with


def anchored(spec: str | Path) -> str:
    """The text of a source such that it opens from any working directory: its path, if it has one, made absolute."""
    text = str(spec)
    if isinstance(spec, Path) or Path(text).exists():
        return os.path.abspath(text)
    place, question, options = text.partition("?")
    kind, colon, rest = place.partition(":")
    if place in OPENERS or "://" in place:
        return text
    if colon and kind in OPENERS:
        return f"{kind}:{os.path.abspath(rest)}{question}{options}" if rest else text
    return text if is_code(place) else f"{os.path.abspath(place)}{question}{options}"
