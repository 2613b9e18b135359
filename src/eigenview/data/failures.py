"""Items that could not be used: counted, named once each, and written to a log."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from eigenview.appending import append_line
from eigenview.errors import DataError, EigenviewError
from eigenview.names import LONGEST_REASON, printable, reason_of


def shown(value: object) -> str:
    """A value from a file as a message may quote it: escaped, and cut where it is endless."""
    text = ascii(value[:LONGEST_REASON] if isinstance(value, (str, bytes)) else value)
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}…"


@contextmanager
def blamed_on(place: str | Path, trouble: str = "cannot be read") -> Iterator[None]:
    """Whatever a damaged file makes a library raise, which is nearly anything, as one line that names the file."""
    try:
        yield
    except EigenviewError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{printable(place)} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except Exception as error:
        raise DataError(f"{printable(place)} {trouble}: {reason_of(error)}") from error


@dataclass(frozen=True)
class Failure:
    """An item that could not be used, and why."""

    name: str
    reason: str


def known_failures(source: object) -> tuple[Failure, ...]:
    """What a source could not use when it was opened: folders without entry, images left out as it was decoded."""
    folders = tuple(Failure(name, "the folder cannot be read") for name in getattr(source, "unreadable_folders", ()))
    return (*folders, *getattr(source, "unreadable", ()))


class FailureLog:
    """Each failing item once, in memory and, one JSON line each, in a file that several processes may share.

    What the file names already, from an earlier pass or before a resume, is not written again.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self._written: set[str] = set()
        if self.path is not None:  # better a complaint now than in the middle of an epoch
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_file():
                self._written.update(self.path.read_text(encoding="utf-8", errors="replace").split("\n"))
        self.reasons: dict[str, str] = {}

    def note(self, failures: Iterable[Failure]) -> None:
        for failure in failures:
            if failure.name in self.reasons:
                continue
            self.reasons[failure.name] = failure.reason
            line = json.dumps(asdict(failure), ensure_ascii=False)
            if self.path is not None and line not in self._written:
                append_line(self.path, line)
