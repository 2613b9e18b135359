"""A labelling: what a person said about which pictures, rebuilt from its journal, and what to ask next.

Everything here follows from the journal alone, so a session that is opened again is what it was. Threads take turns;
other processes are kept out by the folder's lock.
"""

import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Condition

import torch

from eigenview.app.journal import Deed, Entry, Journal, rows_now
from eigenview.data.source import NO_LABEL
from eigenview.diagnostics.estimates import share_of_sample
from eigenview.errors import SettingError, WriteError
from eigenview.labels.label_files import GivenLabels, numbered
from eigenview.names import printable
from eigenview.runs.lock import RunLock
from eigenview.search.stored import Embeddings

NONE = "none of these"  # a class like any other, that is always offered
LONGEST = 100  # letters of a class
MOST_CLASSES = 1000
PAUSE = 120.0  # seconds: a longer one between two answers is no work
POPULATION = 1 << 62  # no correction for a finite one: pictures to come are meant too


class Conflict(SettingError):
    """Another window was there first."""


@dataclass(frozen=True)
class Standing:
    """What is settled at one time."""

    turn: int  # how many deeds there were, questions not counted
    said: dict[int, str]  # row → label by hand
    skipped: tuple[int, ...]
    struck: dict[int, str]  # row → what it is not
    asked: tuple[int, ...]  # to ask next: what was taken back, then what was chosen
    is_fresh: bool  # whether they were chosen by all labels that there are
    classes: tuple[str, ...]  # in the order of their first use
    last: int | None  # the place in the journal of what an undo would take back

    @cached_property
    def queue(self) -> tuple[int, ...]:
        """Rows to ask, those that were struck out first."""
        settled = {*self.said, *self.skipped}
        return tuple(row for row in dict.fromkeys((*self.struck, *self.asked)) if row not in settled)


