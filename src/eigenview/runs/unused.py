"""Folders that were made for runs which were then refused: removed again, as far as they hold nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigenview.errors import EigenviewError

SAYS_NOTHING = {  # what a folder says about itself before anything is trained or measured
    *("config.json", "encoder.json", "data.json", "environment.json", "method.json", "tokenizer.json"),
    *("unreadable.jsonl", ".lock"),
}
_made: dict[Path, Path] = {}  # folder → the highest one above it that was made for it


def make_folder(folder: Path) -> None:
    """Make a run's folder, and remember it if it was not there."""
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if new:
        _made[folder.absolute()] = new[-1].absolute()


def remove_unused() -> None:
    """Remove what this process made for runs that never came to be."""
    while _made:
        folder, highest = _made.popitem()
        with suppress(OSError):  # whatever is not empty stays
            files = list(folder.iterdir())
            if all(file.name in SAYS_NOTHING and file.is_file() for file in files):
                for file in files:
                    file.unlink()
                while folder != highest.parent:
                    folder.rmdir()
                    folder = folder.parent


@contextmanager
def removing_unused() -> Iterator[None]:
    """A refusal leaves no folder behind that it found none of."""
    try:
        yield
    except EigenviewError:
        remove_unused()
        raise
