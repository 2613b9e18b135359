"""Items that could not be used: counted, named once each, and written to a log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Failure:
    """An item that could not be used, and why."""

    name: str
    reason: str


class FailureLog:
    """Each failing item once, in memory and, one JSON line each, in a file that several processes may share."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None:  # better a complaint now than in the middle of an epoch
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self.reasons: dict[str, str] = {}

    def note(self, failures: Iterable[Failure]) -> None:
        for failure in failures:
            if failure.name in self.reasons:
                continue
            self.reasons[failure.name] = failure.reason
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(failure), ensure_ascii=False) + "\n")