class Session:
    """The one place where answers are taken. ``existing`` are labels that were there before, to be corrected."""

    def __init__(
        self,
        folder: Path,
        stored: Embeddings,
        *,
        existing: GivenLabels | None = None,
        classes: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.folder, self.stored, self.seed = folder, stored, seed
        before = [] if existing is None else [class_name(name) for name in existing.classes]
        numbers = [] if existing is None else existing.labels.tolist()
        self.existing = {row: before[number] for row, number in enumerate(numbers) if number != NO_LABEL}
        self.offered = tuple(dict.fromkeys((*before, *map(class_name, classes))))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(f"cannot make {printable(folder)}: {error.strerror}; name another (--session)") from None
        self.lock = RunLock(folder)
        self.lock.__enter__()
        self.changed = Condition()
        try:
            self.journal = Journal(folder)
        except BaseException:
            self.close()
            raise
        self._rows = {name: row for row, name in enumerate(stored.paths)}
        self.standing = self._rebuilt()

    def close(self) -> None:
        self.lock.__exit__(None, None, None)

    @property
    def lost(self) -> int:
        """Answers about pictures that are not there any more."""
        answers = [entry for entry in self.journal.entries if entry.do == "answer"]
        return sum(len(entry.rows) - len(self._rows_of(entry)) for entry in answers)

    def answer(
        self, rows: Sequence[int], label: str, *, mode: str, had: Sequence[str] | None = None, predicted: str = "",
        probability: float = 0.0,
    ) -> Standing:  # fmt: skip
        """Give rows a label, or take theirs away by an empty one; ``had`` is what the page believes they had."""
        name = class_name(label) if label else ""
        with self.changed:
            standing = self.standing
            if name and name not in standing.classes and len(standing.classes) >= MOST_CLASSES:
                raise SettingError(f"there are {MOST_CLASSES} classes already; is this one a mistake?")
            self._check_unchanged(rows, had)
            return self._write("answer", rows, label=name, mode=mode, predicted=predicted, probability=probability)

    def _check_unchanged(self, rows: Sequence[int], had: Sequence[str] | None) -> None:
        if had is None:
            return
        self._check_rows(rows)
        if len(had) != len(rows):
            raise SettingError(f"had is one label for each of {len(rows)} pictures; got {len(had)}")
        for row, was in zip(rows, had, strict=True):
            if (now := self.label(row)) != was:
                raise Conflict(f"{self.stored.paths[row]} was labelled elsewhere meanwhile: {now or 'no label'}")

    def skip(self, rows: Sequence[int]) -> Standing:
        with self.changed:
            self._check_unchanged(rows, [""] * len(rows))
            return self._write("skip", rows, mode="ask")

    def strike(self, rows: Sequence[int], label: str, *, had: Sequence[str] | None = None) -> Standing:
        """Rows are not what they were said to be: they are asked next."""
        with self.changed:
            self._check_unchanged(rows, had)
            return self._write("strike", rows, label=class_name(label), mode="review")

    def ask(self, rows: Sequence[int], *, after: int, most: int = 10) -> Standing:
        """Ask the first ``most`` of rows, which were chosen by the first ``after`` lines, when the question is through
        that the page shows; those that waited behind it were chosen by fewer labels, and are left.
        """
        with self.changed:
            first = self.standing.queue[:1]
            left_out = {*first, *self.known(), *self.standing.skipped, *self.standing.struck}
            new = [row for row in rows if row not in left_out][:most]
            return self._write("ask", [*first, *new], after=after, stays=len(first)) if new else self.standing

    def undo(self, last: int) -> Standing:
        """Take back the line ``last``, if it is still the last that was done."""
        with self.changed:
            if self.standing.last is None or self.standing.last != last:
                raise Conflict("nothing to undo, or something else was done meanwhile, in another window")
            return self._write("undo", ())

    def label(self, row: int) -> str:
        """By hand, or else as it was before; empty: none."""
        return self.standing.said.get(row) or ("" if row in self.standing.struck else self.existing.get(row, ""))

    def said_of(self, row: int) -> str:
        """What became of a picture that is asked: its label, or that it was skipped; empty: it is open."""
        return self.label(row) or ("skipped" if row in self.standing.skipped else "")

    def known(self) -> dict[int, str]:
        """Row → label of all that have one."""
        kept = {row: name for row, name in self.existing.items() if row not in self.standing.struck}
        return kept | self.standing.said

    def given(self) -> GivenLabels:
        """The same as :func:`choose` and :func:`spread` take it."""
        return numbered(self.known(), len(self.stored))

    def numbers(self) -> tuple[torch.Tensor, tuple[str, ...]]:
        """(n,) the same by number, −1 for none, and the classes that occur, in the order of ``standing.classes``."""
        known = self.known()
        present = set(known.values())
        classes = tuple(name for name in self.standing.classes if name in present)
        places = {name: number for number, name in enumerate(classes)}
        labels = torch.full((len(self.stored),), NO_LABEL)
        if known:
            labels[torch.tensor(list(known))] = torch.tensor([places[name] for name in known.values()])
        return labels, classes

    def figures(self) -> dict[str, float | int | None]:
        """How many by hand, how often what was predicted was right, with its interval, and seconds spent."""
        # of each question that was answered by a class that had labels already: whether that was predicted
        seen, hits = set(self.existing.values()), []
        for entry in (self.journal.entries[place] for place in standing_places(self.journal.entries)):
            if entry.do == "answer" and entry.mode == "ask" and entry.predicted and entry.label in seen:
                hits.append(entry.predicted == entry.label)
            if entry.do == "answer":
                seen.add(entry.label)
        share = share_of_sample(torch.tensor(hits), POPULATION) if hits else None
        times = [entry.at for entry in self.journal.entries if entry.do != "ask"]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        return {
            "by_hand": len(self.standing.said),
            "before": len(self.existing),
            "tried": len(hits),
            "accuracy": None if share is None else share.value,
            "low": None if share is None else share.low,
            "high": None if share is None else share.high,
            "seconds": sum(gap for gap in gaps if 0 <= gap <= PAUSE),
        }

    def sizes(self) -> Counter[str]:
        """How many pictures of each class have it by hand or from before."""
        return Counter(self.known().values())

    def _write(self, do: Deed, rows: Sequence[int], **more: object) -> Standing:
        self._check_rows(rows)
        if not rows and do != "undo":
            raise SettingError("no picture was named")
        distinct = tuple(dict.fromkeys(rows))
        names = tuple(self.stored.paths[row] for row in distinct)
        self.journal.append(Entry(do, round(time.time(), 3), distinct, names, **more))  # type: ignore[arg-type]
        self.standing = self._rebuilt()
        self.changed.notify_all()
        return self.standing

    def _check_rows(self, rows: Sequence[int]) -> None:
        if any(not 0 <= row < len(self.stored) for row in rows):
            raise SettingError(f"pictures have the numbers 0 … {len(self.stored) - 1}; got {list(rows)[:5]}")

    def _rows_of(self, entry: Entry) -> list[int]:
        return rows_now(entry, self.stored.paths, self._rows)

    def _rebuilt(self) -> Standing:
        entries = self.journal.entries
        said: dict[int, str] = {}
        struck: dict[int, str] = {}
        skipped: dict[int, None] = {}
        classes = dict.fromkeys(self.offered)
        deeds = [place for place in standing_places(entries) if entries[place].do != "ask"]
        for entry in (entries[place] for place in deeds):
            _apply(entry, self._rows_of(entry), said, struck, skipped)
            if entry.do == "answer" and entry.label:
                classes[entry.label] = None
        kept, questions = set(deeds), [entry for entry in entries if entry.do == "ask"]
        taken_back = [entry for place, entry in enumerate(entries) if entry.mode == "ask" and place not in kept]
        asked = [row for entry in (*taken_back, *questions[-1:]) for row in self._rows_of(entry)]
        asked = [row for row in asked if row not in self.existing or row in struck]  # a strike may be taken back too
        is_fresh = bool(questions) and {entry.do for entry in entries[questions[-1].after :]} <= {"ask", "skip"}
        turn, last = len(entries) - len(questions), deeds[-1] if deeds else None
        return Standing(turn, said, tuple(skipped), struck, tuple(asked), is_fresh, tuple(classes), last)


def _apply(
    entry: Entry, rows: list[int], said: dict[int, str], struck: dict[int, str], skipped: dict[int, None]
) -> None:
    for row in rows:
        if entry.do == "skip":
            skipped[row] = None
        elif entry.do == "strike":
            said.pop(row, None)
            skipped.pop(row, None)
            struck[row] = entry.label
        elif entry.do == "answer":
            struck.pop(row, None)
            skipped.pop(row, None)
            said.pop(row, None)
            if entry.label:
                said[row] = entry.label


def standing_places(entries: Sequence[Entry]) -> list[int]:
    """Places of the lines that no later undo took back, in order."""
    kept: list[int] = []
    for place, entry in enumerate(entries):
        if entry.do != "undo":
            kept.append(place)
            continue
        for behind in range(len(kept) - 1, -1, -1):
            if entries[kept[behind]].do != "ask":
                del kept[behind]
                break
    return kept


def class_name(text: str) -> str:
    """A class as it is kept: one line of printable letters."""
    name = unicodedata.normalize("NFC", " ".join(text.split()))
    if not name or len(name) > LONGEST or not name.isprintable():
        raise SettingError(f"a class is called by 1 to {LONGEST} printable letters; got {printable(text)[:120]!r}")
    return name
