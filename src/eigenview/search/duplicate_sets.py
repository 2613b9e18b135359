"""Copies of one picture: sought by their vectors, confirmed on their pixels, gathered into sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from pathlib import Path
from typing import Literal

from eigenview.data import Source
from eigenview.data.likeness import Verdict, first_look, same_picture
from eigenview.diagnostics.neighbours import COSINE
from eigenview.errors import SettingError
from eigenview.files import to_json, write_text
from eigenview.names import counted
from eigenview.progress import progress_bar
from eigenview.search.candidates import (
    Candidates,
    ImageOf,
    find_candidates,
    has_pictures,
    read_sketches,
    read_thumbnail,
)
from eigenview.search.pictures import Pictures
from eigenview.search.stored import Embeddings, open_embeddings

Match = Literal["first", "identical", "same"]
Doubt = Literal["different", "unclear", "missing"]
GRAVER: tuple[Doubt, ...] = ("different", "unclear", "missing")  # where an image has several, the last counts

NEIGHBOURS = 5  # of each image are compared with it, however far they are
MOST_PAIRS = 1_000_000
SHOWN, SHOWN_MEMBERS = 10, 4  # sets in the terminal, and images of each
MOST_DOUBTFUL = 100  # pairs that were not confirmed, named
KEPT_THUMBNAILS = 1024  # 65 kB each at most


@dataclass(frozen=True)
class Member:
    """An image of a set."""

    row: int  # in the embeddings
    index: int  # in the source
    path: str
    label: str | None
    match: Match  # first: the others were compared with it. identical: equal pixels or files. same: one picture
    cosine: float  # of its vector with the first's


@dataclass(frozen=True)
class DuplicateSet:
    """Copies of one picture: each was compared with the first on the pixels, and confirmed."""

    members: tuple[Member, ...]  # in the order of the source
    lowest: float  # cosine of a member with the first
    highest: float


@dataclass(frozen=True)
class DoubtfulPair:
    """Two images whose vectors are near-identical, though nothing says that they are copies."""

    rows: tuple[int, int]
    paths: tuple[str, str]
    cosine: float
    doubt: Doubt  # different: their pixels say so. unclear: too little detail to tell. missing: a picture is gone


@dataclass(frozen=True)
class DuplicateSets:
    """Sets of copies, the closest first, and what was not confirmed."""

    sets: tuple[DuplicateSet, ...]
    threshold: float  # cosine from which all pairs were compared; of others, those of nearest neighbours
    images: int  # that were searched
    alike: int  # images whose vectors are that close to another's
    different: int  # of those: every picture as close is another one
    unclear: int  # there is too little detail to tell
    missing: int  # images whose picture, or those as close, could not be found or read
    doubtful: tuple[DoubtfulPair, ...]  # up to 100 pairs that were not confirmed, the closest first
    is_complete: bool  # False: there were more pairs than are looked at

    @property
    def copies(self) -> int:
        """How many images are confirmed copies of another: all members but the first of each set."""
        return sum(len(copies.members) - 1 for copies in self.sets)

    def lines(self) -> list[str]:
        """For a terminal: what is confirmed, the closest sets, and what is not."""
        copies = f"{self.copies:,} {'is a copy' if self.copies == 1 else 'are copies'} of another"
        among = f"among {counted(self.images, 'image')}"
        sets = f"{counted(len(self.sets), 'set')} of copies {among}"
        said = [f"{sets}: {copies}, confirmed on the pixels" if self.sets else f"no copies found {among}"]
        for shown in self.sets[:SHOWN]:
            paths = [member.path for member in shown.members]
            more = f"  and {len(paths) - SHOWN_MEMBERS:,} more" if len(paths) > SHOWN_MEMBERS else ""
            said.append(f"  {'  =  '.join(paths[:SHOWN_MEMBERS])}{more}")
        if others := self.different + self.unclear:
            said.append(
                f"{others:,} other images are as close by their vectors (cosine {self.threshold:g} or more), which "
                "proves nothing:"
            )
            said += [f"  {self.different:,} are different pictures"] if self.different else []
            said += [f"  {self.unclear:,} have too little detail to tell: not confirmed"] if self.unclear else []
        if self.missing:
            said.append(f"{self.missing:,} could not be compared, since a picture was not found: not confirmed")
        if not self.is_complete:
            said.append("there are more pairs than can be compared: not all are in this list")
        return said

    def to_json(self) -> str:
        return to_json(self)

    def write(self, out: str | Path) -> Path:
        """``to_json`` into a file, whole or not at all."""
        return write_text(Path(out), self.to_json() + "\n")


def duplicates(
    embeddings: Embeddings | str | Path,
    *,
    cosine: float = COSINE,
    neighbours: int = NEIGHBOURS,
    most: int = MOST_PAIRS,
    source: Source | None = None,
) -> DuplicateSets:
    """Copies of one picture: sought by vectors, confirmed on the pixels.

    Each image is compared with its ``neighbours`` nearest, however far they are, and with all whose vectors have a
    cosine of at least ``cosine``. Where there are more than ``most`` pairs of that cosine, it is raised until there are
    not; ``threshold`` is the one that was used. Every picture is read once; with ``neighbours=0`` only those that have
    others that close.

    Vectors alone prove nothing: plain pictures are near-identical to any encoder, and a chain of them has no end. So
    each candidate is compared with the first of its set on the pixels (:func:`eigenview.data.likeness.same_picture`),
    and joins only if they say that both are one picture. Pictures are found as on contact sheets, or in ``source``.
    """
    if neighbours < 0:
        raise SettingError(f"neighbours to compare with are 0 or more; got {neighbours}")
    stored = embeddings if isinstance(embeddings, Embeddings) else open_embeddings(embeddings)
    if len(stored) < 2:
        return DuplicateSets((), cosine, len(stored), 0, 0, 0, 0, (), is_complete=True)
    image_of = Pictures(stored, source).image
    near = neighbours if has_pictures(image_of, len(stored)) else 0  # nothing could be confirmed
    candidates = find_candidates(stored.vectors, cosine=cosine, most=most, neighbours=near)
    comparison = _Comparison(stored, candidates, image_of)
    with progress_bar("comparing pictures", total=len(candidates.rows)) as advance:
        for row in candidates.rows.tolist():
            comparison.gather(row)
            advance(1)
    return comparison.result()


class _Comparison:
    """Sets gathered one after the other: a row that is in none begins one, and is compared with what may be copies."""

    def __init__(self, stored: Embeddings, candidates: Candidates, image_of: ImageOf) -> None:
        self.stored, self.candidates = stored, candidates
        self.sketches = read_sketches(image_of, candidates.rows)
        self.first_of: dict[int, int] = {}  # row → the first of its set
        self.members: dict[int, list[Member]] = {}  # first → the others
        self.doubts: dict[int, Doubt] = {row: "missing" for row, sketch in self.sketches.items() if sketch is None}
        self.doubtful: list[tuple[float, int, int, Doubt]] = []  # (cosine, first, row, doubt): a heap of the closest
        self._thumbnail = lru_cache(KEPT_THUMBNAILS)(lambda row: read_thumbnail(image_of, row))

    def gather(self, first: int) -> None:
        """Compare ``first`` with its candidates, and with those of its copies. Earlier rows have had their turn."""
        if first in self.first_of:
            return
        waiting, compared = [first], {first}
        while waiting:
            member = waiting.pop()
            for row, cosine in self.candidates.of(member):
                if row < first or row in compared or row in self.first_of:
                    continue
                compared.add(row)
                verdict = self._compare(first, row)
                alike = cosine
                if member != first:
                    a, b = self.stored.vectors[[first, row]].double()
                    alike = min(1.0, float(a @ b / (a.norm() * b.norm()).clamp_min(1e-300)))
                if verdict == "identical" or verdict == "same":
                    self.first_of[row] = first
                    self.members.setdefault(first, []).append(self._member(row, verdict, alike))
                    waiting.append(row)
                elif self.candidates.is_close(alike):
                    self._doubt(first, row, alike, verdict)

    def _compare(self, first: int, row: int) -> Verdict | Literal["missing"]:
        a, b = self.sketches[first], self.sketches[row]
        if a is None or b is None:
            return "missing"
        seen = first_look(a, b).verdict
        if seen != "same":
            return seen
        whole = self._thumbnail(first), self._thumbnail(row)
        return "missing" if whole[0] is None or whole[1] is None else same_picture(whole[0], whole[1]).verdict

    def _doubt(self, first: int, row: int, cosine: float, doubt: Doubt) -> None:
        for either in (first, row):
            self.doubts[either] = max(self.doubts.get(either, doubt), doubt, key=GRAVER.index)
        heappush(self.doubtful, (cosine, first, row, doubt))
        if len(self.doubtful) > MOST_DOUBTFUL:
            heappop(self.doubtful)

    def result(self) -> DuplicateSets:
        sets = [self._set(first, others) for first, others in self.members.items()]
        inside = {member.row for copies in sets for member in copies.members}
        counts = Counter(doubt for row, doubt in self.doubts.items() if row not in inside)
        return DuplicateSets(
            sets=tuple(sorted(sets, key=lambda copies: (-copies.highest, copies.members[0].row))),
            threshold=self.candidates.threshold,
            images=len(self.stored),
            alike=self.candidates.close_rows,
            different=counts["different"],
            unclear=counts["unclear"],
            missing=counts["missing"],
            doubtful=tuple(
                DoubtfulPair((first, row), (self.stored.paths[first], self.stored.paths[row]), cosine, doubt)
                for cosine, first, row, doubt in sorted(self.doubtful, reverse=True)
            ),
            is_complete=self.candidates.is_complete,
        )

    def _set(self, first: int, others: list[Member]) -> DuplicateSet:
        others.sort(key=lambda member: member.row)
        cosines = [member.cosine for member in others]
        return DuplicateSet((self._member(first, "first", 1.0), *others), min(cosines), max(cosines))

    def _member(self, row: int, match: Match, cosine: float) -> Member:
        stored = self.stored
        return Member(row, int(stored.index[row]), stored.paths[row], stored.label_name(row), match, cosine)
